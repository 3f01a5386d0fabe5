"""A model at work, caught as a `Capture`: attention while it reads or translates, the votes of a Markov model."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.template import template_of
from regard.data.files.conversations import ASSISTANT, USER, Message
from regard.errors import RegardError
from regard.nn.layout import Ragged
from regard.nn.watch import Seen, refuse_unknown, watch
from regard.tasks.language.use import begin
from regard.tasks.pretraining.use import framed, spaces_belong_to_words
from regard.tasks.translation.batches import Frame, make_batch
from regard.text.tokenizer import Tokenizer
from regard.viewer.capture import Capture, Map

# Tasks whose models are looked at while they read one text ...
LOOKED_AT = ("language", "masked", "replaced", "reading", "answers", "classification", "tagging", "restoration")
FRAMED = ("masked", "replaced", "reading", "answers")  # ... of which these are always framed; others say so
TALKS = ("chat", "preference")
NEXT_WORDS = 12  # that the votes of a Markov model are shown for

Names = dict[str, tuple[list[str], list[str]]]  # kind -> the words that look, and those that are looked at


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is wanted of a model's attention; None: all."""

    layers: Collection[int] | None = None
    heads: Collection[int] | None = None
    vectors: bool = False

    def check(self, model: Any) -> None:
        there = list(model.attentions()) if hasattr(model, "attentions") else []  # a bag of words has none
        if not there:
            raise RegardError(
                "this model has no attention to look at; a stack, an attentive or a skip model has, or a "
                "translator with a model.score"
            )
        refuse_unknown("layer", self.layers, max(layer + 1 for _, layer, _ in there))
        refuse_unknown("head", self.heads, max(module.n_heads for _, _, module in there))


def look_at_pair(model: Any, tokenizer: Tokenizer, task: Any, source: str, target: str, asked: Asked) -> Capture:
    """A translator that reads the source and writes the target."""
    asked.check(model)
    frame = task.frame(tokenizer)
    source_ids, target_ids = tokenizer.encode(source), tokenizer.encode(target)
    seen = watch_pair(model, frame, source_ids, target_ids, asked)
    read, said = tokenizer.tokens(frame.source(source_ids)), tokenizer.tokens(target_ids)
    start, end = tokenizer.tokens([frame.start, frame.end])
    names = {  # across, a query is named by the token that it writes
        "encoder": (read, read),
        "decoder": ([start, *said], [start, *said]),
        "cross": ([*said, end], read),
    }
    return capture(f"{source} → {target}", seen, names)


@torch.no_grad()
def watch_pair(model: Any, frame: Frame, source: list[int], target: list[int], asked: Asked) -> Seen:
    """Every attention layer while a translator reads the source and writes the target."""
    check_length(model, source, max(len(frame.source(source)), len(target) + 1))
    batch = make_batch([np.array(source)], [np.array(target, np.int64)], [""], frame)
    batch = batch.to(next(model.parameters()).device)
    with watch(model, asked.layers, asked.heads, asked.vectors) as seen:
        model(batch.source, batch.source_layout, batch.target, batch.target_layout)
    return seen


def tokens_read(text: str, tokenizer: Tokenizer, kind: str, task: Any) -> list[int]:
    """A text as a task of this kind reads it.  Where it stands between <s> and </s>, [MASK] and [SEP] mean tokens."""
    if kind == "language":
        start, ids = begin(text, tokenizer, task.unit)
        return [*start, *ids]
    if kind in FRAMED or getattr(task, "framed", False):
        return list(framed(text, tokenizer, spaces_belong_to_words(tokenizer)).tolist())
    return tokenizer.encode(text)


def look_at_talk(model: Any, tokenizer: Tokenizer, task: Any, source: str, target: str, asked: Asked) -> Capture:
    """An assistant that reads what the user says and writes its answer."""
    ((ids, _),) = template_of(tokenizer).read([(Message(USER, source), Message(ASSISTANT, target))])
    return look_at_text(model, tokenizer, ids.tolist(), f"{source} → {target}", asked)


def look_at_sequence(model: Any, tokenizer: Tokenizer, task: Any, source: str, target: str, asked: Asked) -> Capture:
    """A reader that has source and target in one sequence."""
    ids = [*task.frame(tokenizer).source(tokenizer.encode(source)), *tokenizer.encode(target)]
    return look_at_text(model, tokenizer, ids, f"{source} → {target}", asked)


@torch.no_grad()
def look_at_text(model: Any, tokenizer: Tokenizer, ids: list[int], title: str, asked: Asked) -> Capture:
    """A reader that attends, whatever is read off it."""
    asked.check(model)
    check_length(model, ids, len(ids))
    device = next(model.parameters()).device
    with watch(model, asked.layers, asked.heads, asked.vectors) as seen:
        model(torch.tensor(ids, device=device), Ragged([len(ids)], device))
    words = tokenizer.tokens(ids)
    return capture(title, seen, {"self": (words, words)})


@torch.no_grad()
def look_at_votes(model: Any, tokenizer: Tokenizer, ids: list[int], title: str) -> Capture:
    """Whose votes a skip model counts after every word, and what the words vote for after the last one."""
    check_length(model, ids, len(ids))
    tokens = torch.tensor(ids, device=model.device)
    weights, votes = model.weights(tokens), model.votes(tokens)  # T T, T V
    best = (weights[-1] @ votes).topk(min(NEXT_WORDS, votes.shape[1])).indices  # the likeliest next words
    words = tokenizer.tokens(ids)
    maps = [
        Map(kind="votes", layer=0, head=0, queries=words, keys=words, weights=weights.cpu().numpy()),
        Map(
            kind="ballots",
            layer=0,
            head=0,
            queries=[*(f"{word.strip(' ')} … {words[-1].strip(' ')}" for word in words[:-1]), words[-1]],
            keys=tokenizer.tokens(best.tolist()),
            weights=votes[:, best].cpu().numpy(),
        ),
    ]
    return Capture(title=title, maps=maps)


def check_length(model: Any, ids: list[int], length: int) -> None:
    if not ids:
        raise RegardError("there is nothing to look at: the text is empty")
    if length > model.config.max_length:
        raise RegardError(f"{length} tokens do not fit the model's {model.config.max_length}; shorten the text")


def capture(title: str, seen: Seen, names: Names) -> Capture:
    """The maps of one text (batches of one), every head with its words."""
    maps = [
        Map(
            kind=sighting.kind,
            layer=sighting.layer,
            head=head,
            queries=names[sighting.kind][0],
            keys=names[sighting.kind][1],
            weights=sighting.weights[0, i].cpu().numpy(),
            query_vectors=of_head(sighting.queries, i),
            key_vectors=of_head(sighting.keys, i),
            value_vectors=of_head(sighting.values, i),
        )
        for sighting in seen.sightings
        for i, head in enumerate(sighting.heads)
    ]
    return Capture(title=title, maps=maps)


def of_head(vectors: Tensor | None, head: int) -> np.ndarray | None:
    return None if vectors is None else vectors[0, head].cpu().numpy()


# By the kinds of tasks in which a source becomes a target.
SOURCE_AND_TARGET: dict[str, Callable[..., Capture]] = {
    **dict.fromkeys(("translation", "denoising", "label-words"), look_at_pair),
    "prompted": look_at_sequence,
    **dict.fromkeys(TALKS, look_at_talk),
}
