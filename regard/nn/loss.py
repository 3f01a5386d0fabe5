"""Cross-entropy from hidden states, without ever holding all logits: they are made, used and dropped in chunks.

And what distillation adds: a small model learns the probabilities that a large one gives, not only the labels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.checks import not_negative, positive
from regard.errors import ConfigError
from regard.nn.compiler import compile_failure
from regard.nn.linear import as_computed

CHUNK = {"cpu": 2**22, "cuda": 2**28}  # logits at a time: what fits a CPU's cache, or keeps a GPU busy
IGNORED = -100  # a label of a row that does not count
ALIGNED = {"cpu": 1, "cuda": 64}  # a GPU is fast with tables of a multiple of so many rows


def plain_cross_entropy(
    hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float, bias: Tensor | None = None
) -> Tensor:
    """The equation: sum over rows of -(1 - e) log p(label) - e/V sum_v log p(v), p = softmax(h W^T + b)."""
    logits = F.linear(hidden, weight, bias).float()
    return F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")


def cross_entropy(
    hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float = 0.0, bias: Tensor | None = None
) -> Tensor:
    """The same, in nats, summed over the rows (N, D) against the output table (V, D)."""
    if labels.device.type == "cpu" and bool((labels == IGNORED).any()):  # a GPU takes such rows along
        hidden, labels = hidden[labels != IGNORED], labels[labels != IGNORED]
    bias = None if bias is None else as_computed(bias)
    return ChunkedCrossEntropy.apply(as_computed(hidden), as_computed(weight), bias, labels, smoothing)


class ChunkedCrossEntropy(torch.autograd.Function):
    """The gradient of a chunk's logits is known as soon as they are: softmax(h W^T + b) - target.  So forward makes
    the gradients of h, W and b too and keeps those, not the logits."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
    ) -> Tensor:
        kind, n_rows, n_words = hidden.device.type, hidden.shape[0], weight.shape[0]
        rows = max(1, CHUNK[kind] // n_words)
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        if not any(ctx.needs_input_grad[:3]):
            for begin in range(0, n_rows, rows):
                chunk = slice(begin, begin + rows)
                total += loss_of(F.linear(hidden[chunk], weight, bias).float(), labels[chunk, None], smoothing)[0]
            return total
        empty = -n_words % ALIGNED[kind]  # unused words: rows of zeros, whose gradients are dropped
        if empty:
            weight, bias = F.pad(weight, (0, 0, 0, empty)), None if bias is None else F.pad(bias, (0, empty))
        of_hidden = torch.empty_like(hidden)
        of_weight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
        of_bias = None if bias is None else torch.zeros(bias.shape, dtype=torch.float32, device=bias.device)
        for begin in range(0, n_rows, rows):
            chunk = slice(begin, begin + rows)
            logits = F.linear(hidden[chunk], weight, bias)
            loss, of_logits = kernel(kind, logits.dtype)(logits, labels[chunk, None], smoothing, n_words)
            total += loss
            torch.mm(of_logits, weight, out=of_hidden[chunk])
            if of_bias is not None:
                of_bias += of_logits.sum(0, dtype=torch.float32)
            add_product(of_weight, of_logits.T, hidden[chunk])
        of_weight, of_bias = of_weight[:n_words].to(weight.dtype), None if of_bias is None else of_bias[:n_words]
        ctx.save_for_backward(of_hidden, of_weight, of_bias)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None, None]:
        of_hidden, of_weight, of_bias = ctx.saved_tensors
        scale = gradient.to(of_hidden.dtype)
        return of_hidden * scale, of_weight * scale, None if of_bias is None else of_bias * gradient, None, None


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a b, in the precision of the total, also where a GPU multiplies halves."""
    if total.dtype == a.dtype:
        total.addmm_(a, b)
    elif total.is_cuda and a.dtype.itemsize == 2:
        torch.addmm(total, a, b, out_dtype=total.dtype, out=total)
    else:
        total += a @ b


def loss_of(logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """The summed loss of some rows of float32 logits, and the logarithm of each row's normalizer."""
    normalizer = logits.logsumexp(dim=-1, keepdim=True)
    loss = normalizer - (1 - smoothing) * logits.gather(-1, labels.clamp(min=0))
    if smoothing:
        loss = loss - smoothing / logits.shape[-1] * logits.sum(dim=-1, keepdim=True)
    return torch.where(labels == IGNORED, 0.0, loss).sum(), normalizer


def loss_and_gradient(logits: Tensor, labels: Tensor, smoothing: float, n_words: int) -> tuple[Tensor, Tensor]:
    """The loss and its gradient by the logits, softmax - target, in the logits' own precision.

    Only the first `n_words` columns are words.
    """
    exact = logits.float()
    loss, normalizer = loss_of(exact[:, :n_words], labels, smoothing)
    gradient = (exact - normalizer).exp() - smoothing / n_words
    columns = torch.arange(logits.shape[-1], device=logits.device)
    gradient = torch.where(columns == labels, gradient - (1 - smoothing), gradient)
    return loss, torch.where((columns < n_words) & (labels != IGNORED), gradient, 0.0).to(logits.dtype)


def loss_and_gradient_in_place(logits: Tensor, labels: Tensor, smoothing: float, n_words: int) -> tuple[Tensor, Tensor]:
    """The same for float32 and above without a compiler: few passes, one exponential, no memory but the logits' own."""
    share, words = smoothing / n_words, logits[:, :n_words]
    loss = -(1 - smoothing) * words.gather(-1, labels).sum() - share * (words.sum() if smoothing else 0.0)
    highest = words.amax(-1, keepdim=True)
    powers = words.sub_(highest).exp_()
    sizes = powers.sum(-1, keepdim=True)
    loss = loss + (sizes.log() + highest).sum()
    gradient = powers.div_(sizes)  # softmax
    if smoothing:
        gradient -= share
    gradient.scatter_add_(-1, labels, torch.full_like(labels, smoothing - 1, dtype=gradient.dtype))
    return loss, logits


@cache
def kernel(device: str, dtype: torch.dtype) -> Callable[[Tensor, Tensor, float, int], tuple[Tensor, Tensor]]:
    if device == "cpu" and dtype.itemsize >= 4:
        return loss_and_gradient_in_place
    if device == "cpu" or compile_failure(device):
        return loss_and_gradient
    from regard.nn.kernels import loss_and_gradient_by_rows  # where there is a GPU and a compiler, there is Triton

    return loss_and_gradient_by_rows


@dataclass(frozen=True, kw_only=True)
class DistillationConfig:
    """The defaults are those of DistilBERT's published training."""

    teacher: str = ""  # the run that teaches; empty: none
    temperature: float = 2.0  # both models' logits are divided by it and compared, so that small probabilities count
    soft: float = 5.0  # weight of the teacher's probabilities: T² KL(teacher, student)
    hard: float = 2.0  # weight of the labels
    cosine: float = 1.0  # weight of the angles between hidden rows, of the same width in both models; 0: it may differ

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
