"""Where a text is cut into words: GPT-2's pattern (Radford et al., 2019), as the ByteLevel cut of `tokenizers` has it.

A word keeps the space before it, so the words of a text, joined, are the text:

    "It didn't  cross."  →  "It", " didn", "'t", " ", " cross", "."

Letters, digits and punctuation never share a word; no word therefore reads "</s>" or "<pad>", the special tokens.
"""

import re

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CUT = Split(Regex(PATTERN), behavior="isolated")

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")  # the first ids of every vocabulary; those that a recipe names follow
PAD, START, END, UNKNOWN = range(len(SPECIAL))

# With a letter or digit next to its brackets: no cut of a text into words leaves such a name whole.
NAME = re.compile(r"<[a-z0-9][\w-]*>", re.ASCII | re.IGNORECASE)


def split(text: str) -> list[str]:
    return [word for word, _ in CUT.pre_tokenize_str(text)]
