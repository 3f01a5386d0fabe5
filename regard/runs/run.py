"""A run: a folder of inert files, and what can be done with it once it is loaded."""

import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data.batching.streams import Stream
from regard.data.files.conversations import read_messages
from regard.decoding.config import DecodingConfig
from regard.decoding.ensemble import Ensemble
from regard.decoding.forced import score
from regard.decoding.graphs import fastest
from regard.decoding.stopping import TextPieces
from regard.errors import RegardError, RunError
from regard.evaluation.metric import Metric
from regard.learning.device import choose_device
from regard.models import ARCHITECTURES
from regard.runs.checkpoints import find_weights
from regard.runs.recipe import Recipe
from regard.runs.transfer import run_weights
from regard.runs.weights import set_weights
from regard.tasks.answering.use import Answered, answer, asked
from regard.tasks.chat.use import Reply, reply
from regard.tasks.classification.use import Classified, classify
from regard.tasks.features.use import embed, framed
from regard.tasks.language.label_to_text import write_as
from regard.tasks.language.reach import Reach, measure_reach
from regard.tasks.language.task import evaluated_text
from regard.tasks.language.use import Written, score_texts, write, write_stream
from regard.tasks.pretraining.use import Filled, fill
from regard.tasks.setup import Setup
from regard.tasks.table import TASKS
from regard.tasks.tagging.use import TaggedLine, tag
from regard.tasks.translation.batches import Frame
from regard.tasks.translation.use import Translated, translate
from regard.text.tokenizer import Tokenizer
from regard.viewer import looking
from regard.viewer.alignments import alignments
from regard.viewer.capture import Capture
from regard.viewer.places import position_table

PAIRS = ("translation", "prompted")  # kinds of tasks that turn a text into another


def load(folder: str | Path, device: str | None = None) -> "Run":
    """Read a run: recipe.toml, tokenizer.json and the weights that its card names."""
    folder = Path(folder)
    if not (folder / "recipe.toml").is_file():
        raise RunError(f"{folder} is no run: it has no recipe.toml; `regard train RECIPE --run {folder}` makes one")
    recipe = Recipe.read(str(folder.resolve()))  # not the shipped recipe of that name
    tokenizer = recipe.check_tokenizer(Tokenizer.load(folder), folder)
    path, what = find_weights(folder)
    model = recipe.build_model()
    set_weights(model, run_weights(folder), str(path))
    return Run(folder, recipe, tokenizer, model.to(choose_device(device)).eval(), what)


class Run:
    """`run = regard.load("runs/x"); run.translate(["…"])`."""

    def __init__(self, folder: Path, recipe: Recipe, tokenizer: Tokenizer, model: Any, weights: str):
        self.folder, self.recipe, self.tokenizer, self.model = folder, recipe, tokenizer, model
        self.weights = weights  # which weights these are, in words
        self.partners: list[Run] = []  # the rest of an ensemble

    def join(self, others: Sequence["Run"]) -> "Run":
        """An ensemble: this run and the others decode together.  They must share one tokenizer."""
        for other in others:
            if other.tokenizer.to_json() != self.tokenizer.to_json():
                raise RunError(f"{other.folder} and {self.folder} have different tokenizers: no ensemble of them")
        joined = Run(self.folder, self.recipe, self.tokenizer, self.model, self.weights)
        joined.partners = list(others)
        return joined

    @cached_property
    def generator(self) -> Any:
        """What the searches step: the model, with CUDA graphs on a GPU, or an ensemble."""
        if self.partners:
            return Ensemble([self.model, *(run.model for run in self.partners)])
        return fastest(self.model, self.device) if self.recipe.kind == "translation" else self.model

    @property
    def device(self) -> torch.device:
        return next(iter([*self.model.parameters(), *self.model.buffers()])).device

    def measure(self, files: Sequence[str | Path] = (), root: str | None = None) -> tuple[str, list[Metric]]:
        """What the test set was, and the figures of the task (for translation: `regard.commands.evaluate`)."""
        data = self.recipe.data
        with tempfile.TemporaryDirectory() as cache:
            setup = Setup(
                data=data if root is None else replace(data, root=root),
                tokenizer=self.tokenizer,
                dropout=0.0,
                cache=Path(cache),
                seed=self.recipe.training.seed,
                decoding=self.recipe.decoding,
            )
            return TASKS[self.recipe.kind][1].measure(self.model, self.recipe.task, setup, tuple(map(str, files)))

    def expect(self, *kinds: str) -> None:
        """Of a run that learnt something else nobody can ask this."""
        if self.recipe.kind not in kinds:
            raise RunError(
                f"{self.folder} learnt the task {self.recipe.kind!r}; this needs a run of {' or '.join(kinds)}. "
                f"Its card, {self.folder / 'README.md'}, says how to use it"
            )

    @property
    def max_length(self) -> int:
        """Source tokens that are translated in one piece: what the model was trained on."""
        return min(self.recipe.data.max_length, self.model.config.max_length - len(self.frame.source([])))

    @property
    def frame(self) -> Frame:
        """The tokens around a source and a target."""
        found: Frame = self.recipe.task.frame(self.tokenizer)
        return found

    def translate(
        self,
        lines: Sequence[str],
        decoding: DecodingConfig | None = None,
        prefixes: Sequence[str] | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> list[Translated]:
        """One answer per line, in order.  `decoding` replaces the recipe's settings."""
        self.expect(*PAIRS)
        room = self.recipe.task.room(self.max_length, self.model.config.max_length)
        config = (decoding or self.recipe.decoding).within(room)
        return translate(
            self.generator, self.tokenizer, list(lines), config, self.max_length, self.frame,
            None if prefixes is None else list(prefixes), on_progress,
        )  # fmt: skip

    def summarize(self, texts: Sequence[str], decoding: DecodingConfig | None = None) -> list[Translated]:
        """A summary of each text, in order: `translate`, of a run whose targets are summaries."""
        return self.translate(texts, decoding)

    def generate(
        self,
        prompts: Sequence[str],
        length: int | None = None,
        decoding: DecodingConfig | None = None,
        stop: Sequence[str] = (),
        n_likeliest: int = 0,
    ) -> list[list[Written]]:
        """For each prompt the `n_best` texts that go on from it, by at most `length` tokens, up to a stop string."""
        self.expect("language")
        return write(
            self.generator, self.tokenizer, list(prompts), self.recipe.task.unit, length,
            decoding or self.recipe.decoding, stop, n_likeliest,
        )  # fmt: skip

    def stream(
        self,
        prompt: str,
        length: int | None = None,
        decoding: DecodingConfig | None = None,
        stop: Sequence[str] = (),
    ) -> TextPieces:
        """The text that `generate` gives, in pieces as it is written; its `notes` say what happened to the prompt."""
        self.expect("language")
        config = decoding or self.recipe.decoding
        return write_stream(self.generator, self.tokenizer, prompt, self.recipe.task.unit, length, config, stop)

    def chat(
        self, messages: Sequence[dict[str, str]], length: int | None = None, decoding: DecodingConfig | None = None
    ) -> Reply:
        """The answer to the last of the messages, each such as {"role": "user", "content": "Hello!"}."""
        self.expect("chat", "preference", "language")
        config = decoding or self.recipe.decoding
        return reply(self.generator, self.tokenizer, [read_messages(list(messages))], length, config)[0]

    def generate_as(
        self,
        label: str,
        prompts: Sequence[str] = ("",),
        length: int | None = None,
        decoding: DecodingConfig | None = None,
    ) -> list[list[Written]]:
        """The same from a label: a prompt, which may be empty, is how the text begins."""
        self.expect("label-to-text")
        return write_as(
            self.model, self.tokenizer, self.recipe.task.id_of(label), list(prompts), length,
            decoding or self.recipe.decoding,
        )  # fmt: skip

    def tag(self, lines: Sequence[str]) -> list[TaggedLine]:
        """For each line its words, the tag of each, and the text that they make."""
        self.expect("tagging", "restoration")
        task, data = TASKS[self.recipe.kind][1], self.recipe.data
        return tag(
            self.model, self.tokenizer, [task.words_of(line) for line in lines], self.recipe.task.tags, task.write,
            data.max_length, self.recipe.task.framed, data.batch_tokens,
        )  # fmt: skip

    def classify(self, lines: Sequence[str]) -> list[Classified]:
        """A label for each line, with the probability of every label and what happened to the line."""
        self.expect("classification", "label-words")
        task, data = self.recipe.task, self.recipe.data
        voter = TASKS[self.recipe.kind][1].voter(self.model, task, self.tokenizer)
        framing = task.framing(self.tokenizer, data)
        return classify(voter, list(lines), task.shown_labels, framing, data.batch_tokens)

    def answer(self, questions: Sequence[str], contexts: Sequence[str], always: bool = False) -> list[Answered]:
        """For each question the span of its context that answers it, or that none does; with `always`, one does."""
        self.expect("answers")
        pairs = [asked(question, context) for question, context in zip(questions, contexts, strict=True)]
        manner = self.recipe.task.manner(self.recipe.data.max_length)
        return answer(self.model, self.tokenizer, pairs, manner, self.recipe.data.batch_tokens, always)

    def fill(self, texts: Sequence[str], top: int = 5) -> list[Filled]:
        """For every [MASK] of each text its `top` likeliest words, and the text with the likeliest."""
        self.expect("masked")
        return fill(self.model, self.tokenizer, list(texts), top, self.recipe.data.batch_tokens)

    def embed(self, lines: Sequence[str], pooling: str = "mean", layer: int | None = None) -> np.ndarray:
        """One vector for each line, (lines, D): of the rows that the model reads from it, whatever its task."""
        limit, task = self.model.config.max_length, self.recipe.task
        documents = framed(list(lines), self.tokenizer, self.recipe.kind, task, limit)
        return embed(self.model, self.recipe.architecture, documents, pooling, layer)

    def score_texts(self, texts: Sequence[str]) -> list[list[float]]:
        """log P of each token of the given texts and, where lines have one, of their end."""
        self.expect("language")
        return score_texts(self.generator, self.tokenizer, list(texts), self.recipe.task.unit)

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[float]]:
        """log P of each token of the given targets and, last, of their end."""
        self.expect(*PAIRS)
        encoded = [self.tokenizer.encode_batch(side) for side in (sources, targets)]
        most = self.model.config.max_length
        limits = (most - len(self.frame.source([])), most - 1)  # what stands around a source, and a start
        for side, limit, lines in zip(("source", "target"), limits, encoded, strict=True):
            for number, ids in enumerate(lines, start=1):
                if len(ids) > limit:
                    raise RegardError(f"{side} line {number} has {len(ids)} tokens, the model takes {limit}; split it")
        prompts = [self.frame.source(ids) for ids in encoded[0]]
        return score(self.generator, prompts, encoded[1], self.frame.start, self.frame.end)

    def look(
        self,
        source: str,
        target: str | None = None,
        layers: Collection[int] | None = None,
        heads: Collection[int] | None = None,
        vectors: bool = False,
    ) -> Capture:
        """The attention of a source and its target (the given one, or the model's own); that of a model that reads a
        text; the votes of a Markov model."""
        self.expect(*looking.SOURCE_AND_TARGET, *looking.LOOKED_AT)
        asked = looking.Asked(layers=layers, heads=heads, vectors=vectors)
        if self.recipe.kind in looking.SOURCE_AND_TARGET:
            asked.check(self.model)
            target = self.target_of(source) if target is None else target
            show = looking.SOURCE_AND_TARGET[self.recipe.kind]
            return show(self.model, self.tokenizer, self.recipe.task, source, target, asked)
        if target is not None or not source:
            raise RegardError("a model that reads is looked at while it reads one text: give the text, and no target")
        ids = looking.tokens_read(source, self.tokenizer, self.recipe.kind, self.recipe.task)
        if ARCHITECTURES[self.recipe.architecture].is_counted:
            return looking.look_at_votes(self.model, self.tokenizer, ids, source)
        return looking.look_at_text(self.model, self.tokenizer, ids, source, asked)

    def target_of(self, source: str) -> str:
        """What the run itself writes for a source."""
        if self.recipe.kind == "denoising":
            raise RegardError(f"{self.folder} mends damaged texts: say what it is to write, as the target (--target)")
        if self.recipe.kind in looking.TALKS:
            return self.chat([{"role": "user", "content": source}]).text
        return (
            self.classify([source])[0].label if self.recipe.kind == "label-words" else self.translate([source])[0].text
        )

    def reach(self, files: Sequence[str | Path] = (), distance: int = 100, n_passages: int = 64) -> Reach:
        """|∂L/∂h_{T-d}| by distance, measured on a text (default: the recipe's test or validation text)."""
        self.expect("language")
        if ARCHITECTURES[self.recipe.architecture].is_counted:
            raise RunError(f"{self.folder} learnt by counting: it has no gradients whose reach could be measured")
        _, text = evaluated_text(self.recipe.data, self.recipe.task.unit, tuple(map(str, files)))
        with tempfile.TemporaryDirectory() as cache:
            stream = Stream(text, self.recipe.task.unit, self.tokenizer, Path(cache))
            return measure_reach(self.model, stream, distance, n_passages)

    def position_table(self, n_positions: int = 60, n_channels: int = 32) -> np.ndarray:
        """What the model adds to its embeddings at each place: the documents' 60 by 32 table, or what was learnt."""
        if not hasattr(self.recipe.model, "position"):
            raise RegardError(f"a model of architecture {self.recipe.architecture!r} has no position encoding to draw")
        return position_table(self.model, n_positions, n_channels)

    def alignments(self, translated: Translated, layer: int | None = None) -> list[tuple[int, int]]:
        """(source word, target word) by cross-attention: the mean of the heads of one layer (default: the last
        but one, which aligns best in most translators; Garg et al. 2019)."""
        return alignments(self.model, self.tokenizer, self.frame, translated, layer)
