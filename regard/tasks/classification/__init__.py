"""A text gets a label, from a classifier or as a word that is written."""
