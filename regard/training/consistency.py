"""R-Drop: what a model predicts should not depend on what dropout leaves out."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.batching.batch import Batch
from regard.nn.loss import IGNORED
from regard.tasks.task import AnyTask


def consistent_loss(task: AnyTask, alpha: float, model: nn.Module, batch: Batch) -> Tensor:
    """½ (CE(p) + CE(q) + α ½ (KL(p || q) + KL(q || p))), where p and q are what two readings of a batch predict, each
    with dropout of its own; summed over the targets  (R-Drop; Liang et al. 2021, equation 4, halved: with α = 0 it is
    the loss of one reading, on average)."""
    (p, labels, _), (q, _, _) = task.predictions(model, batch), task.predictions(model, batch)
    smoothing, counts = task.config.smoothing, (labels != IGNORED).float()
    loss = torch.zeros((), device=p.device)
    for logits in (p, q):
        loss = loss + F.cross_entropy(
            logits.float(), labels, label_smoothing=smoothing, reduction="sum", ignore_index=IGNORED
        )
    return (loss + alpha * (counts * divergence(p, q)).sum()) / 2


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """½ (KL(p || q) + KL(q || p)) of rows of logits (n, classes) -> (n): ½ Σ (p - q) (log p - log q)"""
    log_p, log_q = (logits.float().log_softmax(-1) for logits in (p, q))
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1) / 2
