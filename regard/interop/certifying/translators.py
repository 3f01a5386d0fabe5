"""The two sides of a comparison for models that read a source and write a target: a run of ours, and transformers'."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.search import generate
from regard.interop.certifying.certificate import Finding, compare_ids, compare_rows
from regard.interop.certifying.samples import random_tokens, sentences
from regard.interop.certifying.sides import Ids, greedy_config, padded, read_model, up_to
from regard.runs.run import Run
from regard.tasks.translation.batches import make_batch

N_RANDOM, N_SENTENCES, N_WRITTEN = 24, 24, 8
LONGEST = 48  # tokens of a random source
WRITTEN = 20  # tokens of a greedy target


class OurTranslator:
    """An input is a source, and the same backwards the target."""

    def __init__(self, run: Run):
        self.model, self.device, self.frame = run.model, run.device, run.frame
        self.pad_id, self.never = run.tokenizer.pad_id, run.recipe.decoding.never

    @torch.no_grad()
    def rows(self, inputs: Ids) -> list[Tensor]:
        """The logits behind each target token, all pairs as one flat batch."""
        sources, targets = [np.array(ids) for ids in inputs], [np.array(ids[::-1]) for ids in inputs]
        batch = make_batch(sources, targets, [""] * len(inputs), self.frame).to(self.device)
        hidden = self.model(batch.source, batch.source_layout, batch.target, batch.target_layout)
        return list(self.model.logits(hidden).cpu().split([len(ids) + 1 for ids in inputs]))

    def greedy(self, prompts: Ids, length: int) -> list[list[int]]:
        config = DecodingConfig(length_ratio=0.0, extra_length=length, never=self.never)
        sources = [self.frame.source(ids) for ids in prompts]
        found = generate(self.model, sources, config, self.frame.start, self.frame.end)
        return [list(best.tokens) for (best,) in found]


class TheirTranslator:
    """In padded batches."""

    def __init__(self, folder: Path, ours: OurTranslator):
        self.ours = ours
        self.model = read_model(folder, "AutoModelForSeq2SeqLM")

    @torch.no_grad()
    def rows(self, inputs: Ids) -> list[Tensor]:
        frame, pad = self.ours.frame, self.ours.pad_id
        targets = padded([[frame.start, *ids[::-1]] for ids in inputs], pad)[
            "input_ids"
        ]  # nobody sees what lies behind
        rows = self.model(**padded([frame.source(ids) for ids in inputs], pad), decoder_input_ids=targets).logits
        return [row[: len(ids) + 1] for row, ids in zip(rows, inputs, strict=True)]

    @torch.no_grad()
    def greedy(self, prompts: Ids, length: int) -> list[list[int]]:
        frame, pad = self.ours.frame, self.ours.pad_id
        config = greedy_config(length, frame.end, pad)
        config.decoder_start_token_id = frame.start
        config.suppress_tokens = list(self.ours.never) or None
        sources = padded([frame.source(ids) for ids in prompts], pad)
        written = self.model.generate(**sources, generation_config=config)[:, 1:].tolist()
        return [up_to(frame.end, ids) for ids in written]


def compare_translators(run: Run, folder: Path) -> list[Finding]:
    ours = OurTranslator(run)
    theirs = TheirTranslator(folder, ours)
    tokenizer, config = run.tokenizer, run.recipe.model
    longest = min(LONGEST, config.max_length - len(ours.frame.source([])))
    drawn = random_tokens(N_RANDOM, longest, config.vocab_size, without={tokenizer.pad_id, ours.frame.start})
    real = [ids[:longest] for ids in tokenizer.encode_batch(sentences(N_SENTENCES))]
    room = min(WRITTEN, config.max_length - 1)
    prompts = [*drawn[:N_WRITTEN], *real[:N_WRITTEN]]
    return [
        compare_rows(
            "logits", ours.rows(drawn), theirs.rows(drawn), f"{len(drawn)} random pairs of 1 to {longest} tokens"
        ),
        compare_rows("logits", ours.rows(real), theirs.rows(real), f"{len(real)} sentences"),
        compare_ids(
            "greedy outputs",
            ours.greedy(prompts, room),
            theirs.greedy(prompts, room),
            f"{room} tokens from each of {len(prompts)} sources",
        ),
    ]
