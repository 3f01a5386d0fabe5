"""Our side of a comparison.  Of sequences of tokens a side gives a row of numbers for each token, or for each
sequence, and what it writes when it always takes the likeliest token."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import tokenizers
import torch
from torch import Tensor

from regard.checks import expect
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.decoding.forced import score
from regard.evaluation.translation import bleu
from regard.interop.certifying.certificate import Finding, compare_ids
from regard.interop.certifying.samples import N_STRINGS, dev_set, strings
from regard.interop.families.settings import exchange_of
from regard.models.transformer import Transformer
from regard.nn.layout import Ragged
from regard.runs.run import Run
from regard.tasks.translation.batches import make_batch

LONGEST = 60  # tokens that are written
MOST_CHANGE = 0.1  # of BLEU, by the few sentences in which rounding decides
N_READ_AGAIN = 20  # lines whose translations are tokenized
MOST_PIECES = 1.3  # tokens for each that was written
TokenLists = Sequence[Sequence[int]]


class Side(Protocol):
    def rows(self, inputs: TokenLists) -> list[Tensor]: ...

    def greedy(self, prompts: TokenLists, length: int) -> list[list[int]]: ...


class AnsweringSide(Side, Protocol):
    """The other tool's side."""

    def answer(self, read: TokenLists, length: int) -> list[list[int]]:
        """`greedy` of what its tokenizer made of texts."""
        ...


class Ours:
    """A model that reads one sequence."""

    def __init__(self, run: Run):
        self.run, self.model, self.exchange = run, run.model, exchange_of(run.recipe)

    @torch.no_grad()
    def rows(self, inputs: TokenLists) -> list[Tensor]:
        """All sequences as one flat batch."""
        lengths = [1 if self.exchange.is_of_sequences else len(ids) for ids in inputs]
        return list(self.exchange.rows(self.model, *flat(inputs, self.run.device)).cpu().split(lengths))

    def greedy(self, prompts: TokenLists, length: int) -> list[list[int]]:
        config = DecodingConfig(length_ratio=0.0, extra_length=length)
        start, end = self.run.tokenizer.start_id, self.run.tokenizer.end_id
        hypotheses = self.run.engine.generate([list(ids) for ids in prompts], config, start, end)
        return [list(best.tokens) for (best,) in hypotheses]


class OurTranslator:
    """An input is a source, and the same backwards the target."""

    def __init__(self, run: Run):
        self.run, self.model, self.frame = run, expect(run.model, Transformer), run.task.frame

    @torch.no_grad()
    def rows(self, inputs: TokenLists) -> list[Tensor]:
        """The logits after each target token, all pairs as one flat batch."""
        sources, targets = [np.array(ids) for ids in inputs], [np.array(ids[::-1]) for ids in inputs]
        batch = make_batch(sources, targets, [""] * len(inputs), self.frame).to(self.run.device)
        hidden = self.model(batch.source, batch.source_layout, batch.target, batch.target_layout)
        return list(self.model.logits(hidden).cpu().split([len(ids) + 1 for ids in inputs]))

    def greedy(self, prompts: TokenLists, length: int) -> list[list[int]]:
        config = DecodingConfig(length_ratio=0.0, extra_length=length, never=self.run.recipe.decoding.never)
        sources = [self.frame.source(ids) for ids in prompts]
        hypotheses = generate(self.model, sources, config, self.frame.start, self.frame.end)
        return [list(best.tokens) for (best,) in hypotheses]


class OurScorer(OurTranslator):
    def rows(self, inputs: TokenLists) -> list[Tensor]:
        """The log-probabilities of each token of a target and of its end."""
        sources, targets = [self.frame.source(ids) for ids in inputs], [list(ids[::-1]) for ids in inputs]
        return [torch.tensor(row) for row in score(self.model, sources, targets, self.frame.start, self.frame.end)]


def flat(inputs: TokenLists, device: torch.device) -> tuple[Tensor, Ragged]:
    tokens = torch.tensor([token for ids in inputs for token in ids], device=device)
    return tokens, Ragged([len(ids) for ids in inputs], device)


def padded(inputs: TokenLists, pad: int) -> dict[str, Tensor]:
    longest = max(map(len, inputs))
    return {
        "input_ids": torch.tensor([[*ids, *[pad] * (longest - len(ids))] for ids in inputs]),
        "attention_mask": torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in inputs]),
    }


def up_to(end: int, ids: list[int]) -> list[int]:
    return ids[: ids.index(end)] if end in ids else ids


def compare_texts(ours: Side, theirs: Side, run: Run, folder: Path) -> list[Finding]:
    """What both write, if they write, and the tokenizer.json beside what was written for another tool."""
    exchange = exchange_of(run.recipe)
    findings = compare_written(ours, theirs, run) if exchange.translates or exchange.writes else []
    if not (folder / "tokenizer.json").is_file():
        return findings  # an imported folder has the tokenizer in files of its own
    library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    library.encode_special_tokens = True  # none is made of a text
    texts = strings(N_STRINGS)
    answers = [encoding.ids for encoding in library.encode_batch(texts, add_special_tokens=False)]
    of = f"{len(texts):,} strings"
    return [*findings, compare_ids("token sequences", run.tokenizer.encode_batch(texts), answers, of)]


def read_again(ours: Side, run: Run) -> tuple[str, ...]:
    """A note where a translator's own words are cut in another way than it writes them."""
    written = ours.greedy(sources_of(run, dev_set(run).sources[:N_READ_AGAIN]), room_of(run))
    again = run.tokenizer.of_targets.encode_batch(run.tokenizer.decode_batch(written))
    ratio = sum(map(len, again)) / max(1, sum(map(len, written)))
    if ratio <= MOST_PIECES:
        return ()
    return (
        f"this tokenizer cuts what the model writes into {ratio:.1f} times as many tokens as the model does, so the "
        "folder seems to lack the tokenizer of targets: translations are right, but `regard score` and further "
        "training read targets in pieces that the model hardly knows",
    )


def room_of(run: Run) -> int:
    return min(LONGEST, run.recipe.model.max_length // 2)


def sources_of(run: Run, lines: Sequence[str]) -> list[list[int]]:
    """Of a translator, as many of their tokens as it reads."""
    longest = min(run.recipe.data.max_length, run.model.max_length - run.task.frame.n_around)
    return [ids[:longest] for ids in run.tokenizer.encode_batch(lines)]


def compare_written(ours: Side, theirs: Side, run: Run) -> list[Finding]:
    """Token for token, and by the change of BLEU."""
    dev, exchange, room = dev_set(run), exchange_of(run.recipe), room_of(run)
    if exchange.translates:
        prompts = sources_of(run, dev.sources)
    else:
        prompts = [ids for ids in map(run.task.encode, dev.sources) if len(ids) <= room]
    written = [side.greedy(prompts, room) for side in (ours, theirs)]
    of = f"{len(prompts)} lines of {dev.name}, up to {room} tokens each"
    findings = [compare_ids("greedy outputs", written[0], written[1], of)]
    if dev.references:
        before, after = (
            bleu([run.tokenizer.decode(ids) for ids in side], dev.references, resamples=0).value for side in written
        )
        change = after - before
        findings.append(
            Finding(
                what=f"change of greedy BLEU, from {before:.2f}",
                value=change,
                wanted=f"at most {MOST_CHANGE:g} either way",
                holds=abs(change) <= MOST_CHANGE,
                of=of,
            )
        )
    return findings
