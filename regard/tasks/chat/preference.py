"""Direct preference optimisation: of two answers to a prompt, the chosen one becomes more probable than the other."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.checks import at_least, not_negative, one_of, positive
from regard.data.batching.batch import Batch
from regard.data.files.conversations import Dialogues
from regard.evaluation.metric import Metric
from regard.models.heads import LanguageModel
from regard.tasks.chat.batches import AnswerBatch, Turns, answer_log_probs
from regard.tasks.chat.task import Chat, test_dialogues
from regard.tasks.chat.use import reply, usual_length
from regard.tasks.setup import Setup

METRICS = ("loss", "accuracy")


@dataclass(frozen=True, kw_only=True)
class PreferenceConfig:
    beta: float = 0.1  # how dear it is to leave the model that training began with
    shown: int = 2  # answers written at each validation
    sample_length: int = 60  # the most tokens of each, there and in `regard evaluate`
    metric: str = "loss"

    def __post_init__(self) -> None:
        positive(self, "beta")
        not_negative(self, "shown")
        at_least(self, 1, "sample_length")
        one_of(self, METRICS, "metric")


def dpo_loss(log_probs: Tensor, reference: Tensor, beta: float) -> Tensor:
    """-log sigmoid(beta (log pi(y_w|x) / pi_ref(y_w|x) - log pi(y_l|x) / pi_ref(y_l|x)))  (Rafailov et al. 2023, eq. 7)

    log P of the chosen (y_w) and of the rejected (y_l) answers, (2, B) -> (B).
    """
    return -F.logsigmoid(beta * margins(log_probs, reference))


def margins(log_probs: Tensor, reference: Tensor) -> Tensor:
    """How much more the chosen answer has gained than the rejected one, in nats (B)."""
    chosen, rejected = log_probs - reference
    return chosen - rejected


@dataclass(frozen=True)
class PreferenceBatch(Batch):
    """B prompts with the chosen answer, then the same with the rejected one."""

    both: AnswerBatch
    reference: Tensor  # (2, B), log P by the model that training began with

    @property
    def n_targets(self) -> int:
        return self.reference.shape[1]

    @property
    def n_tokens(self) -> int:
        return self.both.n_tokens

    def log_probs(self, model: LanguageModel) -> Tensor:
        return answer_log_probs(model, self.both).view(2, -1)


class Preference(Chat):
    """The task as the training loop knows it.

    The reference model never changes, so its answers to all pairs are computed once, before the first step; a
    checkpoint holds them.
    """

    answers: ClassVar[tuple[str, ...]] = ("chosen", "rejected")

    def __init__(self, config: PreferenceConfig, train: Dialogues, valid: Dialogues | None, setup: Setup):
        super().__init__(config, train, valid, setup)
        self.higher_is_better = config.metric == "accuracy"
        self.reference = torch.zeros(2, len(self.train))  # until `restore`: both answers alike
        self.valid_reference = torch.zeros(2, 0 if self.valid is None else len(self.valid))

    # Batches.

    def batch(self, epoch: int, index: int) -> PreferenceBatch:
        return self.pairs(self.packing.epoch(epoch)[index])

    def small_batch(self, n_tokens: int) -> PreferenceBatch:
        return self.pairs(self.train.packing(min(n_tokens, self.batch_tokens), "random", seed=0).epoch(0)[0])

    def pairs(self, indices: np.ndarray) -> PreferenceBatch:
        both = self.train.batch(indices)
        return PreferenceBatch(both.lines, both, self.reference[:, torch.from_numpy(indices)])

    # Loss.

    def loss(self, model: LanguageModel, batch: PreferenceBatch) -> Tensor:
        return dpo_loss(batch.log_probs(model), batch.reference, self.config.beta).sum()

    def plain_loss(self, model: LanguageModel, batch: PreferenceBatch) -> Tensor:
        return self.loss(model, batch)

    def tensors(self) -> dict[str, Tensor]:
        return {"reference": self.reference, "valid_reference": self.valid_reference}

    def restore(self, tensors: dict[str, Tensor], model: LanguageModel) -> None:
        """{} at the beginning: the model as it is then becomes the reference."""
        if tensors:
            self.reference, self.valid_reference = tensors["reference"].cpu(), tensors["valid_reference"].cpu()
            return
        self.reference = all_log_probs(model, self.train, self.batch_tokens)
        if self.valid is not None:
            self.valid_reference = all_log_probs(model, self.valid, self.batch_tokens)

    # Validation.

    def validate(self, model: LanguageModel) -> dict[str, float]:
        """The loss; how often the chosen answer gained more than the other, and by how many nats."""
        if self.valid is None:
            return {}
        log_probs = all_log_probs(model, self.valid, self.batch_tokens)
        gained = margins(log_probs, self.valid_reference)
        return {
            "loss": float(dpo_loss(log_probs, self.valid_reference, self.config.beta).mean()),
            "accuracy": 100 * float((gained > 0).float().mean()),
            "margin": float(gained.mean()),
        }

    @classmethod
    def measure(
        cls, model: LanguageModel, config: PreferenceConfig, setup: Setup, files: tuple[str, ...]
    ) -> tuple[str, list[Metric]]:
        """Of test pairs: which answer is more probable, and what the model answers itself."""
        what, dialogues = test_dialogues(setup.data, cls.answers, files)
        turns = Turns(dialogues, setup.tokenizer, setup.data.max_length, last_only=True)
        chosen, rejected = all_log_probs(model, turns, setup.data.batch_tokens)
        length = usual_length(model, config.sample_length)
        found = reply(model, setup.tokenizer, [dialogues.prompts[i] for i in turns.kept], length, setup.decoding)
        texts = [answer.text for answer in found]
        pairs = [dialogues.answers[i] for i in turns.kept]
        values = {
            "the chosen answer is more probable, %": 100 * float((chosen > rejected).float().mean()),
            "answers as the chosen one, %": share_equal(texts, [pair[0] for pair in pairs]),
            "answers as the rejected one, %": share_equal(texts, [pair[1] for pair in pairs]),
            "characters of an answer": math.fsum(map(len, texts)) / len(texts),
        }
        signature = f"pairs:{len(turns)}|tok:{setup.tokenizer.kind}|beta:{config.beta:g}"
        return what, [Metric(name=name, value=value, signature=signature) for name, value in values.items()]

    def purpose(self) -> str:
        return "learnt which of two answers is the better one"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (f"regard chat {folder}", f"regard evaluate {folder}")


@torch.no_grad()
def all_log_probs(model: LanguageModel, turns: Turns, budget: int) -> Tensor:
    """log P of both answers to every prompt (2, prompts), on the host."""
    parts = []
    for indices in turns.in_order(budget):
        parts.append(answer_log_probs(model, turns.batch(indices).to(model.device)).view(2, -1).cpu())
    return torch.cat(parts, 1)


def share_equal(texts: Sequence[str], wanted: Sequence[str]) -> float:
    return 100 * sum(text == want.strip() for text, want in zip(texts, wanted, strict=True)) / len(texts)
