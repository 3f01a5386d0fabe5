"""Masked words filled in: what may stand in place of each [MASK] of a text."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import torch

from regard.data.batching.batch import read_together
from regard.models.masked import MaskedWords, rows_at
from regard.tasks.framing import SEPARATOR
from regard.tasks.pretraining.verbs import Filled
from regard.text.tokenizer import Tokenizer


@torch.no_grad()
def fill(
    model: MaskedWords, tokenizer: Tokenizer, encoded: Sequence[np.ndarray], top: int, budget: int
) -> list[Filled]:
    """One answer per text, in order."""
    mask, limit = tokenizer.special_id("<mask>"), model.max_length
    documents = [ids if len(ids) <= limit else np.append(ids[: limit - 1], tokenizer.end_id) for ids in encoded]
    options: list[list[list[tuple[int, float]]]] = [[] for _ in documents]
    for group, tokens, layout in read_together(documents, budget, model.device):
        places = (tokens == mask).nonzero()[:, 0]
        rows = rows_at(model(tokens, layout), places)
        shares, words = model.word_logits(rows).float().softmax(-1).topk(min(top, tokenizer.vocab_size), -1)
        owners = np.repeat(group, [len(documents[i]) for i in group])[places.cpu().numpy()]
        for i, ids, row in zip(owners, words.tolist(), shares.tolist(), strict=True):
            options[i].append(list(zip(ids, row, strict=True)))
    answers = []
    for ids, document, likeliest in zip(encoded, documents, options, strict=True):
        notes = [] if likeliest else ["nothing is masked"]
        if len(ids) > limit:
            notes.append(f"cut to the first {limit:,} of {len(ids):,} tokens")
        filled = document.copy()
        filled[document == mask] = [best[0][0] for best in likeliest]
        words_of = [[(tokenizer.token(word), share) for word, share in place] for place in likeliest]
        answers.append(Filled(written(filled, tokenizer), words_of, notes))
    return answers


def written(ids: np.ndarray, tokenizer: Tokenizer) -> str:
    """The text of some tokens, its parts separated as in the question."""
    parts = [list(part) for is_end, part in groupby(ids.tolist(), lambda i: i == tokenizer.end_id) if not is_end]
    return f" {SEPARATOR[0]} ".join(tokenizer.decode(part).strip() for part in parts)
