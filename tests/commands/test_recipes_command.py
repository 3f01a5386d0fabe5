"""regard recipes: by task, with the minutes that trainings take."""

import re
import tomllib

from calling import Call

from regard.commands.shipped import MINUTES
from regard.config import shipped_recipes
from tests.shipped import own_models


def test_recipes_are_listed_by_task_those_without_data_first(regard: Call) -> None:
    groups = [group.splitlines() for group in regard("recipes").out.split("\n\n")[1:]]
    names = [[line.split()[0] for line in lines] for _, *lines in groups]
    assert sorted(name for group in names for name in group) == sorted(shipped_recipes())
    assert [kind for kind, *_ in groups] == sorted(kind for kind, *_ in groups)
    for _, *lines in groups:
        needs_data = ["[data: " in line for line in lines]
        assert needs_data == sorted(needs_data)


def test_recipes_say_how_long_they_take() -> None:
    """Nearly all of them, on two cores or on a GPU; GPT-3 is a shape to look at."""
    minutes = tomllib.loads(MINUTES.read_text(encoding="utf-8"))
    assert set(minutes) <= set(shipped_recipes())
    assert all(re.fullmatch(r"(~?\d+(\.\d+)?( h)?)?", figure) for figures in minutes.values() for figure in figures)
    silent = {name for name in own_models() if not any(minutes.get(name, ()))}
    assert silent <= {"gpt3", "elmo", "ptb-awd-lstm"}
