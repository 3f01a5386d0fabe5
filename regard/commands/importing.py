"""regard import: a model of another tool becomes a run."""

from pathlib import Path
from typing import Annotated

import typer


def import_model(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="HF_FOLDER", help="config.json, safetensors and a tokenizer; a .gguf file; or CTranslate2's"
        ),
    ],
    run: Annotated[Path, typer.Option("--run", help="the folder of the new run")],
    n_strings: Annotated[
        int, typer.Option("--strings", min=1, help="on so many strings the tokenizers are compared")
    ] = 10_000,
) -> None:
    """Make a run of a model of another tool, and certify that both give the same answers."""
    from regard.errors import RegardError
    from regard.interop.certifying.in_other_tools import certify_ctranslate2
    from regard.interop.certifying.in_transformers import certify
    from regard.interop.families.family import TRANSLATORS, WRITERS
    from regard.interop.formats.from_ctranslate2 import model_folder, words_of
    from regard.interop.formats.sources import open_source, read_tokenizer
    from regard.interop.importing import import_source, unheeded
    from regard.interop.needs import MissingLibrary
    from regard.runs.run import load

    opened = open_source(source)
    tokenizer = read_tokenizer(opened)
    recipe, left_out = import_source(opened, tokenizer, run)
    print(f"{source} is now the run {run}: a {opened.model_type} model, task {recipe.kind}")
    notes = unheeded(opened, tokenizer) if recipe.kind in (*WRITERS, *TRANSLATORS) else ()
    if left_out:
        notes += (f"left out, because only other tasks read it: {', '.join(left_out)}",)
    for note in notes:
        print(note)
    try:
        if opened.model_type == "ctranslate2":
            certificate = certify_ctranslate2(load(run, "cpu"), model_folder(source), words_of(source))
        else:
            certificate = certify(load(run, "cpu"), source, opened.model_type, notes, n_strings)
    except MissingLibrary as error:
        print(f"no certificate was written: {error}")
        return
    certificate.write(run)
    print(certificate.text(), end="")
    if not certificate.holds:
        raise RegardError(f"{run} is not the same model: see {run / 'certificate.txt'}; do not rely on it")
