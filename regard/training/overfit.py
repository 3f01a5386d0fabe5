"""Learning one batch by heart: the quickest test that data, model and loss fit together."""

import time
from dataclasses import dataclass

import torch
from torch import nn

from regard.learning.optimizers import set_learning_rate
from regard.tasks.task import AnyTask

ENOUGH = 0.05  # nats a prediction
TOKENS = 500  # of the batch: enough to be hard, few enough for a CPU


@dataclass(frozen=True)
class ByHeart:
    first: float  # nats a prediction before learning
    last: float
    steps: int
    seconds_per_token: float  # of the budget of a batch


def learn_by_heart(model: nn.Module, task: AnyTask, d_model: int, device: torch.device, seconds: float) -> ByHeart:
    """Dropout and smoothing off; a fresh Adam at a rate that suits most sizes; stops early when it is learned."""
    model = model.to(device).eval()  # eval: no dropout
    batch = task.small_batch(TOKENS).to(device)
    rate = min(2e-3, 0.25 / d_model)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    begin = time.monotonic()
    losses: list[float] = []
    while True:
        set_learning_rate(optimizer, rate * min(1.0, (len(losses) + 1) / 20))
        loss = task.plain_loss(model, batch) / batch.n_targets
        losses.append(float(loss.detach()))
        if losses[-1] < ENOUGH or time.monotonic() - begin > seconds:
            break
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    elapsed = time.monotonic() - begin
    return ByHeart(losses[0], losses[-1], len(losses), elapsed / len(losses) / min(TOKENS, task.batch_tokens))
