"""The past of a series gets its future."""
