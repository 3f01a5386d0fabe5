"""Similarity: a vector for each text; texts that belong together are near."""
