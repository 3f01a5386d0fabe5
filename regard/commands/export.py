"""regard export: a run becomes a model of another tool."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.text import RunFolder

if TYPE_CHECKING:
    from regard.interop.certificate import Certificate
    from regard.run import Run


def export(
    run: RunFolder,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="the new folder")],
    to: Annotated[str, typer.Option("--to", help="for which tool: hf (transformers)")],
    family: Annotated[
        str | None, typer.Option(help="of hf: write it as this model_type (default: the first that fits)")
    ] = None,
) -> None:
    """Write a run as a folder of another tool, and certify that both give the same answers."""
    from regard.choose import choose
    from regard.errors import ConfigError, RegardError
    from regard.run import load

    write = choose(TARGETS, to, "tool (--to)")
    if family is not None and to != "hf":
        raise ConfigError(f"--family is a word of --to hf, and this is --to {to}")
    certificate = write(load(run, "cpu"), folder, family)
    if certificate is None:
        return
    certificate.write(folder)
    print(certificate.text(), end="")
    if not certificate.holds:
        raise RegardError(f"{folder} is not the same model: see {folder / 'certificate.txt'}; do not rely on it")


def to_transformers(run: "Run", folder: Path, family: str | None) -> "Certificate | None":
    from regard.errors import RegardError
    from regard.interop.certify import certify
    from regard.interop.exporting import export_folder
    from regard.interop.sides import need_transformers

    family = export_folder(run, folder, family)
    print(f"{run.folder} is now the folder {folder}: a {family} model")
    try:
        need_transformers()
    except RegardError as error:
        print(f"no certificate was written: {error}")
        return None
    return certify(run, folder, family)


TARGETS: dict[str, Callable[["Run", Path, str | None], "Certificate | None"]] = {
    "hf": to_transformers,
}
