"""Corpora that are made here, by rule or from what Python brings."""
