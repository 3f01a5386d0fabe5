"""Docstrings and comments as Markdown."""

import re
import textwrap

WIDTH = 120  # columns of prose


def markdown(text: str) -> str:
    """A docstring or comment as one line of Markdown: what looks like a tag or a link is neither."""
    spans = re.split(r"(`[^`]*`)", " ".join(text.split()))
    for i in range(0, len(spans), 2):
        spans[i] = re.sub(r"</?[\w-]+>", r"`\g<0>`", spans[i]).replace("](", "]\\(")
    return "".join(spans)


def cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[^A-Z]\.) +(?=[A-Z`\"'])", paragraph)[0]
