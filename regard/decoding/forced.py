"""What a model thinks of given targets."""

from collections.abc import Callable

import torch

from regard.decoding.batches import grouped
from regard.decoding.distribution import surprise
from regard.decoding.interface import Generator, S
from regard.errors import RegardError


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
    for group in grouped([len(target) + 1 for target in targets], batch_tokens):
        longest = max(len(targets[i]) for i in group) + 1
        state = model.start([prompts[i] for i in group], 1, longest)
        # After its end a row says more ends: nothing looks at them.
        said = [targets[i] + [end_id] * (longest - len(targets[i])) for i in group]
        outputs = torch.tensor(said, device=state.lengths.device)
        inputs = torch.cat([torch.full_like(outputs[:, :1], start_id), outputs[:, :-1]], 1)
        logits = model.step(inputs, state).float()
        log_probs = -surprise(logits.flatten(0, 1), outputs.flatten()).view(outputs.shape)
        for i, row in zip(group, log_probs.tolist(), strict=True):
            found[i] = row[: len(targets[i]) + 1]
        n_done += len(group)
        if on_progress is not None:
            on_progress(n_done, len(targets))
    return found
