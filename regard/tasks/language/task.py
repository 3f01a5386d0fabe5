"""Language modeling: running text in, the next token of every place out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from regard.checks import at_least, not_negative, share
from regard.data.batching.streams import Stream
from regard.data.files.recognizing import plain_text
from regard.decoding.engine import Engine
from regard.errors import ConfigError
from regard.evaluation.measured import perplexities
from regard.models.heads import LanguageModel
from regard.models.interface import AnyReader
from regard.nn.state import CarriedState
from regard.tasks.chat.use import Talker
from regard.tasks.exchange import CAUSAL
from regard.tasks.language.batches import TextBatch, accuracy, carried_nats, make_batch, total_nats
from regard.tasks.language.running_text import StreamConfig, StreamTask, check_window
from regard.tasks.language.sizing import draft
from regard.tasks.language.use import Continuations, Reached, measure_reach
from regard.tasks.language.verbs import Generate, Reach
from regard.tasks.own_words import OwnWordsConfig
from regard.tasks.setup import Sample, Setup, TaskConfig, Use, Verbs
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus, look_at_votes

SHOWN_TOKENS = 8  # of a validation line that a sample goes on from
BLANKS = 3  # sets these draws apart from those that shuffle
# Where states are carried, a text is read in columns side by side, so that a long one does not take too many steps.
N_COLUMNS, VALIDATION_COLUMN = 10, 50_000  # of a validation text: at least so many, and the most tokens of one
TEST_COLUMN = 500_000  # the most tokens of a column of a test text; most texts are read in one


@dataclass(frozen=True, kw_only=True)
class LanguageConfig(StreamConfig, OwnWordsConfig):
    # in validation and evaluation, how many tokens of each window were counted in the one before and are only read
    # here, so that no token is predicted without as much before it; 0: windows do not overlap
    context: int = 0
    blank: float = 0.0  # the chance that a token, in training, is read as <unk> (Xie et al. 2017); as a target it stays
    # windows continue from the state of the one before: truncated back-propagation through time, for recurrent models;
    # Markov models carry their last words
    carry: bool = False
    smoothing: float = 0.0  # label smoothing
    shown: int = 2  # samples written at each validation, after the first tokens of validation lines
    sample_length: int = 60  # tokens of each sample

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_own_words()
        at_least(self, 1, "sample_length")
        not_negative(self, "shown")
        share(self, "blank", "smoothing")
        if not 0 <= self.context < self.window or (self.context and (self.carry or self.unit == "lines")):
            raise ConfigError(
                f"context must be below window = {self.window}, and 0 for lines and where states are carried; "
                f"got {self.context}"
            )
        if self.carry and self.own_words:
            raise ConfigError("with own_words every window begins anew: set carry = false, or own_words = 0")
        if self.carry and self.unit == "lines":
            raise ConfigError("lines are texts of their own: nothing is carried; set unit = 'stream' or carry = false")

    def build(self, reader: AnyReader) -> LanguageModel:
        if self.carry and not reader.can_carry:
            raise ConfigError(
                "carry = true needs a model whose state goes on, such as a recurrent one; set it to false"
            )
        check_window(self.window, reader)
        return LanguageModel(reader)


class Language(StreamTask[LanguageModel, TextBatch]):
    """P(x_t | x_<t) of all tokens."""

    settings = LanguageConfig
    roles = ("reader", "language")
    commands = ('regard generate RUN "Once upon"', "regard evaluate RUN", "regard score RUN FILE")
    exchange = CAUSAL
    purpose = "was trained to write text, one token after the other"
    config: LanguageConfig
    states: dict[int, CarriedState]  # from window to window, of each virtual shard
    recognize = staticmethod(plain_text)
    draft = staticmethod(draft)

    def __init__(self, config: TaskConfig, setup: Setup):
        super().__init__(config, setup)
        self.states = {}

    @cached_property
    def writer(self) -> Continuations:
        return Continuations(self.tokenizer, self.config.unit)

    def encode(self, text: str) -> list[int]:
        start, ids = self.writer.begin(text)
        return [*start, *ids]

    # Batches.

    def plan_text(self, epoch: int) -> Sequence[np.ndarray]:
        if not self.config.carry:
            return super().plan_text(epoch)
        first, n_shards = self.first_place(epoch), self.setup.n_shards
        n = max(1, min(self.batch_tokens // self.config.window, (len(self.train) - first) // n_shards))
        windows = self.train.columns(n * n_shards, self.config.window, first)
        return [row for rows in windows for row in np.split(rows, n_shards)]  # a shard has columns of its own

    def batch(self, epoch: int, index: int) -> TextBatch:
        n_shards = self.setup.n_shards
        batch = make_batch(self.train, self.plan(epoch)[index], begins=index < n_shards, shard=index % n_shards)
        batch = replace(batch, is_carried=self.config.carry)
        return self.blanked(batch, epoch, index) if self.config.blank else batch

    def blanked(self, batch: TextBatch, epoch: int, index: int) -> TextBatch:
        """With some of what is read unknown, by (seed, epoch, index) alone; what is written stays."""
        drawn = np.random.PCG64([self.setup.seed, epoch, BLANKS, index]).random_raw(len(batch.tokens))
        is_blank = torch.from_numpy(drawn < int(self.config.blank * 2**64))
        return replace(batch, tokens=batch.tokens.masked_fill(is_blank, self.tokenizer.unknown_id))

    def collate(self, part: Stream, chosen: np.ndarray, epoch: int | None = None) -> TextBatch:
        return make_batch(part, chosen)

    def sequences(self) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """All tokens and the lengths of the texts that they make, for a model that counts."""
        if self.config.unit == "lines":
            batch = make_batch(self.train, self.train.line_windows(len(self.train)))
            tokens = np.insert(batch.labels.numpy(), batch.layout.offsets[:-1].numpy(), self.train.start_id)
            yield tokens, batch.layout.lengths.numpy() + 1
        else:
            yield np.asarray(self.train.tokens), np.array([len(self.train.tokens)])

    # Loss.

    def nats(self, model: LanguageModel, batch: TextBatch, smoothing: float) -> Tensor:
        return model.nats(batch.tokens, batch.labels, batch.layout, smoothing)

    def loss(self, model: LanguageModel, batch: TextBatch) -> Tensor:
        if not self.config.carry:
            read = self.config.text_read(model, batch.tokens, batch.layout, self.setup.seed, self.step)
            return super().loss(model, replace(batch, tokens=read))
        before = None if batch.begins else self.states.get(batch.shard)
        loss, self.states[batch.shard] = model.carried_loss(
            batch.tokens, batch.labels, batch.layout, before, self.config.smoothing
        )
        return loss

    def tensors(self) -> dict[str, Tensor]:
        if self.setup.n_shards == 1:
            return {name: tensor for state in self.states.values() for name, tensor in state.tensors().items()}
        return {f"{i}/{name}": tensor for i, state in self.states.items() for name, tensor in state.tensors().items()}

    def restore(self, tensors: dict[str, Tensor], model: LanguageModel) -> None:
        named = tensors if self.setup.n_shards > 1 else {f"0/{name}": tensor for name, tensor in tensors.items()}
        self.states.clear()
        for i in self.shards:
            own = {name.removeprefix(f"{i}/"): tensor for name, tensor in named.items() if name.startswith(f"{i}/")}
            if own:
                self.states[i] = model.reader.state_of(own)

    # Validation and measuring.

    def figures(self, model: LanguageModel, part: Stream) -> dict[str, float]:
        """Nats a token, and what they mean: perplexity, and bits for each byte of the text.  It is read as in training:
        in windows, or with the state carried on."""
        return self.figures_in(model, part, max(N_COLUMNS, -(-len(part) // VALIDATION_COLUMN)))

    def figures_in(self, model: LanguageModel, part: Stream, n_columns: int) -> dict[str, float]:
        c = self.config
        if c.carry:
            nats = carried_nats(model, part, c.window, n_columns)
        else:
            nats = total_nats(model, part, c.window, self.batch_tokens, c.context)
        return perplexities(nats, len(part), part.text.n_words, part.text.n_bytes)

    def test_figures(self, use: Use[LanguageModel], part: Stream) -> dict[str, float]:
        c, values = self.config, self.figures_in(use.model, part, -(-len(part) // TEST_COLUMN))
        if not c.carry:
            values["accuracy"] = accuracy(use.model, part, c.window, self.batch_tokens, c.context)
        return values

    def how(self, part: Stream) -> str:
        window, unknown = super().how(part).split("|")
        context = f"|context:{self.config.context}" if self.config.context else ""
        return f"carried|{unknown}" if self.config.carry else f"{window}{context}|{unknown}"

    def first_samples(self, model: LanguageModel, valid: Stream) -> list[Sample]:
        """What the model writes after the first words of some validation lines."""
        lines = [line for line in valid.text.lines if line.strip()][: self.config.shown]
        prompts = [self.tokenizer.decode(self.tokenizer.encode(line)[:SHOWN_TOKENS]) for line in lines]
        few = replace(self.setup.decoding, beam=1, n_best=1)
        length = min(self.config.sample_length, model.max_length)
        texts = self.writer.write(Use(model, Engine(model), few), Generate(prompts, length))
        return [(prompt, "", best.text) for prompt, (best,) in zip(prompts, texts, strict=True)]

    # Use.

    @property
    def verbs(self) -> Verbs:
        return {
            "generate": self.writer.write,
            "stream": self.writer.stream,
            "score_texts": self.writer.score,
            **Talker(self.tokenizer).verbs,
            "reach": self.reach,
            **super().verbs,
        }

    def reach(self, use: Use[LanguageModel], ask: Reach) -> Reached:
        _, text = self.test([str(file) for file in ask.files])
        return measure_reach(use.model, self.part(text, to_learn=False), ask)

    def look(self, use: Use, source: str, target: str | None, focus: Focus) -> Capture:
        if target is not None or not (source and use.model.is_counted):
            return super().look(use, source, target, focus)
        return look_at_votes(use.model, self.tokenizer, self.encode(source), source, focus)
