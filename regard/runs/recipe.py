"""A recipe: everything about a run, from one TOML file."""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from regard import config
from regard.choose import choose
from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.errors import ConfigError, RunError
from regard.learning.config import TrainingConfig
from regard.learning.distribution import NO_DISTRIBUTION, DistributionConfig
from regard.models import ARCHITECTURES
from regard.models.config import ModelConfig
from regard.models.interface import Model, Reader
from regard.nn.lora import NO_ADAPTERS, LoraConfig
from regard.nn.loss import NO_TEACHER, DistillationConfig
from regard.tasks.setup import Setup, TaskConfig
from regard.tasks.table import TASKS
from regard.tasks.task import AnyTask
from regard.text.tokenizer import Tokenizer, TokenizerConfig

TABLES = ("task", "data", "tokenizer", "model", "lora", "distillation", "distribution", "training", "decoding")

USUAL_TASK = "translation"  # of a recipe that names none


def task_settings(table: config.Settings) -> type[TaskConfig] | None:
    """Of the task that a table [task] names; None: there is none of that name."""
    task = TASKS.get(table.get("kind", USUAL_TASK))
    return None if task is None else task.settings


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One dataclass per table.  `kind` and `architecture` name the task and the model (rows of their tables)."""

    name: str
    kind: str
    architecture: str
    task: TaskConfig  # of the class that `kind` names; ...
    data: DataConfig
    tokenizer: TokenizerConfig
    model: ModelConfig  # ... of that which `architecture` names
    training: TrainingConfig
    decoding: DecodingConfig
    lora: LoraConfig = NO_ADAPTERS
    distillation: DistillationConfig = NO_TEACHER
    distribution: DistributionConfig = NO_DISTRIBUTION

    @classmethod
    def read(cls, name: str, overrides: Iterable[str] = ()) -> "Recipe":
        """A shipped name, a TOML file or a run folder; overrides such as "model.n_layers=4"."""
        return cls.of(name, config.load(name, overrides))

    @classmethod
    def of(cls, name: str, settings: config.Settings) -> "Recipe":
        """From its tables."""
        unknown = [table for table in settings if table not in TABLES]
        if unknown:
            raise ConfigError(f"{name} has no table [{unknown[0]}]; its tables are: {', '.join(TABLES)}")
        for table in settings:
            if not isinstance(settings[table], dict):
                raise ConfigError(f"{table} is a table, [{table}], not a value; got {table} = {settings[table]!r}")
        tables = {table: dict(settings.get(table, {})) for table in TABLES}
        if tables["training"].get("from_run") and "model" not in settings:
            raise ConfigError(f"{name} takes its model and its tokenizer from a run: give that run, --from RUN")
        kind = tables["task"].pop("kind", USUAL_TASK)
        architecture = tables["model"].pop("architecture", "transformer")
        tokenizer = config.build(TokenizerConfig, tables["tokenizer"], "tokenizer")
        if tables["model"].setdefault("vocab_size", tokenizer.vocab_size) != tokenizer.vocab_size:
            raise ConfigError("[model] takes its vocab_size from the tokenizer: set tokenizer.vocab_size instead")
        role = choose(ARCHITECTURES, architecture, "architecture").module.role
        task_class = choose(TASKS, kind, "task")
        roles = task_class.roles
        if role not in roles:
            fitting = ", ".join(name for name, row in ARCHITECTURES.items() if row.module.role in roles)
            raise ConfigError(f"the architecture {architecture!r} cannot do the task {kind!r}; these can: {fitting}")
        task = config.build(task_class.settings, tables["task"], "task")
        model = build_model_settings(ARCHITECTURES[architecture].config, tables["model"])
        return cls(
            name=Path(name).stem,
            kind=kind,
            architecture=architecture,
            tokenizer=tokenizer,
            data=config.build(DataConfig, tables["data"], "data"),
            lora=config.build(LoraConfig, tables["lora"], "lora"),
            distillation=config.build(DistillationConfig, tables["distillation"], "distillation"),
            distribution=config.build(DistributionConfig, tables["distribution"], "distribution"),
            training=config.build(TrainingConfig, tables["training"], "training"),
            decoding=config.build(DecodingConfig, tables["decoding"], "decoding"),
            model=model.with_series(*task.series_widths),
            task=task,
        )

    @classmethod
    def of_run(cls, folder: Path, overrides: Iterable[str] = ()) -> "Recipe":
        """That of a run folder, even where a shipped recipe has its name."""
        if not (folder / "recipe.toml").is_file():
            raise RunError(
                f"{folder} is not a run folder: it has no recipe.toml; `regard train RECIPE --run {folder}` makes one"
            )
        return cls.read(str(folder.resolve()), overrides)

    def write(self, path: Path) -> None:
        """All of it, defaults too: `read` gives the same recipe back."""
        config.write(self.tables(), path)

    def tables(self) -> dict[str, config.Settings]:
        tables = {table: config.as_settings(getattr(self, table)) for table in TABLES}
        tables["task"] = {"kind": self.kind, **tables["task"]}
        tables["model"] = {"architecture": self.architecture, **tables["model"]}
        return tables

    def changes(self, before: "Recipe") -> Iterator[tuple[str, str, object, object]]:
        """(table, setting, value before, value now) of every setting that differs."""
        for table in TABLES:
            old, new = (recipe.tables()[table] for recipe in (before, self))
            for name in sorted(old.keys() | new.keys()):
                if old.get(name) != new.get(name):
                    yield table, name, old.get(name), new.get(name)

    def with_vocabulary(self, vocab_size: int) -> "Recipe":
        """The vocabulary that the tokenizer really has: a small text gives fewer merges than were asked for."""
        return dataclasses.replace(
            self,
            model=dataclasses.replace(self.model, vocab_size=vocab_size),
            tokenizer=dataclasses.replace(self.tokenizer, vocab_size=vocab_size),
        )

    def with_budget(self, batch_tokens: int) -> "Recipe":
        """With what was found for data.batch_tokens = "auto"."""
        return dataclasses.replace(self, data=dataclasses.replace(self.data, batch_tokens=batch_tokens))

    def with_task(self, task: TaskConfig) -> "Recipe":
        """The task as the data settled it (labels or columns that were left open); a model that is a classifier has as
        many, and so has one that forecasts."""
        model = self.model.with_labels(task.n_labels).with_series(*task.series_widths)
        return dataclasses.replace(self, task=task, model=model)

    @property
    def d_model(self) -> int:
        """The width that the paper's schedule asks for; 1 for a model that has none."""
        return self.model.d_model

    @property
    def task_class(self) -> type[AnyTask]:
        return choose(TASKS, self.kind, "task")

    @property
    def model_class(self) -> type[Model]:
        """Of the architecture; around a reader there is a head."""
        return ARCHITECTURES[self.architecture].module

    def setup(self, tokenizer: Tokenizer, cache: Path | None = None) -> Setup:
        """What the task is made of; with a `cache` it is to be learned, without one to be used."""
        data, n_shards = self.data, self.distribution.n_shards
        if n_shards > 1 and cache is not None:
            data = dataclasses.replace(data, batch_tokens=max(1, data.budget // n_shards))
        return Setup(
            data=data,
            n_shards=n_shards,
            tokenizer=tokenizer,
            dropout=0.0 if cache is None else self.tokenizer.dropout,
            cache=cache,
            seed=self.training.seed,
            decoding=self.decoding.exact,
            grid=self.model.grid,
            series=self.model.series,
        )

    def sketch(self) -> Model:
        """The model without memory, on the meta device: its shapes, before anything is taken for them."""
        try:
            with torch.device("meta"):
                return self.build_model()
        except RuntimeError as error:  # a tensor of more than 2^63 bytes
            raise ConfigError(f"[model] is too large for any machine: {error}") from None

    def build_model(self) -> Model:
        """The architecture and, around a reader, what the task reads off it."""
        self.task.check_tokens(self.model.vocab_size)
        model = self.model_class(self.model)
        return self.task.build(model) if isinstance(model, Reader) else model


def build_model_settings(kind: type[ModelConfig], table: config.Settings) -> ModelConfig:
    model = config.build(kind, table, "model")
    try:
        model.check_sizes()
    except ConfigError as error:
        raise ConfigError(f"[model] {error}") from None
    return model
