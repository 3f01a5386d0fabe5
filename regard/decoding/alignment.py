"""Which source word each target word came from, as the attention of a translation says it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.errors import RegardError

NO_WORD = -1  # a token that belongs to no word: the start, the end


def align(weights: Tensor, target_words: Sequence[int], source_words: Sequence[int]) -> list[tuple[int, int]]:
    """(source word, target word) for each target word, in order: the source word that it looks at most.

    weights (target tokens, source tokens): row i is the attention while target token i is written.
    `target_words` and `source_words` say to which word each token belongs (NO_WORD: to none).  A word looks with
    the mean of its tokens and is looked at with their sum: weights (0.4, 0.2 0.2 0.2) on (a, b b b) choose b.
    """
    if weights.shape != (len(target_words), len(source_words)):
        got = f"{tuple(weights.shape)} for {len(target_words)} target and {len(source_words)} source tokens"
        raise RegardError(f"alignment needs one weight per target token and source token, got {got}")
    targets, sources = membership(target_words), membership(source_words)
    if not targets.numel() or not sources.numel():
        return []
    means = targets / targets.sum(1, keepdim=True).clamp(min=1)
    looks = means @ weights.double().cpu() @ sources.T  # (target words, source words)
    return [(int(looks[word].argmax()), word) for word in sorted(set(target_words) - {NO_WORD})]


def membership(words: Sequence[int]) -> Tensor:
    """(words, tokens): 1 where the token belongs to the word."""
    n_words = max(words, default=NO_WORD) + 1
    return (torch.arange(n_words)[:, None] == torch.tensor(words, dtype=torch.long)).double()
