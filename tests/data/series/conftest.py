"""The tables of these tests are written by `tiny_series`."""
