"""regard forecast: what comes after a history, as a table and as a picture."""

from pathlib import Path
from typing import Annotated

import typer

import regard
from regard.commands.options import Device, Overwrite, RunFolder
from regard.commands.replacing import ask_before_replacing
from regard.errors import ConfigError


def forecast(
    run: RunFolder,
    history: Annotated[Path, typer.Argument(metavar="HISTORY", help="a table with times: CSV, TSV, JSONL or Parquet")],
    horizon: Annotated[
        int | None, typer.Option(min=1, help="steps ahead (default: all that the run forecasts)")
    ] = None,
    quantiles: Annotated[
        str | None, typer.Option(metavar="Q,Q...", help="such as 0.05,0.95 (default: those that the run has learned)")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="write the table here (default: standard output)")] = None,
    png: Annotated[Path | None, typer.Option(help="also draw history, forecast and bands")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="with --png: on dark paper")] = False,
    overwrite: Overwrite = False,
    device: Device = None,
) -> None:
    """Forecast the steps after a history: a CSV table with times, forecasts and their quantiles."""
    levels = None if quantiles is None else read_levels(quantiles)
    ask_before_replacing(out, png, overwrite=overwrite)
    loaded = regard.load(run, device)
    loaded.check_can("forecast")
    answer = loaded.forecast(str(history), horizon, levels)
    for note in answer.notes:
        typer.echo(note, err=True)
    if out is None:
        typer.echo(answer.csv(), nl=False)
    else:
        out.write_text(answer.csv(), encoding="utf-8")
        print(f"{out}: {answer.values.shape[1]} steps of {', '.join(answer.columns)}")
    if png is not None:
        from regard.viewer.bands import draw_forecast
        from regard.viewer.style import DARK, LIGHT

        draw_forecast(answer, png, DARK if dark else LIGHT)
        typer.echo(f"{png}: history, forecast and bands", err=True)


def read_levels(text: str) -> list[float]:
    try:
        return [float(level) for level in text.split(",")]
    except ValueError:
        raise ConfigError(f"--quantiles takes numbers such as 0.05,0.95; got {text[:60]!r}") from None
