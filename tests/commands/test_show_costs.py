"""`regard show` of GPT-1 to 3, beside the training costs that the lectures state."""

import pytest
import torch

from regard.commands.show import LECTURES, costs
from regard.runs.recipe import Recipe


def shown(name: str) -> dict[str, str]:
    recipe = Recipe.read(name)
    with torch.device("meta"):
        table = costs(recipe, recipe.build_model())
    return dict(zip(*(column._cells for column in table.columns[:2]), strict=True))


@pytest.mark.parametrize(
    ("name", "stated", "tokens"),
    [
        ("gpt1", "8.6e+19 FLOPs", "1.2e+11 tokens"),
        pytest.param("gpt2-xl", "1.5e+21 FLOPs", "1.5e+11 tokens", marks=pytest.mark.slow),  # seconds, to be built
        # Brown et al. 2020, table 2.1: 300 billion
        pytest.param("gpt3", "3.1e+23 FLOPs", "3e+11 tokens", marks=pytest.mark.slow),
    ],
)
def test_what_the_lectures_say(name: str, stated: str, tokens: str) -> None:
    rows = shown(name)
    assert rows["the lectures say"] == stated and rows["which are for"] == tokens


def test_others_say_nothing_of_lectures() -> None:
    assert "the lectures say" not in shown("gpt2") and set(LECTURES) == {"gpt1", "gpt2-xl", "gpt3"}
