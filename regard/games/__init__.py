"""Games to learn from and to play: own ones without any dependency, and those of gymnasium."""
