"""The two sides of a comparison: a run of ours, and the same model in transformers.  Of sequences of tokens each gives
a row for every token or for each sequence, and what it writes when it always takes the likeliest."""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.search import generate
from regard.interop.families.family import WRITERS
from regard.interop.needs import need
from regard.nn.layout import Layout, Ragged
from regard.nn.linear import logits
from regard.runs.run import Run

Ids = Sequence[Sequence[int]]


class Compared(NamedTuple):
    """What is compared of a task: the class that transformers has for it, and on both sides a row for each token, or
    for each sequence."""

    made_by: str
    what: str
    ours: Callable[[Any, Tensor, Layout], Tensor]
    theirs: Callable[[Any], Tensor]
    of_sequences: bool = False


WRITER = Compared(
    "AutoModelForCausalLM",
    "logits",
    lambda model, tokens, layout: logits(model(tokens, layout), model.output_table),
    lambda answer: answer.logits,
)
COMPARED = {
    **dict.fromkeys(WRITERS, WRITER),
    "masked": Compared(
        "AutoModelForMaskedLM",
        "logits",
        lambda model, tokens, layout: model.word_logits(model(tokens, layout)),
        lambda answer: answer.logits,
    ),
    "permutation": Compared(  # read plainly: the order in which words are foretold is the task's, not the model's
        "XLNetLMHeadModel",
        "logits",
        lambda model, tokens, layout: logits(model.reader(tokens, layout), model.output_table, model.output_bias),
        lambda answer: answer.logits,
    ),
    "reading": Compared(
        "AutoModel",
        "hidden rows",
        lambda model, tokens, layout: model(tokens, layout),
        lambda answer: answer.last_hidden_state,
    ),
    "classification": Compared(
        "AutoModelForSequenceClassification",
        "logits of labels",
        lambda model, tokens, layout: model(tokens, layout),
        lambda answer: answer.logits[:, None],
        of_sequences=True,
    ),
    "tagging": Compared(
        "AutoModelForTokenClassification",
        "logits of tags",
        lambda model, tokens, layout: model(tokens, layout),
        lambda answer: answer.logits,
    ),
}


class Ours:
    def __init__(self, run: Run):
        self.model, self.tokenizer, self.device = run.model, run.tokenizer, run.device
        self.compared = COMPARED[run.recipe.kind]

    @torch.no_grad()
    def rows(self, inputs: Ids) -> list[Tensor]:
        """All sequences as one flat batch."""
        lengths = [1 if self.compared.of_sequences else len(ids) for ids in inputs]
        tokens, layout = flat(inputs, self.device)
        return list(self.compared.ours(self.model, tokens, layout).cpu().split(lengths))

    def segments(self, inputs: Ids) -> list[list[int]] | None:
        """The segment of each token, where the model tells them apart."""
        reader = self.model.reader
        if not getattr(reader.config, "n_segments", 0):
            return None
        found = reader.segments(*flat(inputs, self.device))
        return [part.tolist() for part in found.split([len(ids) for ids in inputs])]

    def greedy(self, prompts: Ids, length: int) -> list[list[int]]:
        config = DecodingConfig(length_ratio=0.0, extra_length=length)
        start, end = self.tokenizer.start_id, self.tokenizer.end_id
        found = generate(self.model, [list(ids) for ids in prompts], config, start, end)
        return [list(best.tokens) for (best,) in found]


class InTransformers:
    def __init__(self, folder: Path, ours: Ours):
        self.ours, self.compared = ours, ours.compared
        self.model = read_model(folder, self.compared.made_by)

    @torch.no_grad()
    def rows(self, inputs: Ids) -> list[Tensor]:
        """All sequences as one padded batch."""
        named = padded(inputs, self.ours.tokenizer.pad_id)
        segments = self.ours.segments(inputs)
        if segments is not None:
            named["token_type_ids"] = padded(segments, 0)["input_ids"]
        rows = self.compared.theirs(self.model(**named))
        return [row[: len(ids)] for row, ids in zip(rows, inputs, strict=True)]

    @torch.no_grad()
    def greedy(self, prompts: Ids, length: int) -> list[list[int]]:
        config = greedy_config(length, self.ours.tokenizer.end_id, self.ours.tokenizer.pad_id)
        found = []
        for ids in prompts:
            named = padded([ids], 0)
            written = self.model.generate(**named, generation_config=config)[0, len(ids) :].tolist()
            found.append(up_to(self.ours.tokenizer.end_id, written))
        return found


def flat(inputs: Ids, device: torch.device) -> tuple[Tensor, Ragged]:
    tokens = torch.tensor([token for ids in inputs for token in ids], device=device)
    return tokens, Ragged([len(ids) for ids in inputs], device)


def padded(inputs: Ids, pad: int) -> dict[str, Tensor]:
    longest = max(map(len, inputs))
    return {
        "input_ids": torch.tensor([[*ids, *[pad] * (longest - len(ids))] for ids in inputs]),
        "attention_mask": torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in inputs]),
    }


def up_to(end: int, ids: list[int]) -> list[int]:
    return ids[: ids.index(end)] if end in ids else ids


def greedy_config(length: int, end: int, pad: int, **more: Any) -> Any:
    """Nothing but the likeliest token: the folder's own wishes, such as a penalty, do not count."""
    return need("transformers").GenerationConfig(
        do_sample=False, num_beams=1, max_new_tokens=length, eos_token_id=end, pad_token_id=pad, **more
    )


def read_model(path: Path, made_by: str) -> Any:
    transformers = need("transformers")
    with quiet(transformers):
        model = getattr(transformers, made_by).from_pretrained(**found_at(path), dtype=torch.float32).eval()
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
