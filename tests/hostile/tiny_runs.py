"""A tiny run of every task, made once."""

from pathlib import Path

import torch
from every_pair import PAIRS, Pair, trained, without_head, write_recipe

PREFERRED = ("transformer", "stack", "xlnet", "bilm")  # the architecture of a task's run: the first of these that fits


def pair_of(task: str) -> Pair:
    of_task = {pair.architecture: pair for pair in PAIRS if pair.task == task}
    return next(of_task[name] for name in (*PREFERRED, *of_task) if name in of_task)


class Runs:
    """The run folder of each task, made when it is first asked for."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __getitem__(self, task: str) -> Path:
        run = self.place / task / "run"
        if not run.exists():
            torch.set_num_threads(1)  # children are forked from here
            pair = pair_of(task)
            run.parent.mkdir()
            recipe = write_recipe(pair, run.parent)
            recipe.rename(run.parent / "recipe.toml")
            recipe = run.parent / "recipe.toml"
            without_head(recipe, run) if pair.rows[1].cannot_learn else trained(recipe, run)
        return run
