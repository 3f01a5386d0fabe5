"""A run as ONNX graphs: of padded tokens (B, T) and the length of each sequence (B).

A reader is one graph, model.onnx; a translator two, encoder.onnx and decoder.onnx, which runs once for every token.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.checks import expect
from regard.errors import RegardError, need
from regard.interop.families.settings import exchange_of
from regard.interop.formats.tokenizer_files import write_framed
from regard.models import ARCHITECTURES
from regard.models.transformer import Transformer
from regard.nn.layout import Rectangle
from regard.nn.scores import SCORES
from regard.nn.sight import causal
from regard.runs.run import Run


class ReaderGraph(nn.Module):
    """The rows of a run: one for each token, or for each sequence."""

    def __init__(self, run: Run):
        super().__init__()
        self.model, self.rows = run.model, exchange_of(run.recipe).rows

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return self.rows(self.model, tokens, Rectangle(lengths, tokens.shape[1]))


class EncoderGraph(nn.Module):
    def __init__(self, model: Transformer):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, lengths: Tensor) -> Tensor:
        """(B, S, D): what the decoder looks at."""
        return self.model.encode(source, Rectangle(lengths, source.shape[1]))


class DecoderGraph(nn.Module):
    def __init__(self, model: Transformer):
        super().__init__()
        self.model = model

    def forward(self, memory: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """The logits after every target token (B, T, V); `lengths` are those of the sources."""
        model, across = self.model, Rectangle(lengths, memory.shape[1])
        layout = Rectangle(torch.ones_like(lengths) * target.shape[1], target.shape[1], is_full=True)
        x = model.embed_target(target, layout)
        for block in model.decoder:
            x = block(x, layout, causal, memory=block.cross_attention.remember(memory, across), across=layout)
        return model.logits(model.decoder_norm(x))


def write_graphs(run: Run, folder: Path) -> None:
    """The graphs and the tokenizer."""
    for name in ("onnx", "onnxscript"):
        need(name)
    recipe, exchange = run.recipe, exchange_of(run.recipe)
    if not recipe.model_class.is_exportable:
        fitting = ", ".join(sorted(name for name, row in ARCHITECTURES.items() if row.module.is_exportable))
        raise RegardError(f"{run.folder} is a {recipe.architecture}; ONNX graphs are made of {fitting}")
    if SCORES[recipe.model.score].scale is None:
        raise RegardError(f"ONNX graphs are made of scores that are products; this run has {recipe.model.score!r}")
    folder.mkdir(parents=True, exist_ok=True)
    tokens, lengths = torch.ones(2, 3, dtype=torch.long), torch.tensor([3, 2])
    if exchange.translates:
        model = expect(run.model, Transformer)
        memory, target = torch.zeros(2, 3, recipe.model.d_model), torch.ones(2, 4, dtype=torch.long)
        trace(EncoderGraph(model), {"source": tokens, "lengths": lengths}, "memory", folder / "encoder.onnx")
        inputs = {"memory": memory, "lengths": lengths, "target": target}
        trace(DecoderGraph(model), inputs, "logits", folder / "decoder.onnx")
    else:
        trace(ReaderGraph(run), {"tokens": tokens, "lengths": lengths}, "rows", folder / "model.onnx")
    write_framed(run, folder)


def trace(graph: nn.Module, inputs: dict[str, Tensor], output: str, path: Path) -> None:
    """For batches of any size and sequences of any length; a target may be longer or shorter than its source."""
    batch, time, written = map(torch.export.Dim, ("batch", "time", "written"))
    dims = {"lengths": {0: batch}, "target": {0: batch, 1: written}}
    with quiet():
        program = torch.onnx.export(
            graph.eval(),
            kwargs=inputs,
            dynamic_shapes={name: dims.get(name, {0: batch, 1: time}) for name in inputs},
            input_names=list(inputs),
            output_names=[output],
            dynamo=True,
            verbose=False,
        )
        assert program is not None  # dynamo makes one
        program.save(path)


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings about missing libraries and about the exporter's own use of PyTorch."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
