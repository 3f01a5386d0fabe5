"""The four special tokens, the first ids of every vocabulary.  No text that a user types becomes one of them."""

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
PAD, START, END, UNKNOWN = range(len(SPECIAL))
