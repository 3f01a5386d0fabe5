"""Bag of words or a sequence model?  A rule of thumb for classification, measured on the training texts."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import DataError

THRESHOLD = 1500  # Chollet, Deep Learning with Python, second edition (2021), chapter 11


@dataclass(frozen=True, kw_only=True)
class Advice:
    ratio: float  # samples ÷ mean words per sample
    suggestion: str  # the architecture to try first
    sentence: str


def advice(texts: Sequence[str]) -> Advice:
    """Few samples of many words: a bag of bigrams; many samples of few words: a sequence model."""
    n_words = sum(len(text.split()) for text in texts)
    if not n_words:
        raise DataError(f"there is no advice without words: the {len(texts)} texts are empty")
    mean = n_words / len(texts)
    ratio = len(texts) / mean
    suggestion = "bag" if ratio < THRESHOLD else "sequence"
    verdict = {
        "bag": "below about 1,500 a bag of bigrams is hard to beat",
        "sequence": "above about 1,500 a sequence model should beat a bag of bigrams",
    }[suggestion]
    measured = f"{len(texts):,} samples ÷ {mean:.1f} words each = {ratio:,.0f}"
    return Advice(ratio=ratio, suggestion=suggestion, sentence=f"{measured}: {verdict}; a rule of thumb, so try both")
