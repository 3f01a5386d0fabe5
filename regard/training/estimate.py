"""How long a training takes, and how much memory: one estimator for `show`, `doctor`, `new` and `train`.

It counts steps and validations in the same way everywhere; what a step takes is measured on real steps where there are
data, and otherwise computed from FLOPs and the speed at which this computer multiplies."""

import copy
import math
import statistics
import time
from dataclasses import dataclass

import torch
from torch import nn

from regard.learning.config import TrainingConfig
from regard.runs.recipe import Recipe
from regard.tasks.setup import B
from regard.tasks.task import AnyTask, BatchTask
from regard.training.environment import compile_model, peak_memory, reproducible
from regard.training.feed import Feed
from regard.training.footprint import training_memory
from regard.training.learner import Learner
from regard.training.prepare import Prepared

WARM = 2  # first steps that do not count: they compile and take memory
FEWEST, MOST = 3, 50  # steps that are measured
SECONDS = 8.0  # ... for so long, if they are quick, ...
PATIENCE = 5  # ... and at most for so many times as long
UNUSUAL = 5  # a step of so many times the median compiled something: neither it nor those before it count
KEPT_FREE = 0.1  # of given minutes, for what is slower than measured
VALIDATING = 0.25  # of given minutes, at most
PASS = 1 / 3  # of a step: a forward pass alone, as the backward pass takes twice as long
REACHED = 0.4  # of the speed of large products: what norms, attention, dropout and the optimizer leave of it
OVERHEAD = 0.005  # seconds of a step, however small it is
ROWS = 1024  # of the products that are tried
NARROWEST, WIDEST = 16, 1024  # of them
PROCESS = 400 * 2**20  # bytes of Python and PyTorch


@dataclass(frozen=True)
class Estimate:
    seconds: float  # of all steps and validations
    memory: int  # bytes at most: of the GPU, or of the process
    step: float  # seconds of one
    how: str


def expected_seconds(config: TrainingConfig, step: float, validation: float, done: int = 0) -> float:
    """Of the steps after the first `done`, each of so many seconds, and of the validations among them."""
    every = config.validate_every
    n_validations = math.ceil(config.steps / every) - done // every if every else 0
    return (config.steps - done) * step + n_validations * validation


def validation_seconds(task: AnyTask, step: float, accumulate: int = 1) -> float:
    """A pass over the validation part; a token that is written takes about as long as one that is learned."""
    if task.valid is None or not len(task.valid.lengths):
        return 0.0
    n_batches = float(task.valid.lengths.sum()) / task.batch_tokens
    written = min(task.config.written / len(task.valid.lengths), 1.0) * n_batches
    return step / accumulate * (PASS * n_batches + written)


def measure(prepared: Prepared, device: torch.device, seconds: float = SECONDS) -> Estimate:
    """On real steps of a copy of the model, with the batches that a training begins with."""
    recipe, task = prepared.recipe, prepared.task
    with reproducible(device):
        step = time_step(prepared, device, seconds)
    config = recipe.training
    whole = expected_seconds(
        config, step, validation_seconds(task, step, config.accumulate * recipe.distribution.n_shards)
    )
    return Estimate(whole, peak_memory(device), step, "measured on a few steps")


def time_step(prepared: Prepared, device: torch.device, seconds: float) -> float:
    """Seconds of a step, on average."""
    config, task = prepared.recipe.training, prepared.task
    model = copy.deepcopy(prepared.model).to(device).train()
    compiled = compile_model(model, config.compile, device)
    learner: Learner = Learner(model, task, config, device, prepared.recipe.d_model, compiled == "compiled")
    with learner.resting():
        task.restore({}, model)
    try:
        return timed(learner, task, config, seconds)
    finally:
        with learner.resting():
            task.restore({}, prepared.model)


def timed(learner: Learner[B], task: BatchTask[B], config: TrainingConfig, seconds: float) -> float:
    steps: list[float] = []  # seconds of each
    n_shards = task.setup.n_shards
    with Feed(task, (0, 0), learner.ready, learner.is_idle, range(n_shards), n_shards) as feed:
        while len(steps) < WARM + MOST:
            begun = time.monotonic()
            learner.update(len(steps) + 1, *feed.take(config.accumulate))
            learner.read()  # waits for the device
            steps.append(time.monotonic() - begun)
            if is_enough(steps[WARM:], seconds):
                break
    return statistics.mean(steady(steps[WARM:]))


def is_enough(steps: list[float], seconds: float) -> bool:
    """Whether steps were measured for so many seconds, without those that compile, or for far longer with them."""
    after = after_compiling(steps)
    if len(steps) >= FEWEST and sum(steady(steps)) > seconds:
        return True
    return sum(steps) > PATIENCE * seconds and (len(after) == len(steps) or len(after) >= FEWEST)


def steady(steps: list[float]) -> list[float]:
    """What steps take when nothing is compiled any more: those after the last that took far longer than usual, or, if
    these are few, all but such steps."""
    after = after_compiling(steps)
    return after if len(after) >= FEWEST else [taken for taken in steps if not is_unusual(taken, steps)]


def after_compiling(steps: list[float]) -> list[float]:
    last = max((i for i, taken in enumerate(steps) if is_unusual(taken, steps)), default=-1)
    return steps[last + 1 :]


def is_unusual(taken: float, steps: list[float]) -> bool:
    return taken > UNUSUAL * statistics.median(steps)


def by_flops(recipe: Recipe, model: nn.Module, flops_per_token: float, device: torch.device) -> Estimate:
    """Without data: all FLOPs of the steps, at the speed that products as wide as the model's reach here."""
    config = recipe.training
    n_tokens = config.accumulate * recipe.data.budget
    rate = REACHED * product_rate(typical_width(model), device)
    step = OVERHEAD + 3 * flops_per_token * n_tokens / rate  # forward once, backward twice that
    memory = training_memory(recipe, model) + (PROCESS if device.type == "cpu" else 0)
    how = f"by FLOPs, at {rate / 1e9:,.1f} GFLOP/s; rough: `regard show {recipe.name} --measure` times real steps"
    return Estimate(expected_seconds(config, step, 0.0), memory, step, how)


def typical_width(model: nn.Module) -> int:
    """The geometric mean of the smaller sides of all matrices: narrow products are slow."""
    sides = [min(weight.shape) for weight in model.parameters() if weight.ndim == 2]
    return round(statistics.geometric_mean(sides)) if sides else NARROWEST


def product_rate(width: int, device: torch.device) -> float:
    """FLOPs a second of a feed-forward layer and its gradients, at this width."""
    width = min(max(width, NARROWEST), WIDEST)
    with device:
        layer = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        rows = torch.randn(ROWS, width, requires_grad=True)
    n_runs, begun = 0, time.monotonic()
    while n_runs < 3 or time.monotonic() - begun < 0.2:
        layer(rows).sum().backward()
        if n_runs == 0:  # the first takes memory
            begun = time.monotonic()
        n_runs += 1
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (n_runs - 1) * 3 * 2 * 8 * width**2 * ROWS / (time.monotonic() - begun)
