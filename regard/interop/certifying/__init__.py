"""Our run and theirs, asked the same questions."""
