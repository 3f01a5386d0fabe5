"""Our run and theirs, on the same inputs."""
