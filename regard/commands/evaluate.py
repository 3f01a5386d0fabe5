"""regard evaluate, regard point: figures with their settings; regard bench: side by side with the peers."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

import regard
from regard.commands.lines import print_table
from regard.commands.options import Decoding, Device, RunFolder, decoding_settings
from regard.commands.progress import working
from regard.decoding.config import DecodingConfig
from regard.errors import ConfigError, RegardError, RunError

if TYPE_CHECKING:
    from regard.evaluation.measured import Measured, Versus
    from regard.runs.run import Run

DECODED = {"translate", "caption"}  # verbs whose answers are what is measured
ONLY_CLASSIFIERS = "--picture draws the confusion matrix of one classifier"


def evaluate(
    paths: Annotated[list[Path], typer.Argument(metavar="RUN [RUN] [FILE]...", help="one or two runs; test files")],
    set_: Decoding = None,
    root: Annotated[str | None, typer.Option(help="folder of the data (default: the recipe's data.root)")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    outputs: Annotated[
        Path | None, typer.Option(help="write all outputs here; with two runs, to OUTPUTS.RUN-NAME")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="of a classifier: also draw its confusion matrix, PNG")] = None,
    device: Device = None,
) -> None:
    """The figures of a run on its test set, or on given files; two runs side by side.

    With --set weights=int8, which is faster and changes some answers, both float32 and int8 are measured and compared.
    """
    from regard.learning.device import choose_device
    from regard.learning.distribution import DistributionConfig
    from regard.processes import Sharing, joined, local_rank, n_started, sharing

    for path in paths:
        if not path.exists():
            raise RunError(f"{path} does not exist; give a run folder or a test file")
    on = choose_device(device, local_rank())
    runs = [regard.load(path, str(on)) for path in paths if not path.is_file()]
    files = [path for path in paths if path.is_file()]
    if len(runs) not in (1, 2):
        raise ConfigError(f"evaluate takes one or two runs, got {len(runs)}")
    for run in runs:
        if set_ and not DECODED & set(run.verbs):
            raise ConfigError(
                f"--set changes how translations and captions are decoded; {run.folder} {run.task.purpose}"
            )
        if outputs is not None and not run.task.has_outputs:
            raise ConfigError(f"--outputs writes translations, captions or labels; {run.folder} {run.task.purpose}")
    decodings = [decoding_settings(run, set_ or []) for run in runs]
    if len(runs) == 1 and decodings[0] != decodings[0].exact:
        return show_price(runs[0], files, root, decodings[0], as_json, outputs)
    if len(runs) == 1:
        with (
            working(f"measuring {runs[0].folder}"),
            joined(on, DistributionConfig().timeout) as processes,
            sharing(Sharing(processes, processes.n)),
        ):
            measured = runs[0].measure(files, root, decodings[0])
            is_leader = processes.is_leader
        if not is_leader:
            return
        if picture is not None:
            if measured.draw is None:
                raise ConfigError(ONLY_CLASSIFIERS)
            measured.draw(picture)
        write_outputs(measured, outputs)
        return show_figures(runs[0], measured, as_json)
    if n_started() > 1:
        raise ConfigError("several processes evaluate one run: compare two without torchrun")
    if picture is not None:
        raise ConfigError(ONLY_CLASSIFIERS)
    names = [run.folder.name for run in runs]
    if outputs is not None and names[0] == names[1]:
        raise ConfigError(
            f"--outputs {outputs} would write the outputs of {runs[0].folder} and {runs[1].folder}, which have one "
            f"name, to one file, {outputs.name}.{names[0]}; evaluate one run at a time, or rename a folder"
        )
    with working(f"measuring {runs[0].folder} and {runs[1].folder}"):
        versus = runs[0].versus(runs[1], files, root, (decodings[0], decodings[1]))
    for name, side in zip(names, versus.sides, strict=False):
        write_outputs(side, outputs and outputs.with_name(f"{outputs.name}.{name}"))
    show_comparison(runs, versus, as_json)


def point(
    run: RunFolder,
    boxes: Annotated[Path, typer.Argument(help="JSON lines with the objects of every image")],
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", help="test files")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    device: Device = None,
) -> None:
    """Measure how often attention points at what a noun of a caption names."""
    captioner = regard.load(run, device)
    with working(f"measuring where {run} looks"):
        measured = captioner.point(str(boxes), [str(file) for file in files or ()])
    show_figures(captioner, measured, as_json)


def show_figures(run: "Run", measured: "Measured", as_json: bool) -> None:
    print_lines(measured.remarks, sys.stderr)
    if not as_json:
        return print_figures(run, measured)
    record = record_of(run, measured.record)  # where two runs can be compared, one is a list of one
    print_json({"runs": [record], "paired": []} if measured.is_compared else record)


def show_price(
    run: "Run", files: list[Path], root: str | None, decoding: DecodingConfig, as_json: bool, outputs: Path | None
) -> None:
    """What decoding costs in quality that trades answers for speed: the run without it and with it."""
    exact = decoding.exact
    changed = [name for name, value in vars(exact).items() if vars(decoding)[name] != value]
    with working(f"measuring {run.folder} with and without {', '.join(changed)}"):
        versus = run.versus(run, files, root, (exact, decoding))
    write_outputs(versus.sides[1], outputs)
    names = [", ".join(f"{name}={vars(way)[name]}" for name in changed) for way in (exact, decoding)]
    show_comparison([run, run], versus, as_json, names)


def show_comparison(runs: "list[Run]", versus: "Versus", as_json: bool, names: list[str] | None = None) -> None:
    """`names` say what each side is, where the folders of the runs do not."""
    for side in versus.sides[:1]:
        print_lines(side.remarks, sys.stderr)  # both read the same files
    if as_json:
        records = [record_of(run, record) for run, record in zip(runs, versus.records, strict=True)]
        return print_json({"runs": records, **versus.record})
    for run, side in zip(runs, versus.sides, strict=False):
        print_figures(run, side)
    shown = dict(zip(("first", "second"), names or [run.folder.name for run in runs], strict=True))
    for title, (headings, *rows) in versus.tables:
        print_table([shown.get(cell, cell) for cell in headings], rows, title, are_numbers=True)
    print_lines(versus.footing)


def record_of(run: "Run", figures: dict[str, object]) -> dict[str, object]:
    return {"run": str(run.folder), "weights": run.weights, **figures}


def print_json(record: dict[str, object]) -> None:
    print(json.dumps(record, ensure_ascii=False, indent=2))


def print_lines(lines: Sequence[str], stream: TextIO | None = None) -> None:
    for line in lines:
        print(line, file=stream)


def print_figures(run: "Run", measured: "Measured") -> None:
    print_lines([f"{run.folder} ({run.weights}): {measured.of}", *measured.heading])
    for title, (headings, *rows) in measured.tables:
        print_table(headings, rows, title, are_numbers=True)
    print_lines(measured.footing)


def write_outputs(measured: "Measured", path: Path | None) -> None:
    if path is not None:
        lines = (text.replace("\n", " ") + "\n" for text in measured.outputs)
        path.write_text("".join(lines), encoding="utf-8")


def bench(
    name: Annotated[str | None, typer.Argument(help="such as training or decoding; a wrong name lists them")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda (default: a GPU if there is one)")] = None,
    json_: Annotated[Path | None, typer.Option("--json", help="also write the figures to this file")] = None,
    picture: Annotated[Path | None, typer.Option(help="draw it into this PNG, where it can be drawn")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="number of timed rounds for each contender")] = None,
    tiny: Annotated[bool, typer.Option("--tiny", help="toy sizes, to see that everything runs")] = False,
) -> None:
    """Measure regard side by side with its peers, as ratios, and its parts side by side with each other."""
    checkout = Path(__file__).parents[2]
    if not (checkout / "bench" / "__main__.py").exists():
        raise RegardError(
            f"the benches are not installed with the package (no {checkout / 'bench'}); "
            "clone the repository and run `make bench` there"
        )
    files = {"--json": json_ and json_.resolve(), "--picture": picture and picture.resolve()}
    options = {"--device": device, "--rounds": rounds, **files}
    given = [str(part) for option, value in options.items() if value is not None for part in (option, value)]
    command = [sys.executable, "-m", "bench", *([name] if name else []), *given, *(["--tiny"] if tiny else [])]
    raise typer.Exit(subprocess.run(command, cwd=checkout).returncode)
