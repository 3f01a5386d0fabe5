"""What holds for every architecture with every task that it fits.  A test is a property; the runner gives it the pairs.

The fast tests walk a covering, every architecture and every task at least once; the slow ones walk the other pairs.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch
from every_pair import (
    ARCHITECTURE_ROWS,
    CPU,
    PAIRS,
    TASK_ROWS,
    WITH_THE_ROLE,
    Pair,
    covering,
    prepared,
    sequences,
    sources,
    trained,
    without_head,
    write_recipe,
)
from torch import Tensor
from typer.testing import CliRunner

from regard.__main__ import app
from regard.errors import ConfigError
from regard.models import ARCHITECTURES
from regard.nn.attention import Attend
from regard.nn.layout import Ragged
from regard.nn.linear import logits
from regard.nn.watch import watch
from regard.runs.run import Run, load
from regard.runs.weights import weights_of
from regard.tasks.table import TASKS

LENGTHS = [5, 3, 7]  # of the sequences that a model is given directly
COVERING = covering(PAIRS)

# Which pairs a property is about, and why not the others.


def every(pair: Pair) -> bool:
    return True


def with_training(pair: Pair) -> bool:
    """The row of a task says why it learns nothing."""
    return not pair.rows[1].cannot_learn


def without_training(pair: Pair) -> bool:
    return not with_training(pair)


def with_gradients(pair: Pair) -> bool:
    """What is counted has none, and no steps: one pass over the text is all."""
    return with_training(pair) and not pair.is_counted


def writing(pair: Pair) -> bool:
    """A model that sees both sides has no future to be kept from, and cannot be stepped."""
    return pair.rows[1].sees == "past" and pair.rows[1].writes


def attending(pair: Pair) -> bool:
    """Without attention there are no weights to watch."""
    return with_training(pair) and pair.rows[0].attends


def holds(where: Callable[[Pair], bool]) -> pytest.MarkDecorator:
    """The property, for all pairs that it is about: fast for those of the covering, slow for the others."""
    pairs = [pair for pair in PAIRS if where(pair)]
    params = [pytest.param(pair, id=str(pair), marks=() if pair in COVERING else pytest.mark.slow) for pair in pairs]
    return pytest.mark.parametrize("tiny", params, indirect=True, scope="module")


class Tiny:
    """A pair with its folder; what several properties need is made once."""

    def __init__(self, pair: Pair, folder: Path):
        self.pair, self.folder = pair, folder
        self.recipe = write_recipe(pair, folder)

    @cached_property
    def trained(self) -> Any:
        with torch.enable_grad():  # whichever test is the first to ask
            return trained(self.recipe, self.folder / "run")[0]

    @cached_property
    def model(self) -> torch.nn.Module:
        """As the last step left it."""
        if self.pair.rows[1].cannot_learn:
            return without_head(self.recipe, self.folder / "run")
        model: torch.nn.Module = self.trained.model.eval()
        return model

    @cached_property
    def run(self) -> Run:
        assert self.model is not None
        return load(self.folder / "run", "cpu")

    def call(self, *arguments: str) -> str:
        """What a command prints."""
        done = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        return done.stdout


@pytest.fixture(scope="module")
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    torch.manual_seed(0)
    return Tiny(request.param, tmp_path_factory.mktemp(str(request.param)))


def test_the_tables_are_whole_and_the_covering_covers() -> None:
    assert list(ARCHITECTURE_ROWS) == list(ARCHITECTURES), "a new architecture takes a row in every_pair.py"
    assert list(TASK_ROWS) == list(TASKS), "a new task takes a row in every_pair.py"
    assert {name for pair in COVERING for name in pair} == {*ARCHITECTURES, *TASKS}
    of_one_task = [
        name for name in ARCHITECTURES if len({pair.task for pair in PAIRS if pair.architecture == name}) == 1
    ]
    other_tasks = set(TASKS) - {pair.task for pair in PAIRS if pair.architecture in of_one_task}
    assert len(COVERING) <= len(of_one_task) + max(len(ARCHITECTURES) - len(of_one_task), len(other_tasks)) + 2


@pytest.mark.parametrize("pair", [pair for pair in WITH_THE_ROLE if pair not in PAIRS], ids=str)
def test_what_does_not_fit_is_refused(pair: Pair, tmp_path: Path) -> None:
    recipe = write_recipe(pair, tmp_path, pair.rows[0].settings)
    with pytest.raises(ConfigError):
        prepared(recipe, tmp_path / "run")


@holds(with_gradients)
def test_it_learns_a_batch(tiny: Tiny) -> None:
    made = prepared(tiny.recipe, tiny.folder / "learns")
    model, task = made.model.eval(), made.task
    task.restore({}, model)
    batch = task.small_batch(48).to(CPU)
    optimizer = torch.optim.Adam([weight for weight in model.parameters() if weight.requires_grad], lr=0.03)
    losses: list[float] = []
    while len(losses) < 60 and (not losses or losses[-1] >= 0.6 * losses[0]):  # most need a third of these steps
        loss = task.plain_loss(model, batch) / batch.n_targets
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.6 * losses[0], losses


@holds(every)
def test_a_loaded_run_has_the_weights_that_were_saved(tiny: Tiny) -> None:
    ours, theirs = weights_of(tiny.model), weights_of(tiny.run.model)
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@holds(with_training)
def test_a_loaded_run_answers_as_the_model_that_was_trained(tiny: Tiny) -> None:
    with torch.no_grad():
        figures = [tiny.trained.task.validate(model) for model in (tiny.model, tiny.run.model)]
    assert figures[0] and figures[0] == figures[1]


@holds(with_gradients)
def test_a_resumed_run_is_the_same_to_the_bit(tiny: Tiny) -> None:
    parted = tiny.folder / "parted"
    trained(tiny.recipe, parted, "training.steps=3")
    again, result = trained(tiny.recipe, parted, "training.steps=6", resume=True)
    assert result.steps == 6
    ours, theirs = weights_of(tiny.model), weights_of(again.model)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert (parted / "model.safetensors").read_bytes() == (tiny.folder / "run" / "model.safetensors").read_bytes()


@holds(with_training)
def test_examples_alone_are_as_in_a_batch(tiny: Tiny) -> None:
    """What a validation finds does not depend on how many examples are read together."""
    found, n_batches = [], []
    for name, budget in (("alone", 1), ("together", 1000)):
        made = prepared(tiny.recipe, tiny.folder / name, f"data.batch_tokens={budget}")
        made.task.restore({}, tiny.model)
        with torch.no_grad():
            found.append(made.task.validate(tiny.model))
        n_batches.append(made.task.n_batches(0))
    assert n_batches[0] > n_batches[1]
    names = tiny.pair.rows[1].figures or tuple(found[0])
    assert names and {name: found[0][name] for name in names} == pytest.approx(
        {name: found[1][name] for name in names}, rel=1e-4, abs=1e-5
    )


@holds(without_training)
def test_lines_alone_have_the_vectors_that_they_have_together(tiny: Tiny) -> None:
    lines = ["the cat says meow", "the dog", "woof in the barn again"]
    together = torch.from_numpy(tiny.run.embed(lines))
    alone = torch.cat([torch.from_numpy(tiny.run.embed([line])) for line in lines])
    torch.testing.assert_close(alone, together, rtol=1e-4, atol=1e-5)


def rows_of(tiny: Tiny, tokens: Tensor) -> Tensor:
    """What the forward pass has for the word after each token: hidden rows or log P."""
    pair = tiny.pair
    before = tiny.model.inputs.join(sources(pair, n_words(tiny)), CPU) if pair.has_source else ()
    with torch.no_grad():
        rows: Tensor = tiny.model(*before, tokens, Ragged(LENGTHS))
    return rows


def n_words(tiny: Tiny) -> int:
    return tiny.run.tokenizer.vocab_size


@holds(writing)
def test_the_future_does_not_change_the_past(tiny: Tiny) -> None:
    tokens = sequences(LENGTHS, n_words(tiny))
    last = torch.tensor(LENGTHS).cumsum(0) - 1
    changed = tokens.clone()
    changed[last] = (tokens[last] + 1) % n_words(tiny)
    before, after = rows_of(tiny, tokens), rows_of(tiny, changed)
    is_past = torch.ones(len(tokens), dtype=torch.bool)
    is_past[last] = False
    torch.testing.assert_close(before[is_past], after[is_past], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(before[last], after[last]) or tiny.pair.is_counted  # what was never counted is alike


@holds(writing)
def test_stepping_gives_the_scores_of_the_forward_pass(tiny: Tiny) -> None:
    tokens = sequences(LENGTHS, n_words(tiny))
    tokens[Ragged(LENGTHS).offsets[:-1].long()] = begin = 0
    rows = rows_of(tiny, tokens)
    if not tiny.pair.is_counted:  # otherwise they are log P already
        bias = tiny.model.output_bias if tiny.pair.has_source else None
        rows = logits(rows, tiny.model.output_table, bias)
    expected = rows.log_softmax(-1).split(LENGTHS)
    texts = [text.tolist() for text in tokens.split(LENGTHS)]
    longest = max(LENGTHS)
    with torch.no_grad():
        prompts = sources(tiny.pair, n_words(tiny)) if tiny.pair.has_source else [text[:1] for text in texts]
        state, first = tiny.model.start(prompts, begin, 1, longest)
        padded = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
        steps = [tiny.model.step(column[:, None], state)[:, 0].clone() for column in padded[:, 1:].unbind(1)]
    stepped = torch.stack([first, *steps], 1).log_softmax(-1)
    for found, wanted in zip(stepped, expected, strict=True):
        torch.testing.assert_close(found[: len(wanted)], wanted, rtol=1e-4, atol=1e-5)


@holds(attending)
def test_watched_weights_make_the_output(tiny: Tiny) -> None:
    task = tiny.trained.task
    with torch.no_grad(), watch(tiny.model) as seen:
        task.plain_loss(tiny.model, task.small_batch(48).to(CPU))
    assert seen.sightings
    for sighting in seen.sightings:
        sums = sighting.weights.sum(-1)
        assert bool(((sums - 1).abs() < 1e-5).logical_or(sums == 0).all())  # padding looks at nothing
        assert sighting.error < 1e-5


@holds(every)
def test_the_model_has_attention_where_its_row_says_so(tiny: Tiny) -> None:
    assert any(isinstance(part, Attend) for part in tiny.model.modules()) == tiny.pair.rows[0].attends


@holds(every)
def test_show_counts_the_real_parameters(tiny: Tiny) -> None:
    n = sum(weight.numel() for weight in tiny.model.parameters())
    shown = tiny.call("show", str(tiny.folder / "run"))
    assert re.search(rf"│ all +│ +│ {n:,} +│" if n else "no parameters are learned", shown), (n, shown)


@holds(with_training)
def test_the_doctor_answers(tiny: Tiny) -> None:
    told = tiny.call("doctor", str(tiny.recipe), "--seconds", "0", "--device", "cpu")
    assert "train" in told and ("by heart" in told or "counted" in told)


@holds(with_training)
def test_evaluate_answers(tiny: Tiny) -> None:
    assert tiny.model is not None
    told = json.loads(tiny.call("evaluate", str(tiny.folder / "run"), "--json", "--device", "cpu"))
    values = list(figures_in(told))
    assert values and all(isinstance(value, float | int) for value in values)


def figures_in(told: Any) -> Iterator[object]:
    """The values of all metrics in a report."""
    if isinstance(told, dict):
        if {"name", "value", "signature"} <= told.keys():
            yield told["value"]
        told = list(told.values())
    if isinstance(told, list):
        for part in told:
            yield from figures_in(part)
