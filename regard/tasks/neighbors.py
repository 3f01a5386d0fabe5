"""Words whose embeddings are near, and analogies: a - b + c."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.errors import RegardError
from regard.models.interface import Model
from regard.tasks.request import Nearby, NearToken, Neighbors
from regard.tasks.setup import Use
from regard.text.tokenizer import Tokenizer

NOTHING = 1e-4  # the length of a vector that points nowhere
N_PIECES = 20  # of a text that is not one token, named in the message


def neighbors(tokenizer: Tokenizer, use: Use[Model], ask: Neighbors) -> list[Nearby]:
    """For each token that reads as the word does; the given words are not among their own neighbors."""
    table = use.model.word_vectors
    if table is None:
        raise RegardError("this run has no embeddings: its model counts words")
    unit = unit_vectors(table)[: tokenizer.vocab_size]  # (V, D)
    words, minus, plus = (tokens_of(text, tokenizer) for text in (ask.word, ask.minus, ask.plus))
    if not words:
        raise RegardError("there is no word to find neighbors of")
    nearby = []
    for word in words:
        less, more = (alike(others, word, tokenizer) for others in (minus, plus))
        terms = [(word, 1), *((i, -1) for i in less), *((i, 1) for i in more)]
        signed = (f" {'+' if sign > 0 else '-'} {tokenizer.token(i).strip(' ')}" for i, sign in terms[1:])
        formula = tokenizer.token(word) + "".join(signed)
        point, given = point_of(unit, terms), [i for i, _ in terms]
        if point.norm() < NOTHING:
            raise RegardError(f"{formula.strip()} is nothing: the words cancel each other, and no word is near")
        near_tokens = [
            NearToken(tokenizer.token(i), cosine, i) for i, cosine in nearest(unit, point, given, ask.n).items()
        ]
        nearby.append(Nearby(tokenizer.token(word), word, near_tokens, formula, terms))
    return nearby


def unit_vectors(table: Tensor) -> Tensor:
    return F.normalize(table.detach().float(), dim=-1)


def point_of(unit: Tensor, terms: Sequence[tuple[int, int]]) -> Tensor:
    """Where an analogy leads: the sum of its words' vectors (V, D), with their signs."""
    return torch.stack([sign * unit[i] for i, sign in terms]).sum(0)


def nearest(unit: Tensor, center: Tensor, given: list[int], n: int) -> dict[int, float]:
    """The n rows, other than the given ones, of the largest cosine with a center, the largest first; all rows have
    length 1."""
    cosines = unit @ F.normalize(center, dim=-1)  # (V,)
    cosines[torch.tensor(given, device=unit.device)] = -torch.inf
    best = cosines.sort(descending=True, stable=True)
    pairs = zip(best.indices[:n].tolist(), best.values[:n].tolist(), strict=True)
    return {i: cosine for i, cosine in pairs if i not in given}


def tokens_of(text: str, tokenizer: Tokenizer) -> list[int]:
    """All tokens that read so; none of "", and of a text that is not one token an error."""
    matches = tokenizer.lookup(text)
    if text and not matches:
        known = [n for n in tokenizer.encode(text) if n != tokenizer.unknown_id]
        raise RegardError(not_one_token(text, tokenizer.tokens(known)))
    return matches if text else []


def alike(matches: list[int], word: int, tokenizer: Tokenizer) -> list[int]:
    """The one of some tokens that begins as another word does, with a space or without; none of none."""
    has_space = tokenizer.token(word).startswith(" ")
    same = [match for match in matches if tokenizer.token(match).startswith(" ") == has_space]
    return (same or matches)[:1]


def not_one_token(text: str, pieces: list[str]) -> str:
    """The message, whose length does not depend on that of the text."""
    what = f"{text[:60]!r} is not one token of this run"
    if not pieces:
        return f"{what}, and neither is any part of it; regard tokenizer show splits a text into tokens"
    shown = ", ".join(map(repr, pieces[:N_PIECES])) + ", ..." * (len(pieces) > N_PIECES)
    return f"{what} but [{shown}]; ask for one of these"
