"""Cross-entropy from hidden states, without ever holding all logits: they are made, used and dropped in chunks."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

CHUNK = 2**22  # logits at a time: stays in a CPU's cache, and few enough chunks for a GPU (times 16 there)


def plain_cross_entropy(hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The equation: sum over rows of -(1 - e) log p(label) - e/V sum_v log p(v), p = softmax(h W^T)."""
    logits = F.linear(hidden, weight).float()
    return F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")


def cross_entropy(hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """The same, in nats, summed over the rows (N, D) against the output table (V, D)."""
    kind = hidden.device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        hidden, weight = hidden.to(dtype), weight.to(dtype)
    return ChunkedCrossEntropy.apply(hidden, weight, labels, smoothing)


class ChunkedCrossEntropy(torch.autograd.Function):
    """The gradient of a chunk's logits is known as soon as they are: softmax(h W^T) - target.  So forward makes the
    gradients of h and W too and keeps those, not the logits."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        n_rows, vocab_size = hidden.shape[0], weight.shape[0]
        rows = max(1, (CHUNK * 16 if hidden.is_cuda else CHUNK) // vocab_size)
        needed = any(ctx.needs_input_grad[:2])
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        of_hidden = torch.empty_like(hidden) if needed else None
        of_weight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device) if needed else None
        for begin in range(0, n_rows, rows):
            chunk = slice(begin, begin + rows)
            loss, of_logits = loss_and_gradient(F.linear(hidden[chunk], weight), labels[chunk], smoothing, needed)
            total += loss
            if of_hidden is not None and of_weight is not None:
                of_logits = of_logits.to(hidden.dtype)
                torch.mm(of_logits, weight, out=of_hidden[chunk])
                if of_weight.dtype == hidden.dtype:
                    of_weight.addmm_(of_logits.T, hidden[chunk])
                else:
                    of_weight += of_logits.T @ hidden[chunk]
        if of_hidden is not None and of_weight is not None:
            ctx.save_for_backward(of_hidden, of_weight.to(weight.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        of_hidden, of_weight = ctx.saved_tensors
        scale = gradient.to(of_hidden.dtype)
        return of_hidden * scale, of_weight * scale, None, None


def loss_and_gradient(logits: Tensor, labels: Tensor, smoothing: float, needed: bool) -> tuple[Tensor, Tensor]:
    """The summed loss of some rows and, where needed, its gradient by their logits (which it may overwrite)."""
    logits = logits.float()
    labels = labels[:, None]
    normaliser = logits.logsumexp(dim=-1, keepdim=True)
    loss = normaliser.sum() - (1 - smoothing) * logits.gather(-1, labels).sum()
    if smoothing:
        loss = loss - smoothing / logits.shape[-1] * logits.sum()
    if needed:
        logits = logits.sub_(normaliser).exp_()  # softmax
        if smoothing:
            logits -= smoothing / logits.shape[-1]
        logits.scatter_add_(-1, labels, torch.full_like(labels, smoothing - 1, dtype=logits.dtype))
    return loss, logits
