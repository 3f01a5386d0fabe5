"""regard: the Transformer, whole.  Train it, use it, look into it."""

__version__ = "0.1.0"
