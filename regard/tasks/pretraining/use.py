"""A model of hidden words at work: what may stand behind each [MASK] of a text."""

import re
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch

from regard.data.batching.grouping import by_length
from regard.models.masked import rows_at
from regard.tasks.classification.batches import flat
from regard.text.tokenizer import Tokenizer

MASK, SEPARATOR, BEGINNING = ("[MASK]", "<mask>"), ("[SEP]", "</s>"), ("[CLS]", "<s>")
MARKS = re.compile("(" + "|".join(map(re.escape, (*MASK, *SEPARATOR, *BEGINNING))) + ")")


@dataclass(frozen=True)
class Filled:
    text: str  # with the likeliest word in every place
    words: list[list[tuple[str, float]]]  # for every [MASK] the likeliest words and their probabilities
    notes: list[str]  # what happened to the text: "nothing is hidden", "cut to the first 128 of 140 tokens"


@torch.no_grad()
def fill(model: Any, tokenizer: Tokenizer, texts: list[str], top: int, budget: int) -> list[Filled]:
    """One answer per text, in order."""
    mask, limit = tokenizer.special_id("<mask>"), model.config.max_length
    brings_space = spaces_belong_to_words(tokenizer)
    encoded = [framed(text, tokenizer, brings_space) for text in texts]
    documents = [ids if len(ids) <= limit else np.append(ids[: limit - 1], tokenizer.end_id) for ids in encoded]
    found: list[list[list[tuple[int, float]]]] = [[] for _ in texts]
    for group in by_length(np.array([len(document) for document in documents], np.int64), budget):
        tokens, layout = flat([documents[i] for i in group])
        places = (tokens == mask).nonzero()[:, 0]
        rows = rows_at(model(tokens.to(model.device), layout.to(model.device)), places.to(model.device))
        shares, words = model.word_logits(rows).float().softmax(-1).topk(min(top, tokenizer.vocab_size), -1)
        text = np.repeat(group, [len(documents[i]) for i in group])[places.numpy()]
        for i, ids, row in zip(text, words.tolist(), shares.tolist(), strict=True):
            found[i].append(list(zip(ids, row, strict=True)))
    answers = []
    for ids, document, options in zip(encoded, documents, found, strict=True):
        notes = [] if options else ["nothing is hidden"]
        if len(ids) > limit:
            notes.append(f"cut to the first {limit:,} of {len(ids):,} tokens")
        filled = document.copy()
        filled[document == mask] = [best[0][0] for best in options]
        words_of = [[(tokenizer.token(word), share) for word, share in each] for each in options]
        answers.append(Filled(written(filled, tokenizer), words_of, notes))
    return answers


def framed(text: str, tokenizer: Tokenizer, brings_space: bool) -> np.ndarray:
    """<s> text </s>, with the tokens that [MASK] and [SEP] mean; a [CLS] or [SEP] at the ends may be left out.

    Where a word brings the space before it, so does the one behind a [MASK].
    """
    ids = [tokenizer.start_id]
    parts = MARKS.split(text)
    for part, mark in zip(parts[::2], [*parts[1::2], ""], strict=True):
        if mark in SEPARATOR or (mark in MASK and brings_space):
            part = part.rstrip()
        ids += tokenizer.encode(part)
        if mark in MASK:
            ids.append(tokenizer.special_id("<mask>"))
        elif mark in SEPARATOR:
            ids.append(tokenizer.end_id)
    return np.array(ids if ids[-1] == tokenizer.end_id else [*ids, tokenizer.end_id], np.int64)


def spaces_belong_to_words(tokenizer: Tokenizer) -> bool:
    """Whether the space before a word is part of its token."""
    names = (tokenizer.token(n) for n in range(tokenizer.vocab_size))
    return any(name.startswith(" ") and len(name) > 1 for name in names)


def written(ids: np.ndarray, tokenizer: Tokenizer) -> str:
    """The text of some tokens, its parts separated as in the question."""
    parts = [list(part) for is_end, part in groupby(ids.tolist(), lambda i: i == tokenizer.end_id) if not is_end]
    return f" {SEPARATOR[0]} ".join(tokenizer.decode(part).strip() for part in parts)
