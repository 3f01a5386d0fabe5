"""The loop that every search shares: step the model, let the strategy choose, drop the prompts that are done."""

import math
from collections import deque
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from regard.decoding.beam import Beam
from regard.decoding.config import DecodingConfig
from regard.decoding.constraints import Constraints
from regard.decoding.distribution import Distribution
from regard.decoding.greedy import Greedy, Sampling
from regard.decoding.interface import Generator, Ids, Progress, Prompts, S, grouped
from regard.decoding.outputs import Hypothesis
from regard.decoding.stopping import Stops
from regard.errors import RegardError
from regard.nn.linear import PackedReading

AHEAD = {"cpu": 1, "cuda": 8}  # steps before done prompts are looked for: looking makes a GPU wait


class Strategy(Protocol):
    """How tokens are chosen.  Its tensors have one entry per active prompt."""

    copies: int  # hypotheses per prompt

    def advance(self, distribution: Distribution, t: int) -> tuple[Tensor, Tensor | None, Tensor]:
        """Step t.  tokens (prompts, copies), the copy each of them continues (None: each its own), done (prompts,)."""
        ...

    def keep(self, active: np.ndarray, groups: Tensor) -> None:
        """Go on with these of the active prompts (indices) alone."""
        ...

    def hypotheses(self, active: np.ndarray, steps: np.ndarray) -> list[list[Hypothesis]]:
        """For each prompt, the best that its first steps[prompt] steps found."""
        ...


@torch.no_grad()
def generate(
    model: Generator[S],
    prompts: Prompts,
    config: DecodingConfig,
    start_id: int,
    end_id: int,
    prefixes: Ids | None = None,
    on_progress: Progress | None = None,
    stops: Stops | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses of each prompt, best first; `on_progress(n_done, n_prompts)` is called after every batch.

    Hypotheses begin with `config.first` and the prompt's prefix, if any.  Finished ones come before those that hit the
    length limit.  One is also finished by the token that completes a stop string; greedy search and sampling know of
    these.
    """
    if stops is not None and config.beam > 1:
        raise RegardError(f"stop strings need beam = 1 or sample = true, got beam = {config.beam}")
    prefixes = [[] for _ in prompts] if prefixes is None else prefixes
    if len(prefixes) != len(prompts):
        raise RegardError(f"{len(prompts)} prompts need as many prefixes, got {len(prefixes)}")
    prefixes = [[*config.first, *prefix] for prefix in prefixes]
    for end in (end_id, *config.ends):
        if any(end in prefix for prefix in prefixes):
            raise RegardError(f"a prefix holds the end token ({end}): nothing can follow it; leave it out")
    longest = max(map(len, prefixes), default=0)
    if config.max_length and longest >= config.max_length:
        raise RegardError(f"a prefix of {longest} tokens leaves no room in {config.max_length}; shorten it")
    limits = [max(config.limit(p), len(prefix) + 1) for p, prefix in zip(prompts, prefixes, strict=True)]
    by_prompt: list[list[Hypothesis]] = [[] for _ in prompts]
    n_done = 0
    for group in grouped(limits, config.batch_tokens, list(map(len, prompts))):
        batch, ends = [prompts[i] for i in group], [limits[i] for i in group]
        model.check_room(len(group) * max(config.beam, config.n_best), max(map(len, batch)) + max(ends))
        constraints = Constraints(config, [prefixes[i] for i in group], end_id)
        strategy = Beam(ends, config, end_id) if config.beam > 1 else one_by_one(batch, ends, config, end_id, stops)
        for index, hypotheses in zip(group, search(model, batch, ends, strategy, constraints, start_id), strict=True):
            if not hypotheses or any(math.isnan(hypothesis.score) for hypothesis in hypotheses):
                raise RegardError("the model's scores are NaN: its weights contain NaN; take an earlier checkpoint")
            by_prompt[index] = hypotheses
        n_done += len(group)
        if on_progress is not None:
            on_progress(n_done, len(prompts))
    return by_prompt


def one_by_one(prompts: Prompts, limits: list[int], config: DecodingConfig, end_id: int, stops: Stops | None) -> Greedy:
    if config.sample:
        return Sampling(prompts, limits, config, end_id, stops)
    return Greedy(prompts, config, end_id, stops)


@torch.no_grad()
def stream(
    model: Generator[S], prompt: list[int], config: DecodingConfig, start_id: int, end_id: int, stops: Stops
) -> Iterator[int]:
    """The tokens that `generate` finds, one by one; the last may complete a stop string."""
    if config.beam > 1 or config.n_best > 1:
        got = f"beam = {config.beam} and n_best = {config.n_best}"
        raise RegardError(f"one text at a time can be streamed: set beam = 1 and n_best = 1, got {got}")
    first, ends = list(config.first), (end_id, *config.ends)
    limits = [max(config.limit(prompt), len(first) + 1)]
    model.check_room(1, len(prompt) + limits[0])
    strategy = one_by_one([prompt], limits, config, end_id, stops)
    for tokens, _, _ in walk(model, [prompt], limits, strategy, Constraints(config, [first], end_id), start_id):
        token = int(tokens)
        if token not in ends:
            yield token
        if strategy.ended is not None and bool(strategy.ended.all()):
            return


def search(
    model: Generator[S],
    prompts: Prompts,
    limits: list[int],
    strategy: Strategy,
    constraints: Constraints,
    start_id: int,
) -> list[list[Hypothesis]]:
    """Decode one batch."""
    _, active, steps = deque(walk(model, prompts, limits, strategy, constraints, start_id), maxlen=1).pop()
    return strategy.hypotheses(active, steps)


def walk(
    model: Generator[S],
    prompts: Prompts,
    limits: list[int],
    strategy: Strategy,
    constraints: Constraints,
    start_id: int,
) -> Iterator[tuple[Tensor, np.ndarray, np.ndarray]]:
    """Step by step: the tokens (active prompts, copies), the active prompts, and how many steps of each prompt count.

    A GPU runs some steps ahead before the host asks which prompts are done.
    """
    copies, reading = strategy.copies, PackedReading()
    with reading:
        state = model.start(prompts, copies, max(limits))
    device = state.lengths.device
    active = np.arange(len(prompts))  # the prompts that still have rows
    steps = np.array(limits)  # how many steps of each prompt count
    done = np.zeros(len(prompts), dtype=bool)
    owners = torch.arange(len(prompts), device=device)  # `active`, on the device
    places = torch.arange(len(prompts) * copies, device=device).view(-1, copies)  # the rows of each active prompt
    history = constraints.beginning(prompts, start_id).to(device).repeat_interleave(copies, 0)
    tokens = torch.full((len(prompts), copies), start_id, device=device)
    waiting: list[Tensor] = []  # which prompts were done after the last steps, still on the device
    for t in range(max(limits)):
        with reading:
            logits = model.step(tokens.view(-1, 1), state)[:, -1].float()
        tokens, parents, is_done = strategy.advance(constraints.apply(logits, history, t, owners), t)

        waiting.append(is_done)
        if len(waiting) == AHEAD[device.type] or t + 1 == max(limits):
            for step, was_done in enumerate(torch.stack(waiting).cpu().numpy(), start=t + 2 - len(waiting)):
                newly = (was_done | (steps[active] == step)) & ~done[active]
                steps[active[newly]] = step
                done[active[newly]] = True
            waiting.clear()
        yield tokens, active, steps
        if done.all():
            return

        rows = places if parents is None else places[:, :1] + parents
        running = np.flatnonzero(~done[active])
        # On a GPU rows are cheap and a new shape needs a new graph.  Where rows are selected anyway, each one counts.
        few = len(running) < len(active) if parents is not None else len(running) <= 0.75 * len(active)
        if few and not waiting and device.type == "cpu":
            groups = torch.from_numpy(running)
            strategy.keep(active, groups)
            active, owners, tokens, rows = active[running], owners[groups], tokens[groups], rows[groups]
            places = places[: len(active)]
            state.select(rows.flatten())
        elif parents is not None:
            state.reorder(rows.flatten())
        if constraints.need_history:
            history = torch.cat([history[rows.flatten()], tokens.view(-1, 1)], 1)
