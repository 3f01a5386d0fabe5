"""A training cut to the minutes that there are: fewer steps, and what is counted in steps in proportion."""

import math
import time
from dataclasses import replace

import torch

from regard.learning.config import TrainingConfig
from regard.learning.schedules import SCHEDULES, Course
from regard.runs.card import duration
from regard.training.estimate import KEPT_FREE, VALIDATING, expected_seconds, measure, validation_seconds
from regard.training.prepare import Prepared
from regard.training.screen import Screen


def shorten(prepared: Prepared, minutes: float, begun: float, device: torch.device, screen: Screen) -> Prepared:
    """The same with as many steps as fit into what is left of the minutes since `begun` (`time.monotonic()`), by timing
    some of them; as it is, where all fit."""
    recipe = prepared.recipe
    # Reading counts, timing does not: most of that is compiling, which is not done twice.
    seconds = max(1.0, 60 * minutes * (1 - KEPT_FREE) - (time.monotonic() - begun))
    step = measure(prepared, device).step
    validation = validation_seconds(prepared.task, step, recipe.training.accumulate * recipe.distribution.n_shards)
    config = fitted(recipe.training, step, validation, seconds, recipe.d_model)
    expected = duration(expected_seconds(config, step, validation))
    screen.say(f"{config.steps:,} of {recipe.training.steps:,} steps fit into {minutes:g} minutes: about {expected}")
    return replace(prepared, recipe=replace(recipe, training=config))


def fitted(config: TrainingConfig, step: float, validation: float, seconds: float, d_model: int) -> TrainingConfig:
    """Fewer steps, each of `step` seconds.  Warm-up and the distances of validations and checkpoints shrink with them,
    and the rate rises as high as before."""
    if expected_seconds(config, step, validation) <= seconds:
        return config
    n_validations = math.ceil(config.steps / config.validate_every) if config.validate_every else 0
    if n_validations and validation:
        n_validations = max(1, min(n_validations, int(VALIDATING * seconds / validation)))
    steps = max(1, min(config.steps, int((seconds - n_validations * validation) / step)))
    share = steps / config.steps
    shorter = replace(
        config,
        steps=steps,
        warmup=math.ceil(config.warmup * share),
        validate_every=math.ceil(steps / n_validations) if n_validations else 0,
        save_every=math.ceil(config.save_every * share),
    )
    return replace(shorter, learning_rate=config.learning_rate * highest(config, d_model) / highest(shorter, d_model))


def highest(config: TrainingConfig, d_model: int) -> float:
    """The factor of the rate at the end of the warm-up: of some schedules it depends on how long that is."""
    if not config.warmup:
        return 1.0
    return SCHEDULES[config.schedule](config.warmup, Course(steps=config.steps, warmup=config.warmup, d_model=d_model))
