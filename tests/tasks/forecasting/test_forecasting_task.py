"""Forecasting as a task: what is learned and measured, every window of the test, and forecasts of what a user gives."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2] / "data" / "series"))
from tiny_series import write_series

from regard.data.series.form import TableForm
from regard.data.series.series import Scale
from regard.data.series.windows import WindowSet, read_stretch
from regard.errors import ConfigError, DataError, RegardError
from regard.evaluation.forecasts import Errors, pinball
from regard.nn.series import SeriesForm
from regard.runs.recipe import Recipe
from regard.runs.run import Run, load
from regard.tasks.forecasting.rivals import least_squares, linear, repeat_last, seasonal_naive
from regard.tasks.forecasting.task import Forecasting
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start

CPU = torch.device("cpu")


def wave(i: int) -> tuple[object, ...]:
    return round(10 + 3 * np.sin(i * np.pi / 6), 4), round(np.cos(i * np.pi / 6), 4), i % 2


def recipe_of(folder: Path, *overrides: str, n: int = 240) -> Recipe:
    write_series(folder / "some.csv", n, value=wave, names="load,wind,price")
    (folder / "small.toml").write_text(
        f"""
[task]
kind = "forecasting"
season = 12
columns = ["load", "wind"]
quantiles = [0.1, 0.5, 0.9]
[data]
root = "{folder}"
train = ["some.csv"]
valid_share = 0.2
test_share = 0.2
batch_tokens = 600
[model]
architecture = "nlinear"
look_back = 24
horizon = 6
[training]
steps = 60
optimizer = "adam"
learning_rate = 0.05
schedule = "constant"
warmup = 1
validate_every = 30
save_every = 30
""",
        encoding="utf-8",
    )
    return Recipe.read(str(folder / "small.toml"), overrides)


def run_of(folder: Path, *overrides: str) -> Run:
    made = prepare(recipe_of(folder, *overrides), folder / "run")
    start(made, folder / "run", CPU, False, Screen(Console(quiet=True)))
    return load(folder / "run", "cpu")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_of(tmp_path_factory.mktemp("forecasting"))


def test_the_data_settle_columns_scale_and_season(run: Run) -> None:
    config = run.recipe.task
    train = np.array([wave(i)[:2] for i in range(144)])
    np.testing.assert_allclose(config.means, train.mean(0))
    np.testing.assert_allclose(config.deviations, train.std(0))
    assert config.step == "1 hour" and config.season == 12 and run.recipe.model.n_outputs == 4
    assert np.allclose(config.naive_errors, 0, atol=1e-9)


def test_evaluate_counts_every_window_also_the_last(run: Run) -> None:
    measured = run.measure()
    assert measured.record["windows"] == 48 - 6 + 1
    root = Path(run.recipe.data.root)
    lines = (root / "some.csv").read_text(encoding="utf-8").splitlines()
    fields = lines[-1].split(",")
    other = root / "changed.csv"  # the last step of the last window alone
    other.write_text("\n".join([*lines[:-1], f"{fields[0]},1000,{fields[2]},0"]) + "\n", encoding="utf-8")
    overrides = 'data.train=["changed.csv"]'
    task = Forecasting(run.recipe.task, Recipe.read(str(run.folder), [overrides]).setup(run.tokenizer))
    changed = task.measure(run.use())
    assert changed.record["windows"] == measured.record["windows"]
    assert changed.metrics[0].value > 100 + measured.metrics[0].value


def test_figures_are_those_of_all_windows_one_by_one(run: Run) -> None:
    """The oracle: errors of each window by itself, from forecasts of its history alone, in the units of the data."""
    values = np.array([wave(i)[:2] for i in range(240)])
    errors = []
    for origin in range(192, 240 - 6 + 1):
        forecast = run.forecast(values[:origin])
        errors.append(values[origin : origin + 6] - forecast.values[0])
    scaled = np.array(errors) / np.array(run.recipe.task.deviations)
    found = {metric.name: metric.value for metric in run.measure().metrics}
    assert found["mse"] == pytest.approx(np.square(scaled).mean(), rel=1e-3)
    assert found["mae"] == pytest.approx(np.abs(scaled).mean(), rel=1e-3)


def test_errors_of_forecasts() -> None:
    errors = Errors(2, [2.0], (0.1, 0.9))
    outputs = torch.tensor([[[[0.0, -1.0, 1.0]], [[0.0, 1.0, -1.0]]]])  # crossed quantiles are put in order
    errors.add(outputs, torch.tensor([[[0.5], [3.0]]]), None)
    assert (errors.mse, errors.mae) == (pytest.approx((0.25 + 9) / 2), pytest.approx(1.75))
    assert errors.coverage(1).tolist() == [1.0, 0.0]
    inside = (0.1 * 1.5 + 0.1 * 0.5) / 2
    outside = (0.1 * 4 + 0.9 * 2) / 2
    assert errors.crps() == pytest.approx(2 * 2.0 * (inside + outside) / 2)
    assert errors.mase(np.array([0.5])) == pytest.approx(1.75 * 2 / 0.5)
    errors.add(outputs, torch.tensor([[[0.5], [3.0]]]), torch.tensor([[[True], [False]]]))
    assert errors.n.tolist() == [[2.0], [1.0]] and errors.n_windows == 2


def test_the_pinball_loss_is_least_at_the_quantile() -> None:
    values = torch.randn(4001, generator=torch.Generator().manual_seed(0)).sort().values
    for level in (0.05, 0.5, 0.9):
        costs = [float(pinball(values - guess, torch.tensor(level)).mean()) for guess in values]
        assert abs(int(np.argmin(costs)) - level * 4000) <= 1


def test_rivals() -> None:
    past = torch.arange(10.0).view(1, 10, 1)
    assert repeat_last(3)(past).flatten().tolist() == [9, 9, 9]
    assert seasonal_naive(5, 3)(past).flatten().tolist() == [7, 8, 9, 7, 8]
    assert seasonal_naive(2, 30)(past).flatten().tolist() == [9, 9]
    halves = torch.zeros(1, 11, 2)
    halves[:, 9], halves[:, 10] = 0.5, 1.0
    assert linear(halves, is_relative=False)(past).flatten().tolist() == [5.5, 5.5]
    assert linear(halves, is_relative=True)(past).flatten().tolist() == [10, 10]
    own = torch.cat([halves, 2 * halves])  # a map for each of two columns
    assert linear(own, is_relative=False)(past.expand(1, 10, 2))[0, 0].tolist() == [5.5, 11]


@pytest.mark.parametrize("individual", [False, True])
def test_least_squares_finds_a_wave(individual: bool, run: Run) -> None:
    task = run.task
    parts = task.read_parts(task.config, task.setup.data)
    train, valid = (task.part(part, to_learn=False) for part in (parts.train, parts.valid))
    rival = least_squares(train, valid, False, CPU, individual)
    past, _, future, _ = valid.read(np.arange(3))
    torch.testing.assert_close(rival(past), future, atol=0.02, rtol=0)


def test_a_map_of_its_own_learns_from_its_column_alone(tmp_path: Path) -> None:
    """Other values in one column, of which some are missing, change the forecasts of the others only where they share
    a map."""
    form = SeriesForm(look_back=5, horizon=3, n_columns=2, n_seen=0, n_known=0, n_outputs=1)
    draw = np.random.default_rng(0)
    load, winds = draw.normal(size=60), (draw.normal(size=60), 5 * draw.normal(size=60))
    forecasts = {}
    for individual in (False, True):
        for k, wind in enumerate(winds):
            file = write_series(tmp_path / "a.csv", 60, value=lambda i, w=wind: (load[i], "" if i == 20 else w[i]))
            table = TableForm(missing="last")
            whole = read_stretch((file.name,), str(tmp_path), table)
            part = WindowSet(whole, Scale.of(whole.series, whole.rows), table, form)
            rival = least_squares(part, None, True, CPU, individual)
            forecasts[individual, k] = rival(part.read(np.arange(9))[0])
    assert torch.equal(forecasts[True, 0][..., 0], forecasts[True, 1][..., 0])
    assert not torch.allclose(forecasts[False, 0][..., 0], forecasts[False, 1][..., 0], atol=1e-3)


def test_a_forecast_is_a_table_with_times_and_quantiles(run: Run, tmp_path: Path) -> None:
    history = write_series(tmp_path / "new.csv", 40, value=wave, names="load,wind,price")
    forecast = run.forecast(str(history), quantiles=[0.1, 0.3])
    table = forecast.table()
    assert list(table) == ["date", "load", "load 0.1", "load 0.3", "wind", "wind 0.1", "wind 0.3"]
    assert table["date"][0] == "2024-03-02 16:00" and len(table["date"]) == 6
    learned = run.forecast(history).quantiles
    np.testing.assert_allclose(forecast.quantiles[0.3], (learned[0.1] + learned[0.5]) / 2)
    assert forecast.csv().count("\n") == 7
    frame = {"date": [f"2024-03-01 {h:02}:00" for h in range(24)], "load": np.zeros(24), "wind": np.ones(24)}
    assert run.forecast(frame, horizon=2).values.shape == (1, 2, 2)
    assert [answer.values.shape for answer in run.forecast([frame, frame])] == [(1, 6, 2)] * 2


def test_mistakes_are_said(run: Run, tmp_path: Path) -> None:
    history = write_series(tmp_path / "new.csv", 40, value=wave, names="load,wind,price")
    with pytest.raises(RegardError, match=r"this run forecasts 6 steps, got horizon 7; train with model.horizon = 7"):
        run.forecast(history, horizon=7)
    with pytest.raises(RegardError, match=r"learned quantiles from 0.1 to 0.9, got 0.95"):
        run.forecast(history, quantiles=[0.95])
    with pytest.raises(DataError, match=r"has 20 rows, and this run reads 24"):
        run.forecast(write_series(tmp_path / "short.csv", 20, value=wave, names="load,wind,price"))
    with pytest.raises(DataError, match=r"steps of 1 day, and this run was trained on steps of 1 hour"):
        run.forecast(write_series(tmp_path / "days.csv", 40, step="1D", value=wave, names="load,wind,price"))
    with pytest.raises(DataError, match=r"has no column 'wind'"):
        run.forecast(write_series(tmp_path / "less.csv", 40, value=lambda i: (i,), names="load"))
    with pytest.raises(DataError, match=r"expected an array of numbers \(steps, 2\)"):
        run.forecast(np.zeros((30, 3)))


def test_rows_that_training_leaves_out_are_history_all_the_same(tmp_path: Path) -> None:
    run = run_of(tmp_path, "task.rows=200", "training.steps=2", "training.validate_every=0")
    assert run.measure().record["windows"] == 40 - 6 + 1
    assert run.forecast(str(tmp_path / "some.csv")).times[0][0] == "2024-03-11 00:00"
    assert run.measure([tmp_path / "some.csv"]).record["windows"] == 240 - 24 - 6 + 1


def test_what_is_known_ahead_is_given_after_the_last_value(tmp_path: Path) -> None:
    known = (
        'task.known=["price"]',
        'task.calendar=["day"]',
        'model.architecture="recurrent-series"',
        "model.d_hidden=8",
    )
    run = run_of(tmp_path, *known)

    def ahead(i: int) -> tuple[object, ...]:
        return wave(i) if i < 40 else ("", "", 1)

    history = write_series(tmp_path / "new.csv", 46, value=ahead, names="load,wind,price")
    first = run.forecast(history)
    assert first.times[0][0] == "2024-03-02 16:00"
    other = write_series(
        tmp_path / "other.csv", 46, value=lambda i: (*ahead(i)[:2], 1 if i < 43 else 0), names="load,wind,price"
    )
    moved = run.forecast(other).values - first.values
    assert np.abs(moved[0, 3:]).min() > 0
    with pytest.raises(DataError, match=r"must say price for 6 steps after the last value"):
        run.forecast(write_series(tmp_path / "less.csv", 44, value=ahead, names="load,wind,price"))
    with pytest.raises(DataError, match=r"an array has none"):
        run.forecast(np.zeros((30, 2)))


def test_many_series_are_learned_and_forecast_together(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, 'task.id="shop"', 'task.columns=["load"]', "training.steps=2", "task.season=0")
    lines = (tmp_path / "some.csv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [f"{line.split(',')[0]},{shop},{line.split(',')[1]}" for line in lines for shop in ("north", "south")]
    (tmp_path / "some.csv").write_text("date,shop,load\n" + "\n".join(rows) + "\n", encoding="utf-8")
    made = prepare(recipe, tmp_path / "run")
    start(made, tmp_path / "run", CPU, False, Screen(Console(quiet=True)))
    run = load(tmp_path / "run", "cpu")
    assert run.recipe.task.season == 24
    assert run.measure().record["windows"] == 2 * (48 - 6 + 1)
    forecast = run.forecast(str(tmp_path / "some.csv"))
    assert forecast.table()["shop"] == ["north"] * 6 + ["south"] * 6 and len(forecast.table()["date"]) == 12
    np.testing.assert_allclose(forecast.values[0], forecast.values[1], rtol=1e-5)  # they were alike


def test_an_architecture_that_reads_columns_alone_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"reads the columns that it forecasts, and nothing else"):
        prepare(recipe_of(tmp_path, 'task.calendar=["day"]'), tmp_path / "run")


def test_columns_are_named_in_the_task(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"name what is forecast in task.columns"):
        prepare(recipe_of(tmp_path, 'data.columns=["load"]'), tmp_path / "run")
