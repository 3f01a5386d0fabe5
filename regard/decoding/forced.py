"""How probable given targets are."""

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.decoding.distribution import surprise
from regard.decoding.interface import Generator, Ids, Progress, Prompts, S
from regard.decoding.outputs import Place
from regard.errors import RegardError


@torch.no_grad()
def score(
    model: Generator[S],
    prompts: Prompts,
    targets: Ids,
    start_id: int,
    end_id: int,
    batch_tokens: int = 2048,
    on_progress: Progress | None = None,
) -> list[list[float]]:
    """log P(token | prompt, tokens before) of each token of each target and, last, of the end.

    The sum is the `log_prob` of a finished hypothesis with these tokens.
    """
    if len(prompts) != len(targets):
        raise RegardError(f"{len(prompts)} prompts need as many targets, got {len(targets)}")
    scores: list[list[float]] = [[] for _ in targets]
    n_done = 0
    closed = [[*target, end_id] for target in targets]
    for group, outputs, logits in read(model, prompts, closed, start_id, end_id, batch_tokens):
        log_probs = -surprise(logits.flatten(0, 1), outputs.flatten()).view(outputs.shape)
        for i, row in zip(group, log_probs.tolist(), strict=True):
            scores[i] = row[: len(closed[i])]
        n_done += len(group)
        if on_progress is not None:
            on_progress(n_done, len(targets))
    return scores


@torch.no_grad()
def likeliest(
    model: Generator[S], prompts: Prompts, targets: Ids, k: int, start_id: int, end_id: int, batch_tokens: int = 2048
) -> list[list[Place]]:
    """For each token of each target its log P, and the k likeliest tokens of its place."""
    places: list[list[Place]] = [[] for _ in targets]
    for group, outputs, logits in read(model, prompts, targets, start_id, end_id, batch_tokens):
        log_probs = logits.log_softmax(-1)
        own = log_probs.gather(-1, outputs[:, :, None])[:, :, 0].tolist()
        values, ids = (x.tolist() for x in log_probs.topk(min(k, log_probs.shape[-1])))
        for row, i in enumerate(group):
            places[i] = [
                Place(token, own[row][t], list(zip(ids[row][t], values[row][t], strict=True)))
                for t, token in enumerate(targets[i])
            ]
    return places


def read(
    model: Generator[S], prompts: Prompts, targets: Ids, start_id: int, end_id: int, batch_tokens: int
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Groups of targets: their numbers, their tokens (n, T), and the logits (n, T, V) that predict each token.

    After a target come end tokens, which nobody reads.
    """
    for group in grouped([max(len(target), 1) for target in targets], batch_tokens):
        longest = max(1, *(len(targets[i]) for i in group))
        state, first = model.start([prompts[i] for i in group], start_id, 1, longest)
        padded = [targets[i] + [end_id] * (longest - len(targets[i])) for i in group]
        outputs = torch.tensor(padded, device=first.device)
        logits = first[:, None]
        if longest > 1:
            logits = torch.cat([logits, model.step(outputs[:, :-1], state)], 1)
        yield group, outputs, logits.float()


def grouped(costs: list[int], budget: int) -> list[list[int]]:
    """Which texts are read together: indices in groups with n · largest cost ≤ budget, similar costs together, the
    largest first.  What costs more than the budget alone is a group of its own.
    """
    groups: list[list[int]] = []
    for index in sorted(range(len(costs)), key=lambda i: -costs[i]):
        if groups and (len(groups[-1]) + 1) * costs[groups[-1][0]] <= budget:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups
