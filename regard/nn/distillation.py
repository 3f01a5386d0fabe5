"""Distillation: a small model learns the probabilities that a large one gives, not only the labels."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.checks import not_negative, positive
from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class DistillationConfig:
    """The defaults are those of DistilBERT's published training."""

    teacher: str = ""  # a run; empty: there is no teacher
    temperature: float = 2.0  # by which both sides' logits are divided, so that small probabilities count
    soft: float = 5.0  # weight of the teacher's probabilities
    hard: float = 2.0  # weight of the labels
    cosine: float = 1.0  # weight of the directions of the hidden rows, which both must have as many of

    def __post_init__(self) -> None:
        positive(self, "temperature")
        not_negative(self, "soft", "hard", "cosine")
        if not self.soft + self.hard + self.cosine > 0:
            raise ConfigError("soft, hard and cosine must not all be 0: nothing would be learned")


NO_TEACHER = DistillationConfig()


def soft_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """T² KL(softmax(teacher / T) || softmax(student / T)), summed over the rows of logits (n, classes).

    (Hinton et al. 2015, section 2; T² keeps the size of its gradients from depending on T)
    """
    ours = (student.float() / temperature).log_softmax(-1)
    theirs = (teacher.float() / temperature).log_softmax(-1)
    return temperature**2 * F.kl_div(ours, theirs, reduction="sum", log_target=True)


def cosine_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """The mean over all rows (N, D) of 1 - cos(student, teacher)  (Sanh et al. 2019, section 3)"""
    return (1 - torch.cosine_similarity(student.float(), teacher.float(), dim=-1)).mean()
