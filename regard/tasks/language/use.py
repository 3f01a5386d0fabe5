"""What a language model writes after a prompt, the probability of given texts, and how far back its loss reaches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from regard.data.batching.streams import UNITS, Stream
from regard.decoding.config import DecodingConfig
from regard.decoding.forced import likeliest, score
from regard.decoding.outputs import Place
from regard.decoding.stopping import Stops, TextPieces
from regard.errors import RegardError
from regard.models.heads import LanguageModel
from regard.models.reach import gradient_reach, jacobian_norms
from regard.nn.linear import logits
from regard.tasks.language.batches import make_batch
from regard.tasks.language.verbs import Generate, Reach, ScoreTexts, StreamText, Written
from regard.tasks.setup import Use
from regard.text.tokenizer import Tokenizer

FADED = 0.01  # the share of distance 0 below which a gradient has faded
PASSAGES = 64
PASSAGES_OF_JACOBIANS = 4  # each takes as many backward passes as a state has numbers
USUAL_LENGTH = 100  # tokens of a text whose length nobody asked for


@dataclass(frozen=True)
class Continuations:
    """How texts are begun and ended that a model writes or scores."""

    tokenizer: Tokenizer
    unit: str  # of what the model learned: lines, stream or text

    def write(self, use: Use, ask: Generate, label: int | None = None) -> list[list[Written]]:
        """For each prompt the n best texts that go on from it, by at most `length` tokens (None: the usual number).

        Of a prompt that is too long for the model the end is read.  A line ends by itself; a text has no end of its
        own.  Either ends before the first stop string.  With `n_likeliest` each token says what else might have stood
        there.  A `label` is read before every prompt, in place of what stands before a text.
        """
        engine, tokenizer = use.engine, self.tokenizer
        most, config = self.limited(engine.max_length, ask.length, ask.decoding or use.decoding)
        if label is None:
            begun = [self.begin(prompt) for prompt in ask.prompts]
            read = [[*start, *ids][-most:] for start, ids in begun]
        else:
            most -= 1
            begun = [([], ids) for ids in tokenizer.encode_batch(ask.prompts)]
            read = [[label, *ids[max(0, len(ids) - most) :]] for _, ids in begun]
        stops = Stops(ask.stop, tokenizer.decode)
        start_id, end_id = tokenizer.start_id, tokenizer.end_id
        groups = engine.generate(read, config, start_id, end_id, stops=stops if ask.stop else None)
        places: list[list[Place]] = [[] for group in groups for _ in group]
        if ask.n_likeliest:
            owners = [ids for ids, group in zip(read, groups, strict=True) for _ in group]
            outputs = [best.tokens for group in groups for best in group]
            places = likeliest(engine.model, owners, outputs, ask.n_likeliest, start_id, end_id)
        places_of_outputs = iter(places)
        written = []
        for prompt, (start, ids), group in zip(ask.prompts, begun, groups, strict=True):
            notes = self.notes_on(prompt, len(start) + len(ids), len(ids), most)
            texts = []
            for best in group:
                text, whole = following(ids, best.tokens, tokenizer), tokenizer.decode(ids + best.tokens)
                shown = stops.cut(text)
                whole = whole[: len(whole) - (len(text) - len(shown))]  # a stop string of the prompt's own ends nothing
                own_places = tuple(next(places_of_outputs))
                texts.append(Written(shown, whole, best.log_prob, best.finished, notes, own_places))
            written.append(texts)
        return written

    def stream(self, use: Use, ask: StreamText) -> TextPieces:
        """What `write` gives after the prompt, in pieces as it is written; none ends within a character."""
        most, config = self.limited(use.engine.max_length, ask.length, ask.decoding or use.decoding)
        start, ids = self.begin(ask.prompt)
        read, start_id, end_id = [*start, *ids], self.tokenizer.start_id, self.tokenizer.end_id
        stops = Stops(ask.stop, self.tokenizer.decode)
        tokens = use.engine.stream(read[-most:], config, start_id, end_id, stops if ask.stop else None)
        shown = Stops(ask.stop, lambda tokens: following(ids, tokens, self.tokenizer))
        return TextPieces(tokens, shown, self.notes_on(ask.prompt, len(read), len(ids), most))

    def score(self, use: Use, ask: ScoreTexts) -> list[list[float]]:
        """log P of each token of the texts; of lines also, last, of their end.

        A text that is too long for the model is read in pieces, each knowing only the last token of the one before.
        """
        most = max(use.engine.max_length - 1, 1)
        start_id, end_id = self.tokenizer.start_id, self.tokenizer.end_id
        end = [] if self.unit == "text" else [end_id]
        owners, prompts, targets, n_wanted = [], [], [], []
        for i, text in enumerate(ask.texts):
            before, ids = self.begin(text)
            tokens = [*(before or [start_id]), *ids, *end]  # the first token of a text follows something, too
            for start in range(0, len(tokens) - 1, most):
                piece = tokens[start + 1 : start + most + 1]
                owners.append(i)
                prompts.append([tokens[start]])
                targets.append(piece[:-1] if piece[-1] == end_id else piece)  # the search adds an end to each
                n_wanted.append(len(piece))
        scores: list[list[float]] = [[] for _ in ask.texts]
        for i, row, n in zip(
            owners, score(use.engine.model, prompts, targets, start_id, end_id), n_wanted, strict=True
        ):
            scores[i] += row[:n]
        return scores

    def limited(self, room: int, length: int | None, config: DecodingConfig) -> tuple[int, DecodingConfig]:
        """How many tokens of a prompt a model with room for `room` can read, and the settings for `length` more."""
        length = usual_length(room) if length is None else length
        if length < 1:
            raise RegardError(f"the length must be at least 1 token, got {length}")
        most = room - length + 1  # tokens of a prompt: the last one written is not read
        if most < 1:
            raise RegardError(f"{length} tokens do not fit the model's {room}; ask for fewer")
        least = length if self.unit == "text" else config.min_length
        return most, replace(config, length_ratio=0.0, extra_length=length, min_length=least)

    def begin(self, prompt: str) -> tuple[list[int], list[int]]:
        """The tokens that a model has read before it writes: what stands before every text, and the prompt.

        Before a text stands what our models learned to see there, or what another tool's tokenizer puts there (GPT-2's
        nothing), unless lines were learned since.  Something has to be read: before no token, the start token.
        """
        ids = self.tokenizer.encode(prompt)
        if self.tokenizer.adds_start is None or self.unit != "stream":
            return [UNITS[self.unit](self.tokenizer)], ids
        return [self.tokenizer.start_id] if self.tokenizer.adds_start or not ids else [], ids

    def notes_on(self, prompt: str, n_read: int, n_tokens: int, most: int) -> tuple[str, ...]:
        """What happened to a prompt of `n_tokens`, `n_read` with what stands before it."""
        notes = unknown_words(prompt, self.tokenizer)
        if n_read > most:
            notes.append(f"too long: only its last {most:,} of {n_tokens:,} tokens were read")
        return tuple(notes)


def following(ids: Sequence[int], tokens: Iterable[int], tokenizer: Tokenizer) -> str:
    """The text of tokens that follow those of a prompt, with the space between them."""
    return tokenizer.decode([*ids, *tokens])[len(tokenizer.decode(ids)) :]


def usual_length(max_length: int) -> int:
    """The tokens of a text whose length nobody asked for: a small model has to read the prompt, too."""
    return max(1, min(USUAL_LENGTH, max_length // 2))


def unknown_words(text: str, tokenizer: Tokenizer) -> list[str]:
    """A note on what the tokenizer does not know of a text, each once; none if it knows all."""
    unknown = dict.fromkeys(tokenizer.unknown(text))
    return [f"unknown: {' '.join(map(repr, unknown))}"] if unknown else []


@dataclass(frozen=True, eq=False)
class Reached:
    # |∂L/∂h_{T-d}| or ‖∂h_T/∂h_{T-d}‖ for d = 0, 1, 2 ..., the mean over the passages; inf beyond the range of floats
    norms: np.ndarray
    n_passages: int

    @property
    def shares(self) -> np.ndarray:
        """Of the norm at distance 0: states of different models have different scales."""
        return self.norms / self.norms[0]

    @property
    def faded(self) -> int | None:
        """The first distance from which on all shares are below `FADED`; None: it does not fade."""
        last = np.flatnonzero(self.shares >= FADED)[-1]
        return None if last + 1 == len(self.norms) else int(last) + 1


def measure_reach(model: LanguageModel, stream: Stream, ask: Reach) -> Reached:
    """Passages of distance + 1 tokens, spread evenly over the text; L is the loss of the token that follows them."""
    usual = PASSAGES_OF_JACOBIANS if ask.jacobians else PASSAGES
    n_passages = usual if ask.n_passages is None else ask.n_passages
    distance = ask.distance
    if distance < 1 or n_passages < 1:
        raise RegardError(f"distance and passages must be at least 1, got {distance} and {n_passages}")
    if model.is_counted:
        raise RegardError("this model was trained by counting: it has no gradients whose reach could be measured")
    if not all(weights.isfinite().all() for weights in model.parameters()):
        raise RegardError("the weights contain NaN or inf, and nothing can be measured; take an earlier checkpoint")
    length = distance + 1
    if length > model.reader.max_length:
        raise RegardError(f"{length} tokens do not fit the model's {model.reader.max_length}; lower the distance")
    if length > len(stream):
        raise RegardError(f"a text of {len(stream):,} tokens has no passage of {length}; lower the distance")
    starts = np.unique(np.linspace(0, len(stream) - length, n_passages).astype(np.int64))
    batch = make_batch(stream, np.stack([starts, starts + length], 1)).to(model.device)
    if ask.jacobians:
        return Reached(jacobian_norms(model.reader, batch.tokens, batch.layout), len(starts))
    next_tokens = batch.labels[length - 1 :: length]

    def loss(last: Tensor) -> Tensor:
        return F.cross_entropy(logits(last, model.output_table), next_tokens, reduction="none")

    norms = gradient_reach(model.reader, batch.tokens, batch.layout, loss)
    exploded = np.flatnonzero(~np.isfinite(norms))
    if len(exploded):
        raise RegardError(
            f"in passages of {length:,} tokens, the gradient is not a finite number from distance {exploded[0]} on; "
            "lower the distance"
        )
    if norms[0] == 0:
        raise RegardError("the gradient is 0 already at distance 0, so there is nothing that could fade")
    return Reached(norms, len(starts))
