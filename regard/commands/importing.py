"""regard import: a model of another tool becomes a run."""

from pathlib import Path
from typing import Annotated

import typer

from regard.commands.export import hand_over
from regard.errors import MissingLibrary


def import_model(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER|FILE",
            help="config.json, safetensors and a tokenizer; a .gguf file; or a CTranslate2 folder",
        ),
    ],
    run: Annotated[Path, typer.Option("--run", help="the folder of the new run")],
    n_strings: Annotated[
        int, typer.Option("--strings", min=1, help="how many strings to compare the tokenizers on")
    ] = 10_000,
) -> None:
    """Make a run of a model of another tool, and certify that both give the same answers."""
    from regard.interop.certifying.in_ctranslate2 import certify_ctranslate2
    from regard.interop.certifying.in_transformers import certify
    from regard.interop.families.settings import exchange_of
    from regard.interop.formats.from_ctranslate2 import CTranslate2Folder
    from regard.interop.importing import generation_of, import_source, open_source
    from regard.runs.run import load
    from regard.text.tokenizer import Tokenizer

    opened = open_source(source)
    tokenizer = Tokenizer.load(source)
    recipe, left_out = import_source(opened, tokenizer, run)
    exchange = exchange_of(recipe)
    kind = exchange.head or "without a head"
    print(f"{source} is now the run {run}: a {opened.model_type} model, {kind}")
    notes = generation_of(opened, recipe, tokenizer.end_id).notes
    if left_out:
        notes += (f"skipped (not used by this task): {', '.join(left_out)}",)
    for note in notes:
        print(note)
    try:
        if opened.model_type == "ctranslate2":
            theirs = CTranslate2Folder(source)
            certificate = certify_ctranslate2(load(run, "cpu"), theirs.folder, theirs.words, notes, is_export=False)
        else:
            certificate = certify(load(run, "cpu"), source, opened.model_type, notes, n_strings)
    except MissingLibrary as error:
        print(f"no certificate was written: {error}")
        return
    hand_over(certificate, run)
