"""regard export: a run becomes a model of another tool."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.options import RunFolder
from regard.errors import ConfigError, MissingLibrary, RegardError

if TYPE_CHECKING:
    from regard.interop.certifying.certificate import Certificate
    from regard.runs.run import Run


def export(
    run: RunFolder,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="the new folder")],
    to: Annotated[str, typer.Option("--to", help="for which tool: hf (transformers), onnx or ctranslate2")],
    family: Annotated[str | None, typer.Option(help="hf's model_type (default: the first that fits)")] = None,
) -> None:
    """Write a run as a folder of another tool, and certify that both give the same answers."""
    from regard.choose import choose
    from regard.runs.run import load

    write = choose(TARGETS, to, "tool (--to)")
    if family is not None and to != "hf":
        raise ConfigError(f"--family is an option of --to hf, not of --to {to}")
    try:
        certificate = write(load(run, "cpu"), folder, family)
    except MissingLibrary as error:
        if not folder.exists():  # nothing could be written
            raise
        print(f"no certificate was written: {error}")
        return
    hand_over(certificate, folder)


def hand_over(certificate: "Certificate", folder: Path) -> None:
    """Write the certificate beside the model and print it.  An error if it does not hold."""
    certificate.write(folder)
    print(certificate.text(), end="")
    if not certificate.holds:
        raise RegardError(f"{folder} is not the same model: see {folder / 'certificate.txt'}; do not rely on it")


def to_transformers(run: "Run", folder: Path, family: str | None) -> "Certificate":
    from regard.interop.certifying.in_pipelines import certify_export
    from regard.interop.exporting import export_folder

    exported = export_folder(run, folder, family)
    print(f"{run.folder} is now the folder {folder}: a {exported.family} model")
    return certify_export(run, folder, exported.family, exported.notes)


def to_onnx(run: "Run", folder: Path, family: str | None) -> "Certificate":
    from regard.interop.certifying.in_onnx import certify_onnx
    from regard.interop.exporting import refuse_full
    from regard.interop.formats.to_onnx import write_graphs
    from regard.interop.formats.tokenizer_files import IN_A_FILE

    refuse_full(folder)
    write_graphs(run, folder)
    print(f"{run.folder} is now ONNX graphs in {folder}")
    return certify_onnx(run, folder, (IN_A_FILE,))


def to_ctranslate2(run: "Run", folder: Path, family: str | None) -> "Certificate":
    from regard.interop.certifying.in_ctranslate2 import certify_ctranslate2
    from regard.interop.exporting import refuse_full
    from regard.interop.formats.to_ctranslate2 import write_folder
    from regard.interop.formats.tokenizer_files import IN_A_FILE

    refuse_full(folder)
    names = write_folder(run, folder)
    print(f"{run.folder} is now a CTranslate2 model in {folder}")
    return certify_ctranslate2(run, folder, names, (IN_A_FILE,))


TARGETS: dict[str, Callable[["Run", Path, str | None], "Certificate"]] = {
    "hf": to_transformers,
    "onnx": to_onnx,
    "ctranslate2": to_ctranslate2,
}
