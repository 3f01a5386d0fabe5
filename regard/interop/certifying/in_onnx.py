"""Our run, and its graphs that onnxruntime runs, on the same inputs."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import need
from regard.interop.certifying.certificate import Certificate, Finding, compare_rows, issue
from regard.interop.certifying.samples import random_tokens, special
from regard.interop.certifying.sides import (
    AnsweringSide,
    Ours,
    OurTranslator,
    Side,
    TokenLists,
    compare_texts,
    padded,
    up_to,
)
from regard.interop.certifying.texts import compare_by_file, left_to_callers
from regard.interop.families.settings import exchange_of
from regard.runs.run import Run

SHAPES = ((1, 1), (1, 7), (5, 1), (3, 12), (2, 33))  # sequences and the longest of them


def certify_onnx(run: Run, folder: Path, notes: tuple[str, ...] = ()) -> Certificate:
    """At several shapes, some sequences shorter than the longest; and what is written of some sentences."""
    exchange, config = exchange_of(run.recipe), run.recipe.model
    ours: Side = OurTranslator(run) if exchange.translates else Ours(run)
    graphs: AnsweringSide = OnnxTranslator(folder, run) if exchange.translates else OnnxReader(folder, run)
    findings: list[Finding] = []
    for n, longest in SHAPES:
        length = longest - exchange.translates
        room = min(length, config.max_length - 2)
        inputs = random_tokens(n, room, config.vocab_size, without=special(run), seed=n * length, first=())
        findings.append(compare_rows(exchange.compared, ours.rows(inputs), graphs.rows(inputs), f"{n} × {longest}"))
    findings += compare_texts(ours, graphs, run, folder)
    findings += compare_by_file(graphs, run, folder, frames=True)
    notes += left_to_callers(run)
    return issue(run.folder, folder, "onnx", findings, ("onnx", "onnxruntime"), notes)


class OnnxReader:
    def __init__(self, folder: Path, run: Run):
        self.graph, self.end_id = session(folder / "model.onnx"), run.tokenizer.end_id
        self.is_of_sequences = exchange_of(run.recipe).is_of_sequences

    def rows(self, inputs: TokenLists) -> list[Tensor]:
        rows = run_graph(self.graph, **rectangle("tokens", inputs))
        if self.is_of_sequences:
            return [row[None] for row in rows]
        return [row[: len(ids)] for row, ids in zip(rows, inputs, strict=True)]

    def greedy(self, prompts: TokenLists, length: int) -> list[list[int]]:
        """The graph reads all that was written, once for every token."""
        written = [list(ids) for ids in prompts]
        running = list(range(len(written)))
        for _ in range(length):
            last = self.rows([written[i] for i in running])
            for i, row in zip(running, last, strict=True):
                written[i].append(int(row[-1].argmax()))
            running = [i for i in running if written[i][-1] != self.end_id]
            if not running:
                break
        return [up_to(self.end_id, ids[len(prompt) :]) for ids, prompt in zip(written, prompts, strict=True)]

    answer = greedy


class OnnxTranslator:
    def __init__(self, folder: Path, run: Run):
        self.frame, self.never = run.task.frame, run.recipe.decoding.never
        self.encoder, self.decoder = session(folder / "encoder.onnx"), session(folder / "decoder.onnx")

    def rows(self, inputs: TokenLists) -> list[Tensor]:
        targets = padded([[self.frame.start, *ids[::-1]] for ids in inputs], self.frame.end)["input_ids"]
        sources = self.encode([self.frame.source(ids) for ids in inputs])
        rows = run_graph(self.decoder, **sources, target=targets.numpy())
        return [row[: len(ids) + 1] for row, ids in zip(rows, inputs, strict=True)]

    def greedy(self, prompts: TokenLists, length: int) -> list[list[int]]:
        return self.answer([self.frame.source(ids) for ids in prompts], length)

    def answer(self, read: TokenLists, length: int) -> list[list[int]]:
        """The decoder reads all that was written, once for every token."""
        frame, sources = self.frame, self.encode(read)
        written = np.full((len(read), 1), frame.start, np.int64)
        for _ in range(length):
            last = run_graph(self.decoder, **sources, target=written)[:, -1]
            last[:, list(self.never)] = -torch.inf
            written = np.concatenate([written, last.argmax(-1, keepdim=True).numpy()], 1)
            if (written == frame.end).any(1).all():
                break
        return [up_to(frame.end, ids) for ids in written[:, 1:].tolist()]

    def encode(self, read: TokenLists) -> dict[str, np.ndarray]:
        named = rectangle("source", read)
        return {"memory": run_graph(self.encoder, **named).numpy(), "lengths": named["lengths"]}


def rectangle(name: str, inputs: TokenLists) -> dict[str, np.ndarray]:
    return {name: padded(inputs, 0)["input_ids"].numpy(), "lengths": np.array([len(ids) for ids in inputs])}


def session(path: Path) -> Any:
    return need("onnxruntime").InferenceSession(path, providers=["CPUExecutionProvider"])


def run_graph(graph: Any, **inputs: np.ndarray) -> Tensor:
    (output,) = graph.run(None, inputs)
    return torch.from_numpy(output)
