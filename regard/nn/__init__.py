"""The equations every architecture is built from.  They know nothing of words, tasks or training.

Shape letters, the same in every file:
    N rows (one per token, no padding)   B sequences   T positions   Q queries   K keys
    H heads   D d_model   E d_head   V vocabulary
"""
