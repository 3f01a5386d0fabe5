"""Instruction tuning: conversations in, of which the assistant's words are learnt."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from regard.checks import at_least, not_negative, one_of, share
from regard.data.config import DataConfig
from regard.data.files.conversations import ROLES, Dialogues, as_one_text, read_dialogues, read_parts
from regard.data.report import Row
from regard.errors import ConfigError
from regard.evaluation.language import perplexity
from regard.evaluation.metric import Metric
from regard.models.heads import LanguageModel
from regard.tasks.chat.batches import Turns, answer_nats
from regard.tasks.chat.use import reply, usual_length
from regard.tasks.forgetful import Forgetful
from regard.tasks.setup import Setup


@dataclass(frozen=True, kw_only=True)
class ChatConfig:
    smoothing: float = 0.0
    shown: int = 2  # answers written at each validation
    sample_length: int = 60  # the most tokens of each, there and in `regard evaluate`
    metric: str = "loss"

    def __post_init__(self) -> None:
        not_negative(self, "shown")
        at_least(self, 1, "sample_length")
        share(self, "smoothing")
        one_of(self, ("loss",), "metric")


class Chat(Forgetful):
    """The task as the training loop knows it (`regard.training.task`)."""

    roles = ("reader",)
    higher_is_better = False
    answers: ClassVar[tuple[str, ...]] = ("answer",)  # what stands behind a prompt

    def __init__(self, config: Any, train: Dialogues, valid: Dialogues | None, setup: Setup):
        self.config, self.tokenizer, self.decoding = config, setup.tokenizer, setup.decoding
        self.batch_tokens, self.metric = setup.data.batch_tokens, config.metric
        last_only = len(self.answers) > 1  # where answers are compared, only they count
        limit = setup.data.max_length
        self.train = Turns(train, setup.tokenizer, limit, last_only)
        self.valid = None if valid is None else Turns(valid, setup.tokenizer, limit, last_only)
        self.packing = self.train.packing(self.batch_tokens, setup.data.order, setup.seed)

    @classmethod
    def make(cls, config: Any, setup: Setup) -> Self:
        setup.expect_one_cut("a conversation")
        parts = read_parts(setup.data, cls.answers)
        return cls(config, parts.train, parts.valid, setup)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        """What a tokenizer learns from."""
        train = read_parts(data, cls.answers).train
        yield from (message.content for prompt in train.prompts for message in prompt)
        yield from (answer for answers in train.answers for answer in answers)

    @staticmethod
    def build(config: Any, reader: Any) -> LanguageModel:
        return LanguageModel(reader)

    # Batches.

    def n_batches(self, epoch: int) -> int:
        return len(self.packing.epoch(epoch))

    def batch(self, epoch: int, index: int) -> Any:
        return self.train.batch(self.packing.epoch(epoch)[index])

    def small_batch(self, n_tokens: int) -> Any:
        return self.train.batch(self.train.packing(min(n_tokens, self.batch_tokens), "random", seed=0).epoch(0)[0])

    # Loss.

    def loss(self, model: LanguageModel, batch: Any) -> Tensor:
        return answer_nats(model, batch, self.config.smoothing)

    def plain_loss(self, model: LanguageModel, batch: Any) -> Tensor:
        """The loss without smoothing: what learning by heart can bring to zero."""
        return answer_nats(model, batch, 0.0)

    # Validation.

    def validate(self, model: LanguageModel) -> dict[str, float]:
        """Nats a token of the answers, and what they mean."""
        if self.valid is None:
            return {}
        loss, _ = mean_nats(model, self.valid, self.batch_tokens)
        return {"loss": loss, "perplexity": perplexity(loss)}

    def samples(self, model: LanguageModel) -> list[tuple[str, str, str]]:
        """What the model answers to the first validation prompts."""
        if self.valid is None or not self.config.shown:
            return []
        few = self.valid.dialogues
        prompts = [few.prompts[i] for i in self.valid.kept[: self.config.shown]]
        plain = replace(self.decoding, beam=1, n_best=1)
        found = reply(model, self.tokenizer, prompts, usual_length(model, self.config.sample_length), plain)
        return [
            (as_one_text(prompt), few.answers[i][0], answer.text)
            for prompt, i, answer in zip(prompts, self.valid.kept, found, strict=False)
        ]

    @classmethod
    def measure(
        cls, model: LanguageModel, config: Any, setup: Setup, files: tuple[str, ...]
    ) -> tuple[str, list[Metric]]:
        """The figures of test conversations (default: the recipe's, or else the validation's), and what they are of."""
        what, dialogues = test_dialogues(setup.data, cls.answers, files)
        turns = Turns(dialogues, setup.tokenizer, setup.data.max_length, last_only=False)
        loss, n_tokens = mean_nats(model, turns, setup.data.batch_tokens)
        wanted = [dialogues.answers[i][0].strip() for i in turns.kept]
        length = usual_length(model, config.sample_length)
        found = reply(model, setup.tokenizer, [dialogues.prompts[i] for i in turns.kept], length, setup.decoding)
        n_same = sum(answer.text == want for answer, want in zip(found, wanted, strict=True))
        signature = f"conversations:{len(turns)}|tokens:{n_tokens}|tok:{setup.tokenizer.kind}"
        values = {"loss": loss, "perplexity": perplexity(loss), "exactly the answer, %": 100 * n_same / len(turns)}
        return what, [Metric(name=name, value=value, signature=signature) for name, value in values.items()]

    # For people.

    def inspect(self, data: DataConfig) -> list[Row]:
        """What `regard doctor` says about every part of the data."""
        parts = {"train": self.train, "valid": self.valid}
        return [row for name, part in parts.items() if part is not None for row in part_rows(name, part, self.answers)]

    def rows(self) -> list[tuple[str, str]]:
        rows = [("training data", describe(self.train))]
        if self.valid is not None:
            rows.append(("validation data", describe(self.valid)))
        return rows + [("decided", row) for row in self.train.notes.rows()]

    def purpose(self) -> str:
        return "learnt to answer in conversations"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (f"regard chat {folder}", f"regard evaluate {folder}")


@torch.no_grad()
def mean_nats(model: LanguageModel, turns: Turns, budget: int) -> tuple[float, int]:
    """-log P of a token of the answers, on average, and how many there are."""
    nats, count = 0.0, 0
    for indices in turns.in_order(budget):
        batch = turns.batch(indices).to(model.device)
        nats += float(answer_nats(model, batch, 0.0))
        count += batch.n_targets
    return nats / count, count


def test_dialogues(data: DataConfig, names: tuple[str, ...], files: tuple[str, ...]) -> tuple[str, Dialogues]:
    """What is evaluated, in words, and its conversations."""
    if files:
        return ", ".join(files), read_dialogues(files, data.columns, ".", names)
    parts = read_parts(data, names)
    if parts.test is not None:
        return ", ".join(data.test) or f"{data.test_share:.4g} of the conversations", parts.test
    if parts.valid is None:
        raise ConfigError("the recipe names no test files; give one: regard evaluate RUN FILE")
    return "the validation data", parts.valid


def describe(turns: Turns) -> str:
    n_learnt = sum(int(learnt.sum()) for scripts in turns.scripts for _, learnt in scripts)
    return f"{len(turns):,} conversations, {turns.lengths.sum():,} tokens, {n_learnt:,} of them in answers"


def part_rows(name: str, turns: Turns, answers: tuple[str, ...]) -> list[Row]:
    dialogues = turns.dialogues
    n_messages = {role: sum(m.role == role for prompt in dialogues.prompts for m in prompt) for role in ROLES}
    rows = [
        Row(name, "conversations", f"{len(dialogues):,}"),
        Row(name, "messages before the answer", ", ".join(f"{role} {n:,}" for role, n in n_messages.items())),
        Row(name, "tokens, longest", f"{turns.lengths.sum():,}, {turns.lengths.max():,}"),
    ]
    for a, answer in enumerate(answers):
        texts = [each[a] for each in dialogues.answers]
        empty = [i for i, text in enumerate(texts) if not text.strip()]
        rows.append(Row(name, f"{answer}: characters", f"{sum(map(len, texts)):,}"))
        rows.append(Row(name, f"{answer}: empty", f"{len(empty):,}", dialogues.places[empty[0]] if empty else ""))
    return rows + [Row(name, what, f"{n:,}", turns.notes.first[what]) for what, n in turns.notes.counts.items()]
