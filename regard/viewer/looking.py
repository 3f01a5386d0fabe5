"""A model at work, caught as a `Capture`: attention while it reads a text or an image, or translates, the gates of a
recurrent model, XLNet's two streams, and the votes of a Markov model."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.errors import RegardError
from regard.models.interface import Model
from regard.models.markov import Markov
from regard.models.xlnet import PermutationModel
from regard.nn.grid import Grid
from regard.nn.layout import Ragged
from regard.nn.watch import Seen, Sighting, refuse_unknown, watch
from regard.text.sentences import texts_that_fit
from regard.text.tokenizer import Tokenizer
from regard.viewer.capture import Capture
from regard.viewer.gates import look_at_gates
from regard.viewer.map_set import Map
from regard.viewer.pictured import Pictured

NEXT_WORDS = 12  # that the votes of a Markov model are shown for

T = TypeVar("T")
WordsByKind = dict[str, tuple[list[str], list[str]]]  # kind -> the words that look, and those that are looked at


@dataclass(frozen=True, kw_only=True)
class Focus:
    """What to capture of a model's attention; None: all."""

    layers: Collection[int] | None = None
    heads: Collection[int] | None = None
    vectors: bool = False
    part: int = 1  # of a text that is too long to be read at once

    def check_whole(self, kind: str) -> None:
        """Of what is one map, nothing can be chosen."""
        if (self.layers, self.heads, self.vectors) != (None, None, False):
            raise RegardError(f"{kind} are one map, without layers, heads and vectors: ask for all of it")

    def check(self, model: Model) -> None:
        layers = [(layer + 1, module.n_heads) for _, layer, module in model.attentions()]
        if self.vectors and not layers:
            raise RegardError("this model has no queries, keys and values: leave out the vectors")
        layers = layers or [(layer + 1, direction + 1) for layer, direction, _ in model.cells()]
        if not layers:
            raise RegardError(
                "this model has no attention to look at; a stack, a vit, an attentive or a skip model has, or "
                "a translator with a model.score; and a recurrent model has gates"
            )
        refuse_unknown("layer", self.layers, max(n_layers for n_layers, _ in layers))
        refuse_unknown("head", self.heads, max(n_heads for _, n_heads in layers))


@torch.no_grad()
def look_at_text(model: Model, tokenizer: Tokenizer, ids: list[int], title: str, focus: Focus) -> Capture:
    """A reader that attends, or one that is recurrent, whatever is read off it."""
    focus.check(model)
    check_length(model, ids, len(ids))
    if not any(model.attentions()):
        return look_at_gates(model, tokenizer.tokens(ids), ids, title, focus.layers, focus.heads)
    glance, words = model.glance(torch.tensor(ids, device=model.device)), tokenizer.tokens(ids)
    with watch(model, focus.layers, focus.heads, focus.vectors) as seen:
        glance.read()
    keys = ["".join(words[begin:end]) for begin, end in glance.made_of]
    looked = capture(title, seen, {"self": (words[glance.begin :], keys)})
    before = f"these {len(ids) - glance.begin:,} tokens also look at what is kept of the {glance.begin:,} before them"
    return replace(looked, notes=(before,) if glance.begin else ())


@torch.no_grad()
def look_at_image(model: Model, patches: Tensor, layout: Grid, title: str, focus: Focus) -> Capture:
    """A reader of images, at one image: each layer and head, and the rollout where all of them were asked for."""
    focus.check(model)
    with watch(model, focus.layers, focus.heads, focus.vectors) as seen:
        model(patches.to(model.device), layout.to(model.device))
    image = pictured(patches, layout)
    looked = capture(title, seen, {"self": (image.names, image.names)}, image)
    n_heads = {layer: module.n_heads for _, layer, module in model.attentions()}
    if {sighting.layer: len(sighting.heads) for sighting in seen.sightings} != n_heads:
        return looked
    return replace(looked, maps=[*looked.maps, rollout(looked)])


def pictured(patches: Tensor, layout: Grid) -> Pictured:
    """One image, from its 8-bit rows of patches."""
    [[pixels]] = layout.images(patches)
    return Pictured(pixels.permute(1, 2, 0).numpy(), layout.form.patch, layout.form.class_row)


def rollout(capture: Capture) -> Map:
    """A_L … A_1 with A_l = (mean of the heads of layer l + identity) / 2  (Abnar and Zuidema 2020, section 3)

    It takes each residual connection for half of a row, and leaves out what values and feed-forward nets do.
    """
    layers = [capture.pick("self", layer) for layer in capture.layers("self")]
    names = layers[0].queries
    product = np.eye(len(names))
    for layer in layers:
        product = (layer.weights.astype(np.float64) + np.eye(len(names))) / 2 @ product
    return Map(kind="rollout", layer=0, head=0, queries=names, keys=names, weights=product)


@torch.no_grad()
def look_at_votes(model: Markov, tokenizer: Tokenizer, ids: list[int], title: str, focus: Focus) -> Capture:
    """Whose votes a skip model counts after every word, and what the words vote for after the last one."""
    focus.check_whole("votes")
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


@torch.no_grad()
def look_at_streams(
    model: PermutationModel, tokenizer: Tokenizer, ids: list[int], turns: list[int], title: str, focus: Focus
) -> Capture:
    """Both streams of XLNet while it predicts every token of a text, each at its turn, 1 being the first.

    The contents of the last layer are not looked at by anyone, so there are none.
    """
    focus.check(model)
    check_length(model, ids, len(ids))
    tokens, layout = torch.tensor(ids, device=model.device), Ragged([len(ids)], model.device)
    ranks, targets = torch.tensor([turns], device=model.device), torch.arange(len(ids), device=model.device)
    with watch(model, focus.layers, focus.heads, focus.vectors) as seen:
        model(tokens, layout, ranks, targets, layout)
    of_layer: dict[int, list[Sighting]] = {}
    for sighting in seen.sightings:  # in every layer, the queries look first
        of_layer.setdefault(sighting.layer, []).append(sighting)
    streams = [
        replace(sighting, kind=kind)
        for sightings in of_layer.values()
        for kind, sighting in zip(("query", "content"), sightings, strict=False)
    ]
    words = [f"{word} ({turn})" for word, turn in zip(tokenizer.tokens(ids), turns, strict=True)]
    return capture(title, Seen(streams), {kind: (words, words) for kind in ("query", "content")})


def look_at_long_text(
    model: Model, tokenizer: Tokenizer, encode: Callable[[str], list[int]], text: str, focus: Focus
) -> Capture:
    """A text of any length, or the part of it that was asked for: a text by itself, or, where texts have no end, with
    what is kept of the parts before it."""
    if not model.config.is_endless:
        texts = texts_that_fit(text, tokenizer, encode, model.read_at_once)
        return look_in_parts(texts, focus, lambda part: look_at_text(model, tokenizer, encode(part), part, focus))
    ids, at_once = encode(text), model.config.max_length
    begins = range(0, max(1, len(ids)), at_once)

    def look(begin: int) -> Capture:
        title = text if len(begins) == 1 else tokenizer.decode(ids[begin : begin + at_once]).strip()
        return look_at_text(model, tokenizer, ids[: begin + at_once], title, focus)

    return look_in_parts(begins, focus, look)


def look_in_parts(parts: Sequence[T], focus: Focus, look: Callable[[T], Capture]) -> Capture:
    """The part that was asked for; its title says which of how many it is."""
    if not 1 <= focus.part <= len(parts):
        raise RegardError(f"there is no part {focus.part}: the text has {len(parts)}, counted from 1")
    seen = look(parts[focus.part - 1])
    if len(parts) == 1:
        return seen
    return replace(seen, title=f"part {focus.part} of {len(parts)}: {seen.title}", n_parts=len(parts))


def check_one_text(source: str, target: str | None) -> None:
    if target is not None:
        raise RegardError("this run reads one text and writes none: leave out the target")
    if not source:
        raise RegardError("there is nothing to look at: give a text")


def check_length(model: Model, ids: list[int], length: int) -> None:
    if not ids:
        raise RegardError("there is nothing to look at: the text is empty")
    if length > model.max_length:
        raise RegardError(f"{length} tokens do not fit the model's {model.max_length}; shorten the text")


def capture(title: str, seen: Seen, names: WordsByKind, image: Pictured | None = None) -> Capture:
    """The maps of one text or image (batches of one), every head with its words."""
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
    return Capture(title=title, maps=maps, image=image)


def of_head(vectors: Tensor | None, head: int) -> np.ndarray | None:
    return None if vectors is None else vectors[0, head].cpu().numpy()
