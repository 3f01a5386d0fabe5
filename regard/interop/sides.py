"""The two sides of a certificate: a run of ours, and the same model in transformers."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.search import generate
from regard.errors import RegardError
from regard.nn.layout import Layout, Ragged
from regard.nn.linear import logits
from regard.run import Run


class Compared(NamedTuple):
    """What is compared of a task: the class that transformers has for it, and on both sides a row for each token."""

    made_by: str
    what: str
    ours: Callable[[Any, Tensor, Layout], Tensor]
    theirs: Callable[[Any], Tensor]
    writes: bool = False  # whether greedy texts are compared too


COMPARED = {
    "language": Compared(
        "AutoModelForCausalLM",
        "logits",
        lambda model, tokens, layout: logits(model(tokens, layout), model.output_table),
        lambda answer: answer.logits,
        writes=True,
    ),
    "masked": Compared(
        "AutoModelForMaskedLM",
        "logits",
        lambda model, tokens, layout: model.word_logits(model(tokens, layout)),
        lambda answer: answer.logits,
    ),
    "reading": Compared(
        "AutoModel",
        "hidden rows",
        lambda model, tokens, layout: model(tokens, layout),
        lambda answer: answer.last_hidden_state,
    ),
}


class Ours:
    def __init__(self, run: Run):
        self.model, self.tokenizer, self.device = run.model, run.tokenizer, run.device
        self.compared = COMPARED[run.recipe.kind]

    @torch.no_grad()
    def rows(self, inputs: Sequence[Sequence[int]]) -> list[Tensor]:
        """All sequences as one flat batch."""
        layout = Ragged([len(ids) for ids in inputs], self.device)
        tokens = torch.tensor([token for ids in inputs for token in ids], device=self.device)
        rows = self.compared.ours(self.model, tokens, layout).cpu()
        return list(rows.split([len(ids) for ids in inputs]))

    def segments(self, ids: Sequence[int]) -> list[int] | None:
        """The segment of each token, where the model tells them apart."""
        reader = self.model.reader
        if getattr(reader, "segment", None) is None:
            return None
        tokens = torch.tensor(list(ids), device=self.device)
        found: list[int] = reader.segments(tokens, Ragged([len(ids)], self.device)).tolist()
        return found

    def greedy(self, prompts: Sequence[Sequence[int]], length: int) -> list[list[int]]:
        config = DecodingConfig(length_ratio=0.0, extra_length=length)
        start, end = self.tokenizer.start_id, self.tokenizer.end_id
        found = generate(self.model, [list(ids) for ids in prompts], config, start, end)
        return [best.tokens for (best,) in found]


class Theirs:
    """`read` are further words for `from_pretrained`, such as the name of a file."""

    def __init__(self, folder: Path, ours: Ours, gguf: str | None = None):
        transformers = need_transformers()
        self.ours, self.compared = ours, ours.compared
        made_by = getattr(transformers, self.compared.made_by)
        with quiet(transformers):
            self.model = made_by.from_pretrained(
                folder, gguf_file=gguf, local_files_only=True, trust_remote_code=False, dtype=torch.float32
            ).eval()

    @torch.no_grad()
    def rows(self, inputs: Sequence[Sequence[int]]) -> list[Tensor]:
        """All sequences as one padded batch."""
        longest, pad = max(map(len, inputs)), self.ours.tokenizer.pad_id
        padded = [[*ids, *[pad] * (longest - len(ids))] for ids in inputs]
        seen = [[1] * len(ids) + [0] * (longest - len(ids)) for ids in inputs]
        named = {"input_ids": torch.tensor(padded), "attention_mask": torch.tensor(seen)}
        segments = [self.ours.segments(ids) for ids in inputs]
        if segments[0] is not None:
            named["token_type_ids"] = torch.tensor([[*(s or []), *[0] * (longest - len(s or []))] for s in segments])
        rows = self.compared.theirs(self.model(**named))
        return [row[: len(ids)] for row, ids in zip(rows, inputs, strict=True)]

    @torch.no_grad()
    def greedy(self, prompts: Sequence[Sequence[int]], length: int) -> list[list[int]]:
        transformers = need_transformers()
        end, pad = self.ours.tokenizer.end_id, self.ours.tokenizer.pad_id
        config = transformers.GenerationConfig(
            do_sample=False, num_beams=1, max_new_tokens=length, eos_token_id=end, pad_token_id=pad
        )
        found = []
        for ids in prompts:
            tokens = torch.tensor([list(ids)])
            written = self.model.generate(tokens, attention_mask=torch.ones_like(tokens), generation_config=config)
            new = written[0, len(ids) :].tolist()
            found.append(new[: new.index(end)] if end in new else new)
        return found


def need_transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise RegardError("to compare with transformers, it must be there: pip install 'regard[exchange]'") from None
    return transformers


@contextlib.contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Without its bars and its remarks on weights that a class has no use for."""
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(before)
        transformers.logging.enable_progress_bar()
