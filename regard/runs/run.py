"""A run that was loaded: a model, its tokenizer and its task, and all that the task's verbs can be asked."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property, partial
from inspect import Parameter, Signature, signature
from itertools import chain
from pathlib import Path
from typing import Any, cast, get_type_hints

import torch

from regard.data.images.pixels import Picture
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.decoding.ensemble import Ensemble
from regard.decoding.interface import AnyGenerator
from regard.decoding.speculative import SpeculativeEngine
from regard.errors import RunError
from regard.evaluation.measured import Measured, Versus
from regard.learning.device import choose_device
from regard.models.interface import Model
from regard.runs.expected import read_expected
from regard.runs.history import TrainingHistory
from regard.runs.recipe import Recipe
from regard.runs.transfer import trained_model
from regard.runs.word_lists import word_lists
from regard.tasks.request import asks_in_turn, checked, in_pieces
from regard.tasks.setup import Use
from regard.tasks.task import AnyTask
from regard.tasks.verbs import VERBS
from regard.text.tokenizer import Tokenizer
from regard.viewer.capture import Capture
from regard.viewer.encodings import PositionTable, position_tables
from regard.viewer.looking import Focus


class CannotError(RunError, AttributeError):
    """Something that this run cannot do, and others can."""


def load(folder: str | Path, device: str | None = None) -> "Run":
    """Read a run: recipe.toml, tokenizer.json and the weights that its card names."""
    folder = Path(folder)
    recipe = Recipe.of_run(folder)
    tokenizer = Tokenizer.load(folder)
    n_tokens, n_rows = tokenizer.vocab_size, recipe.model.vocab_size
    if n_tokens > n_rows:
        raise RunError(
            f"{folder / 'tokenizer.json'} has {n_tokens:,} tokens and the model rows for {n_rows:,}: it is not "
            "the tokenizer of this run; bring that one back"
        )
    model, weights = trained_model(folder, recipe)
    return Run(folder, recipe, tokenizer, model.to(choose_device(device)), weights)


class Run:
    """`run = regard.load("runs/x"); run.translate(["…"])`.

    What can be asked of it are its task's verbs (`regard.tasks.verbs`): `dir(run)` lists them, and `run.verbs` does.
    """

    def __init__(self, folder: Path, recipe: Recipe, tokenizer: Tokenizer, model: Model, weights: str):
        self.folder, self.recipe, self.tokenizer, self.model = folder, recipe, tokenizer, model
        self.weights = weights  # which weights these are, in words
        self.task: AnyTask = recipe.task_class(recipe.task, recipe.setup(tokenizer))
        self.partners: list[Run] = []  # the rest of an ensemble
        self.draft: Run | None = None  # proposes what this one writes
        self.drafted: dict[Run, Run] = {}  # this run with each draft that was asked for

    def join(self, others: Sequence["Run"]) -> "Run":
        """An ensemble: this run and the others decode together.  They must share one tokenizer."""
        for other in others:
            if other.tokenizer.to_json() != self.tokenizer.to_json():
                raise RunError(
                    f"{other.folder} and {self.folder} have different tokenizers: they cannot form an ensemble"
                )
        joined = Run(self.folder, self.recipe, self.tokenizer, self.model, self.weights)
        joined.partners = list(others)
        return joined

    def drafted_by(self, draft: "Run") -> "Run":
        """This run, written faster: the draft, a smaller run with the same vocabulary, proposes tokens, and this one
        reads several of them in one step.  The answers stay this run's own.  See `regard.decoding.speculative`."""
        if draft not in self.drafted:
            for run in (draft, self, *self.partners):
                if not run.model.can_forget:
                    raise RunError(
                        f"{run.folder} cannot take tokens back, so it cannot be used with a draft or be one; "
                        "Transformers and counted models can; recurrent models and those with a window, hashing or a "
                        "memory cannot"
                    )
                same_words = run.tokenizer.to_json() == self.tokenizer.to_json()
                if not same_words or run.recipe.model.vocab_size != self.recipe.model.vocab_size:
                    raise RunError(
                        f"{run.folder} and {self.folder} have different vocabularies: it cannot be its draft"
                    )
            joined = Run(self.folder, self.recipe, self.tokenizer, self.model, self.weights)
            joined.partners, joined.draft = self.partners, draft
            self.drafted[draft] = joined
        return self.drafted[draft]

    @cached_property
    def engine(self) -> Engine:
        """What searches: in the model, or in an ensemble."""
        engine = self.speculative or Engine(self.generator)
        engine.word_lists = partial(word_lists, self.folder, self.recipe, self.task, self.tokenizer)
        return engine

    @cached_property
    def speculative(self) -> SpeculativeEngine | None:
        """The engine of a run with a draft, which knows how many tokens were proposed and accepted."""
        draft = None if self.draft is None else cast(AnyGenerator, self.draft.model)
        return None if draft is None else SpeculativeEngine(self.generator, draft)

    @property
    def generator(self) -> AnyGenerator:
        # One that cannot write is never stepped.
        models = [cast(AnyGenerator, run.model) for run in (self, *self.partners)]
        return Ensemble(models) if self.partners else models[0]

    def __repr__(self) -> str:
        n_weights = sum(parameter.numel() for parameter in self.model.parameters())
        size = f"a {self.recipe.architecture} of {n_weights:,} weights on {self.device}"
        joined = f", an ensemble of {1 + len(self.partners)}" if self.partners else ""
        return f"<Run {self.folder}: {size}{joined}; it {self.task.purpose}; it can {', '.join(self.verbs)}>"

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def history(self) -> TrainingHistory:
        """How it was trained; in a notebook, the curves and samples of the last validation."""
        return TrainingHistory.read(self.folder, self.recipe.task.drawn)

    def use(self, decoding: DecodingConfig | None = None) -> Use:
        """The model with the recipe's settings of decoding, or with others."""
        return Use(self.model, self.engine, decoding or self.recipe.decoding, {} if self.partners else self.expected)

    @cached_property
    def expected(self) -> dict[str, float]:
        """What the run's outputs are like on its validation set, as far as its training kept that."""
        return read_expected(self.folder)

    # The task's verbs.

    @property
    def verbs(self) -> list[str]:
        return list(self.task.verbs)

    @property
    def neighbours(self) -> Callable[..., Any]:
        """`neighbors`, in its other spelling."""
        return self.neighbors

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.verbs]

    def __getattr__(self, name: str) -> Callable[..., Any]:  # what the verb's request takes, and what answers it
        """run.translate(lines, …) is the task's answer to the request Translate(lines, …): a list; for a string the
        answer itself; for a generator, or any other iterator, the answers one after the other as they are made."""
        if name not in VERBS:
            raise AttributeError(f"a run has no {name!r}")
        self.check_can(name)
        verb, answer = VERBS[name], self.task.verbs[name]

        def ask(*args: object, draft: Run | None = None, **settings: object) -> object:
            if draft is not None and not verb.takes_draft:
                raise TypeError(f"{name}() writes nothing that a draft could propose")
            asked, whole = self if draft is None else self.drafted_by(draft), verb(*args, **settings)
            if asks_in_turn(whole):
                pieces = in_pieces(whole, self.task.listed)
                return chain.from_iterable(answer(asked.use(), piece) for piece in pieces)
            request, is_alone = checked(whole, self.task.listed)
            answers = answer(asked.use(), request)
            return answers[0] if is_alone else answers

        ask.__name__, ask.__doc__ = name, verb.__doc__
        hints, fields = get_type_hints(verb), signature(verb).parameters.values()
        of_draft = Parameter("draft", Parameter.KEYWORD_ONLY, default=None, annotation=Run | None)
        ask.__signature__ = Signature(  # type: ignore[attr-defined]
            [
                *(field.replace(annotation=hints[field.name]) for field in fields),
                *([of_draft] if verb.takes_draft else ()),
            ],
            return_annotation=signature(answer).return_annotation,
        )
        return ask

    def check_can(self, verb: str) -> None:
        if verb not in self.task.verbs:
            raise CannotError(f"{self.folder} {self.task.purpose} and cannot {verb}; it can: {', '.join(self.verbs)}")

    # What every run can do.

    def measure(
        self, files: Sequence[str | Path] = (), root: str | None = None, decoding: DecodingConfig | None = None
    ) -> Measured:
        """The figures of the task on its test set, or on given files; `root` is where the recipe's files are now."""
        return self.at(root).measure(self.use(decoding), [str(file) for file in files])

    def versus(
        self,
        other: "Run",
        files: Sequence[str | Path] = (),
        root: str | None = None,
        decodings: tuple[DecodingConfig | None, DecodingConfig | None] = (None, None),
    ) -> Versus:
        """This run and another on one test."""
        if self.task.compared_as != other.task.compared_as:
            raise RunError(f"{self.folder} and {other.folder} were trained for different tasks and cannot be compared")
        ours, theirs = self.use(decodings[0]), other.use(decodings[1])
        return self.at(root).versus(ours, other.at(root), theirs, [str(file) for file in files])

    def at(self, root: str | None) -> AnyTask:
        """The task with its data in another folder."""
        if root is None:
            return self.task
        setup = replace(self.task.setup, data=replace(self.recipe.data, root=root))
        return type(self.task)(self.recipe.task, setup)

    def look(
        self,
        source: Picture,
        target: str | None = None,
        layers: Collection[int] | None = None,
        heads: Collection[int] | None = None,
        vectors: bool = False,
        part: int = 1,
    ) -> Capture:
        """The attention of a source and its target (the given one, or the model's own); that of a model that reads a
        text or an image (a path, a PIL image, an array or a tensor); the votes of a Markov model.

        A text that is too long for the model is split as `translate` does, and `part` says which part is looked at."""
        focus = Focus(layers=layers, heads=heads, vectors=vectors, part=part)
        sources = self.task.listed(source, "look")
        if len(sources) != 1:
            raise RunError(f"look at one at a time, not at {len(sources)}")
        return self.task.look(self.use(), sources[0], target, focus)

    def position_tables(self, n_positions: int = 60) -> list[PositionTable]:
        """What the model adds to its embeddings at each place, turns queries and keys by, or adds to scores."""
        return position_tables(self.model, n_positions)
