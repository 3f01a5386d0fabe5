"""The cost model: what it says must follow from what it is made of."""

import pytest
import torch

from bench import finetuning, vision
from regard.commands.show import on_gpus
from regard.models.heads import Classifier
from regard.models.stack import Stack
from regard.runs.recipe import Recipe
from regard.training.scaling import H200, STATED, Network, StepCost, Work, step_cost
from tests.shipped import own_models


def work_of(name: str, length: int, n_tokens: float) -> Work:
    recipe = Recipe.read(name)
    with torch.device("meta"):
        return Work.of(recipe.build_model(), recipe.d_model, length, n_tokens)


@pytest.fixture(scope="module")
def gpt2() -> Work:
    return work_of("gpt2", 1024, 32_768)


def test_work_is_what_the_equations_say(gpt2: Work) -> None:
    """Six operations for each weight that is multiplied with; attention compares with half the past, in 12 layers."""
    assert gpt2.products == pytest.approx(6 * 32_768 * (12 * 12 * 768**2 + 50_257 * 768), rel=0.01)
    assert gpt2.attention == pytest.approx(3.5 * 32_768 * 12 * 4 * 768 * 512, rel=0.01)
    assert gpt2.n_logits == pytest.approx(32_768 * 50_257, rel=0.03)  # the table of positions is taken for a product
    base = work_of("transformer-base", 28, 25_000)
    assert base.products == pytest.approx(6 * 25_000 * 63e6, rel=0.01)
    assert base.n_logits == pytest.approx(25_000 * 37_000, rel=0.01)


def test_one_gpu_sends_nothing(gpt2: Work) -> None:
    cost = step_cost(gpt2, H200)
    assert cost.sent == cost.waiting == 0 and cost.busy == 1


def test_a_ring_of_one_machine_and_of_two() -> None:
    """Worked by hand: 8 GB to 8 GPUs at 1 GB/s is 7 s; to 16 in two machines, each adapter also brings half of 1 GB."""
    network = Network(n_inside=8, inside=1e9, between=1e9, latency=0.0)
    assert network.seconds(8e9, 8) == pytest.approx(7.0)
    assert network.seconds(8e9, 16) == pytest.approx(7.5)


def costs(work: Work, kind: str) -> list[StepCost]:
    return [step_cost(work, H200, n, kind=kind) for n in (2, 8, 64, 1024)]


@pytest.mark.parametrize("kind", ["data", "sharded"])
def test_more_gpus_do_more_and_each_waits_longer(gpt2: Work, kind: str) -> None:
    found = costs(gpt2, kind)
    rates = [cost.tokens_per_second for cost in found]
    assert rates == sorted(rates)
    assert [cost.busy for cost in found] == sorted((cost.busy for cost in found), reverse=True)
    slow = [
        step_cost(gpt2, H200, n, Network(inside=STATED.inside / 100, between=STATED.between / 100), kind).busy
        for n in (8, 64)
    ]
    assert slow[1] < slow[0] < 0.7


def test_what_is_hidden_costs_nothing_and_what_is_not_does(gpt2: Work) -> None:
    quick, slow = (step_cost(gpt2, H200, 64, Network(between=between)) for between in (40e9, 0.4e9))
    assert quick.sent < 2 / 3 * quick.compute and quick.waiting < quick.sent
    assert slow.waiting >= slow.sent - 2 / 3 * slow.compute > 0


def test_shares_are_smaller_than_copies(gpt2: Work) -> None:
    data, sharded = costs(gpt2, "data"), costs(gpt2, "sharded")
    assert len({cost.memory for cost in data}) == 1
    assert [cost.memory for cost in sharded] == sorted((cost.memory for cost in sharded), reverse=True)
    again = step_cost(gpt2, H200, 8, kind="sharded", checkpointing=True)
    assert again.memory < 0.5 * sharded[1].memory
    assert again.compute == pytest.approx(4 / 3 * sharded[1].compute)


def test_a_step_that_is_divided_is_the_same_work(gpt2: Work) -> None:
    part = gpt2.shared_by(8)
    assert 8 * part.products == pytest.approx(gpt2.products) and part.n_weights == gpt2.n_weights
    begun = H200.begun * gpt2.n_matrices  # is not divided
    whole = step_cost(gpt2, H200).compute - begun
    assert step_cost(part, H200, 8).compute == pytest.approx(whole / 8 + begun)


def test_it_is_shown_and_labeled() -> None:
    recipe = Recipe.read("transformer-base")
    with torch.device("meta"):
        table = on_gpus(recipe, recipe.build_model(), 64)
    assert "modeled" in str(table.title)
    columns = [list(column.cells) for column in table.columns]
    assert columns[0] == ["1", "8", "8", "64", "64"]
    assert columns[1] == ["one process", "data", "sharded", "data", "sharded"]
    assert columns[2][0] == "25,000" and columns[2][-1] == "391"


def bert() -> Work:
    """As `python -m bench finetuning --device cuda` has it: random batches, filled up."""
    plan = finetuning.PLANS["cuda"]
    with torch.device("meta"):
        model = Classifier(Stack(plan.shape), 2, "first", plan.shape.dropout, "tanh")
    return Work.of(model, plan.shape.d_model, 25, 16_384)


def vit(case: vision.Case) -> Work:
    """As `python -m bench vision --device cuda` has it."""
    recipe, n_rows = vision.make_recipe(vision.PLANS["cuda"], case), (case.side // case.patch) ** 2 + 1
    with torch.device("meta"):
        return Work.of(recipe.build_model(), recipe.d_model, n_rows, case.n_images * n_rows)


# Seconds of a step that these benches measured on one H200 (docs/results.md); its rates were not chosen by them.
MEASURED = {
    "BERT": (bert, 16_362.75 / 674_524),
    "ViT, small images": (lambda: vit(vision.PLANS["cuda"].cases[0]), 512 / 27_009),
    "ViT, large images": (lambda: vit(vision.PLANS["cuda"].cases[1]), 128 / 8_952),
}


@pytest.mark.parametrize("name", MEASURED)
def test_beside_steps_that_were_measured(name: str) -> None:
    work, seconds = MEASURED[name]
    assert step_cost(work(), H200).seconds == pytest.approx(seconds, rel=0.15)


@pytest.mark.parametrize("name", own_models())
def test_no_recipe_takes_less_than_no_time(name: str) -> None:
    """Captions did: the more tokens share an image, the less each costs, which was taken for attention below zero."""
    recipe = Recipe.read(name)
    if recipe.model_class.is_counted:
        return
    work = Work.of(recipe.sketch(), recipe.d_model, recipe.task.window, recipe.data.budget)
    assert work.products > 0 and work.attention >= 0
    assert step_cost(work, H200).compute > 0
