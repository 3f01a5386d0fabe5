"""The learning rate at every step, as a factor of the configured rate.  Steps count from 1."""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a schedule may depend on."""

    steps: int
    warmup: int
    d_model: int


def noam(step: int, course: Course) -> float:
    """d_model^-0.5 · min(step^-0.5, step · warmup^-1.5): "Attention Is All You Need", section 5.3."""
    warmup = max(course.warmup, 1)
    return float(course.d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


def constant(step: int, course: Course) -> float:
    """A straight rise to 1 over the warm-up, then 1."""
    return min(1.0, step / course.warmup) if course.warmup else 1.0


def linear(step: int, course: Course) -> float:
    """The warm-up, then a straight fall that would reach 0 one step after the last."""
    return constant(step, course) * (1.0 - fallen(step, course))


def cosine(step: int, course: Course) -> float:
    """The warm-up, then half a cosine that would reach 0 one step after the last."""
    return constant(step, course) * 0.5 * (1.0 + math.cos(math.pi * fallen(step, course)))


def fallen(step: int, course: Course) -> float:
    """How much of the way from the end of the warm-up to the end is done: 0 … 1."""
    return min(1.0, max(0, step - course.warmup) / max(1, course.steps + 1 - course.warmup))


SCHEDULES: dict[str, Callable[[int, Course], float]] = {
    "noam": noam,
    "constant": constant,
    "linear": linear,
    "cosine": cosine,
}
