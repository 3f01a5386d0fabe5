"""A forecast beside its rivals, by column and by step ahead: the tables of an evaluation."""

from collections.abc import Mapping, Sequence

import numpy as np

from regard.evaluation.forecasts import Errors
from regard.evaluation.measured import Table

FIRST = "this run"


def comparison(
    errors: Errors, rivals: Mapping[str, Errors], columns: Sequence[str], naive: np.ndarray
) -> tuple[list[Table], dict[str, object], list[str]]:
    """Tables for the screen, the same for --json, and who was not beaten, in words."""
    all_errors = {FIRST: errors, **rivals}
    record: dict[str, object] = {
        "beside": {name: summary(other, naive) for name, other in rivals.items()},
        "columns": {column: of_column(errors, rivals, c, naive) for c, column in enumerate(columns)},
        "steps": {str(step + 1): of_step(errors, rivals, step, naive) for step in range(len(errors.n))},
    }
    tables = [
        ("", [headings(errors), *(row(name, summary(other, naive)) for name, other in all_errors.items())]),
        *by_part("column", record["columns"]),
        *by_part("step ahead", record["steps"], shown=steps_shown(len(errors.n))),
    ]
    better = [f"{name} ({other.mse:.4f})" for name, other in rivals.items() if other.mse <= errors.mse]
    verdict = f"not beaten by MSE: {', '.join(better)}" if better else "all rivals are beaten by MSE"
    units = "MSE and MAE are of standardized values; CRPS is in the units of the data"
    return tables, record, [f"{errors.n_windows:,} windows; {verdict}", units]


def headings(errors: Errors) -> tuple[str, ...]:
    return "what", "MSE", "MAE", "MASE", "CRPS", coverage_title(errors)


def coverage_title(errors: Errors) -> str:
    if not errors.quantiles:
        return "coverage"
    return f"inside {100 * (errors.quantiles[-1] - errors.quantiles[0]):.4g} %"


def summary(errors: Errors, naive: np.ndarray) -> dict[str, float | None]:
    figures = {"mse": errors.mse, "mae": errors.mae, "mase": errors.mase(naive), "crps": errors.crps()}
    return finite({**figures, "coverage": errors.coverage() if errors.quantiles else None})


def finite(figures: Mapping[str, object]) -> dict[str, float | None]:
    """As JSON has numbers: what could not be measured is null."""
    numbers = {name: None if value is None else float(value) for name, value in figures.items()}  # type: ignore[arg-type]
    return {name: None if number is None or not np.isfinite(number) else number for name, number in numbers.items()}


def row(name: str, figures: Mapping[str, float | None]) -> tuple[str, ...]:
    forms = {"mse": "{:.4f}", "mae": "{:.4f}", "mase": "{:.3f}", "crps": "{:.4g}", "coverage": "{:.1%}"}
    cells = (forms[key].format(figures[key]) if figures[key] is not None else "" for key in forms)
    return name, *cells


def of_column(errors: Errors, rivals: Mapping[str, Errors], c: int, naive: np.ndarray) -> dict[str, float | None]:
    figures = {
        "mse": errors.mean(errors.squared, 0)[c],
        "mae": errors.mean(errors.absolute, 0)[c],
        "mase": errors.mase(naive, 0)[c],
        "crps": errors.crps(0)[c],
        "coverage": errors.coverage(0)[c] if errors.quantiles else None,
    }
    return finite(figures | {f"mse, {name}": other.mean(other.squared, 0)[c] for name, other in rivals.items()})


def of_step(errors: Errors, rivals: Mapping[str, Errors], step: int, naive: np.ndarray) -> dict[str, float | None]:
    figures = {
        "mse": errors.mean(errors.squared, 1)[step],
        "mae": errors.mean(errors.absolute, 1)[step],
        "mase": errors.mase(naive, 1)[step],
        "crps": errors.crps(1)[step],
        "coverage": errors.coverage(1)[step] if errors.quantiles else None,
    }
    return finite(figures | {f"mse, {name}": other.mean(other.squared, 1)[step] for name, other in rivals.items()})


def by_part(what: str, record: object, shown: Sequence[int] | None = None) -> list[Table]:
    """A row for each column or step: of this run, then its MSE beside that of every rival."""
    assert isinstance(record, dict)
    parts = list(record.items())
    chosen = parts if shown is None else [parts[i] for i in shown]
    rivals = [name for name in parts[0][1] if name.startswith("mse, ")]
    own = [(what, "MSE", "MAE", "MASE", "CRPS", "inside"), *(row(name, figures) for name, figures in chosen)]
    beside = [(what, FIRST, *(short(name) for name in rivals))]
    for name, figures in chosen:
        all_mse = (figures[key] for key in ("mse", *rivals))
        beside.append((name, *("" if mse is None else f"{mse:.4f}" for mse in all_mse)))
    return [(f"by {what}", own), (f"MSE by {what}, beside the rivals", beside)]


def short(name: str) -> str:
    """ "mse, NLinear, least squares" → "NLinear": a heading."""
    return name.removeprefix("mse, ").split(",")[0].removeprefix("repeat the ").removesuffix(" value")


def steps_shown(horizon: int) -> list[int]:
    """1, 2, 4, 8 ... and the last, counted from 0."""
    return sorted({2**k - 1 for k in range(horizon.bit_length())} | {horizon - 1})
