"""The shipped recipes: those with a model of their own, and those that fine-tune a run."""

from functools import cache

from regard.config import load, shipped_recipes


@cache
def tuning_recipes() -> list[str]:
    return [name for name in shipped_recipes() if load(name).get("training", {}).get("from_run", False)]


@cache
def own_models() -> list[str]:
    return [name for name in shipped_recipes() if name not in tuning_recipes()]
