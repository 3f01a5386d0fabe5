"""A question gets the span of a text that answers it."""
