"""regard import: a model of another tool becomes a run; regard export: a run becomes a model of another tool."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import regard
from regard.choose import choose
from regard.commands.options import RunFolder
from regard.commands.progress import working
from regard.errors import ConfigError, MissingLibrary, RegardError

if TYPE_CHECKING:
    from regard.interop.certifying.certificate import Certificate
    from regard.runs.run import Run


def import_(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER|FILE",
            help="a transformers, timm or CTranslate2 folder, or a .gguf file",
        ),
    ],
    run: Annotated[Path, typer.Option("--run", help="the folder of the new run")],
    n_strings: Annotated[
        int, typer.Option("--strings", min=1, help="how many strings to compare the tokenizers on")
    ] = 10_000,
) -> None:
    """Make a run of a model of another tool, and certify that both give the same answers."""
    from regard.interop.certifying.image_tools import certify_vit
    from regard.interop.certifying.in_ctranslate2 import certify_ctranslate2
    from regard.interop.certifying.in_transformers import certify
    from regard.interop.families.settings import exchange_of
    from regard.interop.formats.from_ctranslate2 import CTranslate2Folder
    from regard.interop.importing import generation_of, import_source, open_source, tokenizer_of

    opened = open_source(source)
    tokenizer = tokenizer_of(opened)
    with undone_after_errors(run):
        with working(f"reading {source}"):
            recipe, left_out = import_source(opened, tokenizer, run)
        notes = generation_of(opened, recipe, tokenizer.end_id).notes
        if left_out:
            notes += (f"skipped (not used by this task): {', '.join(left_out)}",)
        for note in notes:
            print(note)
        try:
            ours = regard.load(run, "cpu")
            with working("comparing it with the original"):
                if opened.family.reads_images:
                    certificate = certify_vit(ours, source, opened.model_type, notes)
                elif opened.model_type == "ctranslate2":
                    theirs = CTranslate2Folder(source)
                    certificate = certify_ctranslate2(ours, theirs.folder, theirs.words, notes, is_export=False)
                else:
                    certificate = certify(ours, source, opened.model_type, notes, n_strings)
        except MissingLibrary as error:
            print(f"no certificate was written: {error}")
        else:
            print(certificate.text(), end="")
            if not certificate.holds:
                raise RegardError(
                    f"{source} would not be the same model here, as the certificate says; no run was written"
                )
            certificate.write(run)
    kind = exchange_of(recipe).head or "without a head"
    print(f"{source} is now the run {run}: a {opened.model_type} model, {kind}")


@contextmanager
def undone_after_errors(folder: Path) -> Iterator[None]:
    """What this writes into a folder is removed again if it ends in an error, or is interrupted."""
    before = set(folder.iterdir()) if folder.is_dir() else None
    try:
        yield
    except BaseException:
        for path in set(folder.iterdir()) - (before or set()) if folder.is_dir() else ():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if before is None and folder.is_dir():
            folder.rmdir()
        raise


def export(
    run: RunFolder,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="the new folder")],
    to: Annotated[str, typer.Option("--to", help="for which tool: hf (transformers), timm, onnx or ctranslate2")],
    family: Annotated[str | None, typer.Option(help="hf's model_type (default: the first that fits)")] = None,
) -> None:
    """Write a run as a folder of another tool, and certify that both give the same answers."""
    write = choose(TARGETS, to, "tool (--to)")
    if family is not None and to != "hf":
        raise ConfigError(f"--family is an option of --to hf, not of --to {to}")
    try:
        with working(f"writing {folder} and comparing it with {run}"):
            certificate = write(regard.load(run, "cpu"), folder, family)
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
    from regard.interop.certifying.image_tools import certify_vit
    from regard.interop.certifying.in_pipelines import certify_export
    from regard.interop.exporting import export_folder
    from regard.interop.families import FAMILIES

    exported = export_folder(run, folder, family)
    print(f"{run.folder} is now the folder {folder}: a {exported.family} model")
    certify = certify_vit if FAMILIES[exported.family].reads_images else certify_export
    return certify(run, folder, exported.family, exported.notes)


def to_timm(run: "Run", folder: Path, family: str | None) -> "Certificate":
    from regard.interop.certifying.image_tools import certify_vit
    from regard.interop.exporting import export_to_timm

    exported = export_to_timm(run, folder)
    print(f"{run.folder} is now the timm folder {folder}")
    return certify_vit(run, folder, exported.family, exported.notes)


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
    "timm": to_timm,
    "onnx": to_onnx,
    "ctranslate2": to_ctranslate2,
}
