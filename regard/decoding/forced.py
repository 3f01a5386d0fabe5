"""What a model thinks of given targets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.batches import grouped
from regard.decoding.distribution import surprise
from regard.decoding.interface import Generator, S
from regard.errors import RegardError


@dataclass(frozen=True)
class Place:
    """What was said at one place of a target, and what else might have been."""

    token: int
    log_prob: float
    best: list[tuple[int, float]]  # the likeliest tokens and their log P, descending


@torch.no_grad()
def score(
    model: Generator[S],
    prompts: list[list[int]],
    targets: list[list[int]],
    start_id: int,
    end_id: int,
    batch_tokens: int = 2048,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[list[float]]:
    """log P(token | prompt, tokens before) of each token of each target and, last, of the end.

    The sum is the `log_prob` of a finished hypothesis with these tokens.
    """
    if len(prompts) != len(targets):
        raise RegardError(f"{len(prompts)} prompts need as many targets, got {len(targets)}")
    found: list[list[float]] = [[] for _ in targets]
    n_done = 0
    closed = [[*target, end_id] for target in targets]
    for group, outputs, logits in read(model, prompts, closed, start_id, end_id, batch_tokens):
        log_probs = -surprise(logits.flatten(0, 1), outputs.flatten()).view(outputs.shape)
        for i, row in zip(group, log_probs.tolist(), strict=True):
            found[i] = row[: len(closed[i])]
        n_done += len(group)
        if on_progress is not None:
            on_progress(n_done, len(targets))
    return found


@torch.no_grad()
def likeliest(
    model: Generator[S],
    prompts: list[list[int]],
    targets: list[list[int]],
    k: int,
    start_id: int,
    end_id: int,
    batch_tokens: int = 2048,
) -> list[list[Place]]:
    """For each token of each target its log P, and the k likeliest tokens of its place."""
    found: list[list[Place]] = [[] for _ in targets]
    for group, outputs, logits in read(model, prompts, targets, start_id, end_id, batch_tokens):
        log_probs = logits.log_softmax(-1)
        said = log_probs.gather(-1, outputs[:, :, None])[:, :, 0].tolist()
        values, ids = (x.tolist() for x in log_probs.topk(min(k, log_probs.shape[-1])))
        for row, i in enumerate(group):
            found[i] = [
                Place(token, said[row][t], list(zip(ids[row][t], values[row][t], strict=True)))
                for t, token in enumerate(targets[i])
            ]
    return found


def read(
    model: Generator[S],
    prompts: list[list[int]],
    targets: list[list[int]],
    start_id: int,
    end_id: int,
    batch_tokens: int,
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Groups of targets: their places, what they say (n, T), and the logits (n, T, V) before each of it.

    After its end a row says ends: nothing looks at them.
    """
    for group in grouped([max(len(target), 1) for target in targets], batch_tokens):
        longest = max(1, *(len(targets[i]) for i in group))
        state = model.start([prompts[i] for i in group], 1, longest)
        said = [targets[i] + [end_id] * (longest - len(targets[i])) for i in group]
        outputs = torch.tensor(said, device=state.lengths.device)
        inputs = torch.cat([torch.full_like(outputs[:, :1], start_id), outputs[:, :-1]], 1)
        yield group, outputs, model.step(inputs, state).float()
