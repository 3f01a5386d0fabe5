"""A reader without a head, and vectors of texts."""
