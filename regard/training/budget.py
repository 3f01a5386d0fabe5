"""`data.batch_tokens = "auto"`: the largest batches that fit, found by trial steps on a GPU; on a CPU, a bound."""

import copy
from collections.abc import Callable
from dataclasses import replace

import torch

from regard.errors import ConfigError
from regard.memory import TooLarge, free_memory, gibibytes, ran_out
from regard.models.interface import Model
from regard.runs.recipe import Recipe
from regard.tasks.task import AnyTask
from regard.training.footprint import training_memory
from regard.training.learner import Learner
from regard.training.recording import can_be_recorded

FEWEST, MOST = 256, 2**20  # tokens of a batch
ON_CPU = 4096  # a CPU is as fast with this many tokens as with more, and learns more often
BATCHES = 20  # of an epoch, at least: larger ones would leave too few steps
SHARE = 0.8  # of the free memory that a pass may take: batches differ, and lie in memory with gaps
RECORDED = 2.5  # recordings have memory of their own, about as much again

PassBytes = Callable[[int], int]  # tokens -> bytes that a pass with so many takes; runs out of memory, or says how much


def find_budget(task: AnyTask, model: Model, recipe: Recipe, device: torch.device) -> tuple[int, str]:
    """Tokens of a batch, and how they were found, in words."""
    if recipe.distribution.kind != "none":
        raise ConfigError('data.batch_tokens = "auto" is found for one process: give a number where several train')
    n_tokens = int(task.train.lengths.sum())
    most = max(FEWEST, min(MOST, n_tokens // (BATCHES * recipe.training.accumulate)))
    bound = f"; an epoch has at least {BATCHES} steps" if most < MOST else ""
    if device.type == "cpu" or recipe.model_class.is_counted:  # which has no steps to be tried
        budget = bounded(recipe, model, most)
        return budget, f"{budget:,} tokens, the bound for a CPU" if budget == ON_CPU else f"{budget:,} tokens{bound}"
    room, measure = trials(task, model, recipe, device)
    budget, taken = largest(measure, room, most)
    limited = bound if budget == most else ""
    return budget, f"{budget:,} tokens, by trial steps: a pass takes {gibibytes(taken)} of {gibibytes(room)}{limited}"


def bounded(recipe: Recipe, model: Model, most: int) -> int:
    """The largest power of two that takes at most half of the memory by the equation."""
    budget = min(ON_CPU, 1 << (most.bit_length() - 1))
    while budget > FEWEST and training_memory(recipe.with_budget(budget), model) > free_memory() // 2:
        budget //= 2
    return budget


def largest(measure: PassBytes, room: int, most: int) -> tuple[int, int]:
    """The most tokens whose pass takes at most `room` bytes, and what it takes: batches twice as large, until the next
    would not fit; then one that should just fit, because memory grows in proportion to tokens."""
    fits, taken, n = 0, 0, FEWEST
    while n <= most:
        bytes_taken = attempt(measure, n)
        if bytes_taken is None or bytes_taken > room:
            break
        fits, taken, n = n, bytes_taken, 2 * n
    if not fits:
        raise TooLarge(
            f"a batch of {FEWEST} tokens does not fit into memory: make [model] smaller, lower data.max_length, or set "
            "training.checkpointing = true"
        )
    more = min(most, int(fits * min(room / max(taken, 1), 2)) // FEWEST * FEWEST)
    if more > fits:
        bytes_taken = attempt(measure, more)
        if bytes_taken is not None and bytes_taken <= room:
            return more, bytes_taken
    return fits, taken


def attempt(measure: PassBytes, n: int) -> int | None:
    """None: it did not fit."""
    try:
        return measure(n)
    except RuntimeError as error:
        if not ran_out(error):
            raise
    return None


def trials(task: AnyTask, model: Model, recipe: Recipe, device: torch.device) -> tuple[int, PassBytes]:
    """Bytes that a pass may take beside weights, gradients and moments; and a pass of a copy of the model."""
    config = replace(recipe.training, compile="off")
    twin = copy.deepcopy(model).to(device).train()
    learner: Learner = Learner(twin, task, config, device, recipe.d_model)
    task.batch_tokens = MOST  # small batches are no larger than usual ones
    with learner.resting():
        task.restore({}, twin)
    learner.update(1, [task.small_batch(FEWEST).to(device)], [(0, 0)])  # makes the moments

    def measure(n: int) -> int:
        batch = task.small_batch(n).to(device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        learner.learn(batch, torch.ones((), device=device))
        learner.optimizer.zero_grad(set_to_none=False)
        return torch.cuda.max_memory_allocated(device) - before

    measure(FEWEST)
    torch.cuda.empty_cache()
    room = SHARE * torch.cuda.mem_get_info(device)[0]
    is_recorded = recipe.training.compile != "off" and can_be_recorded(model, device)
    return int(room / RECORDED if is_recorded else room), measure
