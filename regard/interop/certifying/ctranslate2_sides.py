"""The other side of a comparison: a folder that CTranslate2 runs, in float32."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.decoding.forced import score
from regard.interop.certifying.sides import Ids, Ours
from regard.interop.certifying.translators import OurTranslator
from regard.interop.needs import need

BATCH = 16  # sequences at once


class CTranslate2Translator:
    """`names` are the tokens as CTranslate2 knows them, by our ids."""

    def __init__(self, folder: Path, ours: OurTranslator, names: Sequence[str]):
        self.ours, self.names, self.ids = ours, list(names), {name: n for n, name in enumerate(names)}
        self.model = need("ctranslate2").Translator(str(folder), compute_type="float32")

    def log_probs(self, inputs: Ids) -> list[Tensor]:
        """Of each token of a target (the source backwards) and of its end."""
        sources, targets = self.said(inputs), self.said([ids[::-1] for ids in inputs])
        return [torch.tensor(found.log_probs) for found in self.model.score_batch(sources, targets)]

    def greedy(self, prompts: Ids, length: int) -> list[list[int]]:
        found = self.model.translate_batch(
            self.said(prompts),
            beam_size=1,
            min_decoding_length=0,
            max_decoding_length=length,
            max_input_length=0,
            max_batch_size=BATCH,
            suppress_sequences=[[self.names[n]] for n in self.ours.never] or None,
        )
        return [[self.ids[token] for token in result.hypotheses[0]] for result in found]

    def said(self, inputs: Ids) -> list[list[str]]:
        return [[self.names[n] for n in ids] for ids in inputs]


def our_log_probs(ours: OurTranslator, inputs: Ids) -> list[Tensor]:
    sources, targets = [ours.frame.source(ids) for ids in inputs], [list(ids[::-1]) for ids in inputs]
    return [torch.tensor(found) for found in score(ours.model, sources, targets, ours.frame.start, ours.frame.end)]


class CTranslate2Writer:
    def __init__(self, folder: Path, ours: Ours, names: Sequence[str]):
        self.ours, self.names = ours, list(names)
        self.model = need("ctranslate2").Generator(str(folder), compute_type="float32")

    def rows(self, inputs: Ids) -> list[Tensor]:
        """The logits behind each token."""
        rows = [np.array(self.model.forward_batch([[self.names[n] for n in ids]])) for ids in inputs]
        return [torch.from_numpy(row[0]) for row in rows]

    def greedy(self, prompts: Ids, length: int) -> list[list[int]]:
        found = self.model.generate_batch(
            [[self.names[n] for n in ids] for ids in prompts],
            max_length=length,
            min_length=0,
            sampling_topk=1,
            include_prompt_in_result=False,
            end_token=self.names[self.ours.tokenizer.end_id],
            max_batch_size=1,  # beside a prompt of one token, longer ones would come back as results
        )
        return [list(result.sequences_ids[0]) for result in found]
