"""Every architecture with every task that it fits, as small as they come: the tables, and all contact with a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console
from tiny_data import write_data
from torch import Tensor

from regard import config
from regard.models import ARCHITECTURES
from regard.nn.grid import ImagePrompt
from regard.nn.layout import Prompt
from regard.runs.card import Result
from regard.runs.recipe import Recipe
from regard.runs.weights import save_weights, weights_of
from regard.tasks.table import TASKS
from regard.text.tokenizer import Tokenizer
from regard.training.prepare import Prepared, prepare
from regard.training.screen import Screen
from regard.training.start import start

CPU = torch.device("cpu")
SOURCE_LENGTHS = [4, 6, 2]
Settings = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class TinyArchitecture:
    """Settings of [model]; and those with which a reader sees the past alone, or both sides (None: it cannot)."""

    settings: Settings
    past: Settings | None = None
    both: Settings | None = None
    attends: bool = False


@dataclass(frozen=True, kw_only=True)
class TinyTask:
    """Settings of [task] and [tokenizer]; what a reader sees; why it cannot do some things."""

    data: str  # the kind of its files
    sees: str  # "past": nothing after a token counts for it; "both"; "any": either will do
    settings: Settings = field(default_factory=dict)
    extra: tuple[str, ...] = ()  # special tokens
    only: tuple[str, ...] = ()  # the architectures that it takes, of those with the right role; (): all
    writes: bool = True  # False: what it predicts are no tokens, though it sees the past alone
    cannot_learn: str = ""  # why there is nothing to learn
    figures: tuple[str, ...] = ()  # those that do not depend on chance drawn for a whole batch; (): all


BLOCKS = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 16, "max_length": 64, "dropout": 0.1}
RECURRENT = {"d_model": 8, "d_hidden": 8, "n_layers": 1, "dropout": 0.1, "max_length": 64}
WINDOWS = {"look_back": 2, "horizon": 2, "normalize": "none"}
ARCHITECTURE_ROWS = {
    "bag": TinyArchitecture(settings={"n_features": 60}),
    "markov": TinyArchitecture(settings={"order": 2}, past={}),
    "recurrent": TinyArchitecture(settings=RECURRENT, past={}, both={"bidirectional": True}),
    "convolutional": TinyArchitecture(
        settings={"d_model": 8, "n_layers": 2, "max_length": 64}, past={}, both={"causal": False}
    ),
    "attentive": TinyArchitecture(settings={**RECURRENT, "embedding_range": 1.0}, past={}, attends=True),
    "seq2seq": TinyArchitecture(settings={**RECURRENT, "look": "feed"}, past={}, attends=True),
    "transformer": TinyArchitecture(settings=BLOCKS, past={}, attends=True),
    "bilm": TinyArchitecture(settings={"d_model": 8, "n_layers": 1, "max_length": 64}, both={}),
    "elmo": TinyArchitecture(
        settings={"d_model": 8, "n_layers": 1, "d_task": 8, "frozen": False, "max_length": 64}, both={}
    ),
    "stack": TinyArchitecture(settings=BLOCKS, past={}, both={"causal": False}, attends=True),
    "transformer-xl": TinyArchitecture(settings={**BLOCKS, "memory": 8}, past={}, attends=True),
    "compressive": TinyArchitecture(
        settings={**BLOCKS, "memory": 8, "compressed_memory": 4, "compression_rate": 2}, past={}, attends=True
    ),
    "xlnet": TinyArchitecture(settings=BLOCKS, both={}, attends=True),
    "residual": TinyArchitecture(settings={"patch": 4, "side": 3, "d_model": 32, "n_blocks": 1}, both={}),
    "vit": TinyArchitecture(settings={**BLOCKS, "patch": 4, "side": 3}, both={}, attends=True),
    "image-seq2seq": TinyArchitecture(
        settings={
            **RECURRENT,
            "patch": 4,
            "side": 3,
            "d_image": 32,
            "n_blocks": 1,
            "doubly_stochastic": 0.1,
            "look": "before",
        },
        past={},
        attends=True,
    ),
    "image-transformer": TinyArchitecture(settings={**BLOCKS, "patch": 4, "side": 3}, past={}, attends=True),
    "recurrent-series": TinyArchitecture(settings={**WINDOWS, "d_hidden": 8, "n_layers": 1, "dropout": 0.1}, both={}),
    "transformer-series": TinyArchitecture(settings={**BLOCKS, **WINDOWS}, both={}, attends=True),
    "nlinear": TinyArchitecture(settings=WINDOWS, both={}),
    "dlinear": TinyArchitecture(settings={**WINDOWS, "smooth": 3}, both={}),
    "patchtst": TinyArchitecture(settings={**BLOCKS, **WINDOWS, "patch": 2, "stride": 1}, both={}, attends=True),
    "itransformer": TinyArchitecture(settings={**BLOCKS, **WINDOWS}, both={}, attends=True),
}
CHAT = ("<system>", "<user>", "<assistant>")
TASK_ROWS = {
    "classification": TinyTask(data="labeled", sees="any"),
    "images": TinyTask(data="images", sees="any", settings={"flip": 0.5, "erase": 0.5}),
    "captions": TinyTask(data="captions", sees="past", settings={"validation_lines": 2, "flip": 0.5, "erase": 0.5}),
    "decisions": TinyTask(
        data="episodes",
        sees="past",
        settings={"game": "steer", "context": 4, "episodes": 2},
        only=("recurrent", "convolutional", "stack"),
        writes=False,
    ),
    "forecasting": TinyTask(data="series", sees="both", settings={"quantiles": [0.1, 0.5, 0.9]}),
    "language": TinyTask(data="text", sees="past", settings={"window": 8, "sample_length": 4}),
    "bidirectional": TinyTask(data="text", sees="both", settings={"window": 8}),
    "masked": TinyTask(data="text", sees="both", settings={"window": 16}, extra=("<mask>",), only=("stack",)),
    "replaced": TinyTask(
        data="text",
        sees="both",
        settings={"window": 16, "generator": 0.5},
        extra=("<mask>",),
        only=("stack",),
        figures=("word_loss",),
    ),
    "label-words": TinyTask(data="labeled", sees="past"),
    "denoising": TinyTask(data="text", sees="past", settings={"window": 12}, extra=("<mask>",)),
    "permutation": TinyTask(data="text", sees="both", settings={"window": 12}, only=("xlnet",)),
    "chat": TinyTask(data="conversations", sees="past", settings={"sample_length": 4}, extra=CHAT),
    "preference": TinyTask(data="preferences", sees="past", extra=CHAT),
    "reward": TinyTask(data="preferences", sees="any", extra=CHAT),
    "policy": TinyTask(
        data="preferences", sees="past", extra=CHAT, cannot_learn="it learns from a run that judges what it writes"
    ),
    "reading": TinyTask(data="text", sees="any", cannot_learn="a reader without a head predicts nothing"),
    "label-to-text": TinyTask(data="labeled", sees="past", settings={"sample_length": 4}),
    "tagging": TinyTask(data="tagged", sees="any", settings={"neutral": "O"}),
    "restoration": TinyTask(data="text", sees="any"),
    "numbers": TinyTask(data="numbered", sees="any"),
    "answers": TinyTask(
        data="questions", sees="any", settings={"max_question": 3, "max_answer": 3, "stride": 4, "dropout": 0.0}
    ),
    "similarity": TinyTask(data="pairs", sees="any", figures=("accuracy", "mrr")),  # a loss depends on the batch
    "translation": TinyTask(data="pairs", sees="past", settings={"validation_lines": 2}),
    "prompted": TinyTask(data="pairs", sees="past", settings={"validation_lines": 2}, extra=("<answer>",)),
}


class Pair(NamedTuple):
    architecture: str
    task: str

    def __str__(self) -> str:
        return f"{self.architecture}-{self.task}"

    @property
    def rows(self) -> tuple[TinyArchitecture, TinyTask]:
        return ARCHITECTURE_ROWS[self.architecture], TASK_ROWS[self.task]

    @property
    def role(self) -> str:
        return ARCHITECTURES[self.architecture].module.role

    @property
    def has_source(self) -> bool:
        """Whether it reads something else than what it writes."""
        return self.role in ("translator", "captioner")

    @property
    def is_counted(self) -> bool:
        return ARCHITECTURES[self.architecture].module.is_counted

    @property
    def model_settings(self) -> dict[str, object] | None:
        """Those with which the model fits the task; None: there are none."""
        model, task = self.rows
        if task.only and self.architecture not in task.only:
            return None
        if self.role == "classifier":  # sees words, in no order
            return dict(model.settings)
        ways = {"past": model.past, "both": model.both}
        suitable = [ways[task.sees]] if task.sees in ways else [ways["both"], ways["past"]]
        chosen = next((way for way in suitable if way is not None), None)
        return None if chosen is None else {**model.settings, **chosen}


def sequences(lengths: Sequence[int], n_words: int, seed: int = 0) -> Tensor:
    return torch.randint(0, n_words, (sum(lengths),), generator=torch.Generator().manual_seed(seed))


def sources(pair: Pair, n_words: int) -> Sequence[Prompt]:
    """What a model with a source reads first, three of them: token ids, or images of several sizes."""
    if pair.role == "translator":
        return [tokens.tolist() for tokens in sequences(SOURCE_LENGTHS, n_words, seed=1).split(SOURCE_LENGTHS)]
    shapes, generator = [(2, 2), (2, 3), (1, 3)], torch.Generator().manual_seed(1)
    patches = [torch.randint(0, 256, (h * w, 3 * 4 * 4), generator=generator) for h, w in shapes]
    return [ImagePrompt(rows.byte(), shape) for rows, shape in zip(patches, shapes, strict=True)]


WITH_THE_ROLE = [Pair(*names) for names in product(ARCHITECTURES, TASKS) if Pair(*names).role in TASKS[names[1]].roles]
PAIRS = [pair for pair in WITH_THE_ROLE if pair.model_settings is not None]


def covering(pairs: list[Pair]) -> list[Pair]:
    """Few pairs that have every architecture and every task: again and again the one that adds the most."""
    chosen: list[Pair] = []
    missing = {name for pair in pairs for name in pair}
    while missing:
        chosen.append(max(pairs, key=lambda pair: len(missing & set(pair))))
        missing -= set(chosen[-1])
    return chosen


def write_recipe(pair: Pair, folder: Path, model: Settings | None = None) -> Path:
    """The data and the recipe of a pair in a folder; `model` replaces the settings that fit."""
    row = TASK_ROWS[pair.task]
    path = folder / f"{pair}.toml"
    tables = {
        "task": {"kind": pair.task, **row.settings},
        "data": {**write_data(row.data, folder / "data"), "max_length": 24, "batch_tokens": 48},
        "tokenizer": {"kind": "words", "vocab_size": 60, "extra": list(row.extra)},
        "model": {"architecture": pair.architecture, **(model or pair.model_settings or {})},
        "training": {
            "steps": 6,
            "schedule": "constant",
            "learning_rate": 0.01,
            "warmup": 2,
            "validate_every": 0,
            "save_every": 3,
        },
        "decoding": {"length_ratio": 0.0, "extra_length": 6},
    }
    config.write(tables, path)
    return path


def prepared(recipe: Path, run: Path, *overrides: str, resume: bool = False) -> Prepared:
    return prepare(Recipe.read(str(run if resume else recipe), overrides), run, resume)


def trained(recipe: Path, run: Path, *overrides: str, resume: bool = False) -> tuple[Prepared, Result]:
    """What was prepared, with the weights that the last step left in its model."""
    made = prepared(recipe, run, *overrides, resume=resume)
    return made, start(made, run, CPU, resume, Screen(Console(quiet=True)))


def without_head(recipe: Path, run: Path) -> torch.nn.Module:
    """The run of a task that learns nothing, as an import leaves it."""
    chosen = Recipe.read(str(recipe))
    lines = [line for file in chosen.data.train for line in (Path(chosen.data.root) / file).read_text().splitlines()]
    tokenizer = Tokenizer.train(lines, chosen.tokenizer)
    chosen = chosen.with_vocabulary(tokenizer.vocab_size)
    torch.manual_seed(0)
    model: torch.nn.Module = chosen.build_model().eval()
    run.mkdir()
    chosen.write(run / "recipe.toml")
    tokenizer.save(run / "tokenizer.json")
    save_weights(weights_of(model), run / "model.safetensors")
    return model
