"""regard embed: a vector for each line."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.commands.options import Device, InputFile, RunFolder


def embed(
    run: RunFolder,
    file: InputFile = None,
    pooling: Annotated[str, typer.Option(help="of a line's rows: mean, first, last or max")] = "mean",
    layer: Annotated[int | None, typer.Option(help="of ELMo: this layer, 0 being the embeddings")] = None,
    out: Annotated[Path | None, typer.Option(help="write all vectors to this .npy file instead")] = None,
    device: Device = None,
) -> None:
    """Make a vector of each line: N lines in, N vectors out, each a JSON list."""
    import numpy as np

    from regard.commands.lines import answered, read_lines
    from regard.errors import ConfigError
    from regard.runs.run import load

    if out is not None and out.suffix != ".npy":
        raise ConfigError(f"--out writes a NumPy file: its name must end in .npy, got {out}")
    loaded = load(run, device)
    loaded.check_can("embed")
    if out is not None:
        vectors = loaded.embed(list(read_lines(file)), pooling, layer)
        np.save(out, vectors)
        print(f"{len(vectors):,} vectors of {vectors.shape[1]:,} numbers in {out}")
        return
    for _, _, vector in answered(file, lambda lines: list(loaded.embed(lines, pooling, layer))):
        print(json.dumps([float(str(number)) for number in vector]))  # no more digits than float32 has
