"""The other side of a comparison: the same model in transformers, which reads padded batches."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.interop.certifying.sides import Ids, flat, padded, up_to
from regard.interop.families.settings import exchange_of
from regard.interop.needs import need
from regard.runs.run import Run


class InTransformers:
    """A model that reads one sequence."""

    def __init__(self, folder: Path, run: Run):
        self.run, self.exchange = run, exchange_of(run.recipe)
        self.model = read_model(folder, self.exchange.loaded_by)

    @torch.no_grad()
    def rows(self, inputs: Ids) -> list[Tensor]:
        named = padded(inputs, self.run.tokenizer.pad_id)
        if self.run.recipe.model.n_segments:
            segments = self.run.model.reader.segments(*flat(inputs, self.run.device))
            parts = [part.tolist() for part in segments.split([len(ids) for ids in inputs])]
            named["token_type_ids"] = padded(parts, 0)["input_ids"]
        rows = self.model(**named)[self.exchange.answer]
        if self.exchange.is_of_sequences:
            return list(rows[:, None])
        return [row[: len(ids)] for row, ids in zip(rows, inputs, strict=True)]

    @torch.no_grad()
    def greedy(self, prompts: Ids, length: int) -> list[list[int]]:
        end = self.run.tokenizer.end_id
        config = greedy_config(length, end, self.run.tokenizer.pad_id)
        written = [self.model.generate(**padded([ids], 0), generation_config=config)[0, len(ids) :] for ids in prompts]
        return [up_to(end, ids.tolist()) for ids in written]


class TranslatorInTransformers:
    def __init__(self, folder: Path, run: Run):
        self.frame, self.pad_id, self.never = run.task.frame, run.tokenizer.pad_id, run.recipe.decoding.never
        self.model = read_model(folder, exchange_of(run.recipe).loaded_by)

    @torch.no_grad()
    def rows(self, inputs: Ids) -> list[Tensor]:
        targets = padded([[self.frame.start, *ids[::-1]] for ids in inputs], self.pad_id)  # nobody sees the padding
        rows = self.model(**self.sources(inputs), decoder_input_ids=targets["input_ids"]).logits
        return [row[: len(ids) + 1] for row, ids in zip(rows, inputs, strict=True)]

    @torch.no_grad()
    def greedy(self, prompts: Ids, length: int) -> list[list[int]]:
        config = greedy_config(length, self.frame.end, self.pad_id)
        config.decoder_start_token_id = self.frame.start
        config.suppress_tokens = list(self.never) or None
        written = self.model.generate(**self.sources(prompts), generation_config=config)[:, 1:].tolist()
        return [up_to(self.frame.end, ids) for ids in written]

    def sources(self, inputs: Ids) -> dict[str, Tensor]:
        return padded([self.frame.source(ids) for ids in inputs], self.pad_id)


def greedy_config(length: int, end: int, pad: int) -> Any:
    """Nothing but the likeliest token: the folder's own wishes, such as a penalty, do not count."""
    return need("transformers").GenerationConfig(
        do_sample=False, num_beams=1, max_new_tokens=length, eos_token_id=end, pad_token_id=pad
    )


def read_model(path: Path, loaded_by: str) -> Any:
    transformers = need("transformers")
    with quiet(transformers):
        model = getattr(transformers, loaded_by).from_pretrained(**found_at(path), dtype=torch.float32).eval()
    model.generation_config = transformers.GenerationConfig()  # else its forced tokens and penalties are written, too
    return model


def found_at(path: Path) -> dict[str, Any]:
    """How transformers is told of a folder, or of a GGUF file."""
    if path.is_file():
        return {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name, "local_files_only": True}
    return {"pretrained_model_name_or_path": path, "local_files_only": True}


@contextlib.contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Without its bars, and its remarks on weights that a class has no use for and on libraries that it would like."""
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers.logging.set_verbosity(before)
        transformers.logging.enable_progress_bar()
