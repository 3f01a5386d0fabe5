"""Our run, and the folder that CTranslate2 runs, in float32, on the same inputs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.errors import need
from regard.interop.certifying.certificate import Certificate, Finding, compare_rows, faults_of, issue
from regard.interop.certifying.samples import random_tokens, special
from regard.interop.certifying.sides import AnsweringSide, Ours, OurScorer, Side, TokenLists, compare_texts, read_again
from regard.interop.certifying.texts import compare_by_file, left_to_callers
from regard.interop.families.settings import exchange_of
from regard.interop.formats.safe import read_json
from regard.runs.run import Run

N_RANDOM = 24
LONGEST = 32  # tokens of a random sequence
ROUNDINGS = 4  # how often as much as ours another float32 may round: sums in another order
MOST_ROUNDING = 1e-3  # of a logit; what rounds more is no rounding
BATCH = 16  # sequences at once


def certify_ctranslate2(
    run: Run, folder: Path, names: Sequence[str], notes: tuple[str, ...] = (), is_export: bool = True
) -> Certificate:
    """Log-probabilities of random targets, or logits; and what is written of some sentences."""
    longest = min(LONGEST, run.recipe.model.max_length - 2)
    ambiguous = {n for n, name in enumerate(names) if names.count(name) > 1}  # rows that T5's converter has to name
    inputs = random_tokens(N_RANDOM, longest, len(names), without=special(run) | ambiguous)
    ours: Side
    theirs: AnsweringSide
    frames = not exchange_of(run.recipe).translates
    if not frames:
        what, ours, theirs = "log-probabilities", OurScorer(run), CTranslate2Translator(folder, run, names)
    else:
        what, ours, theirs = "logits", Ours(run), CTranslate2Writer(folder, run, names)
    our_rows, their_rows = ours.rows(inputs), theirs.rows(inputs)
    rows = compare_rows(what, our_rows, their_rows, f"{len(inputs)} random sequences")
    if not rows.holds:
        rows = beside_rounding(rows, our_rows, their_rows, in_double(run, ours, inputs))
    findings = [rows, *compare_texts(ours, theirs, run, folder)]
    if is_export:
        findings += compare_by_file(theirs, run, folder, frames)
        notes += left_to_callers(run)
    elif not frames:
        notes += read_again(ours, run)
    return issue(run.folder, folder, "ctranslate2", findings, ("ctranslate2",), notes)


def in_double(run: Run, ours: Side, inputs: TokenLists) -> list[Tensor]:
    run.model.double()
    exact = ours.rows(inputs)
    run.model.float()
    return exact


def beside_rounding(finding: Finding, ours: list[Tensor], theirs: list[Tensor], exact: list[Tensor]) -> Finding:
    """A model with large logits differs by more than the limit because float32 rounds.  CTranslate2 has no float64: it
    may be a few times as far from ours in float64 as our own float32 is."""
    best = torch.cat([rows.flatten() for rows in exact])
    rounding, apart = (
        float((torch.cat([rows.flatten() for rows in side]) - best).abs().max()) for side in (ours, theirs)
    )
    return replace(
        finding,
        wanted=f"{finding.wanted}, or {ROUNDINGS} times what rounding does",
        holds=apart <= ROUNDINGS * rounding and rounding <= MOST_ROUNDING,
        of=f"{finding.of}; from ours in float64 {apart:.3g}, and our own float32 {rounding:.3g}",
    )


class CTranslate2Translator:
    """`names` are the tokens as CTranslate2 knows them, by our ids.  In some folders the end of a source is given."""

    def __init__(self, folder: Path, run: Run, names: Sequence[str]):
        self.names, self.ids = list(names), {name: n for n, name in enumerate(names)}
        adds_end = read_json(folder / "config.json").get("add_source_eos", True)
        self.after = [] if adds_end else [run.task.frame.end]
        self.never = [[self.names[n]] for n in run.recipe.decoding.never]
        with faults_of("CTranslate2", folder):
            self.model = need("ctranslate2").Translator(str(folder), compute_type="float32")

    def rows(self, inputs: TokenLists) -> list[Tensor]:
        """The log-probabilities of each token of a target (the source backwards) and of its end."""
        sources, targets = self.sources(inputs), spelled([ids[::-1] for ids in inputs], self.names)
        return [torch.tensor(result.log_probs) for result in self.model.score_batch(sources, targets)]

    def greedy(self, prompts: TokenLists, length: int) -> list[list[int]]:
        results = self.model.translate_batch(
            self.sources(prompts),
            beam_size=1,
            min_decoding_length=0,
            max_decoding_length=length,
            max_input_length=0,
            max_batch_size=BATCH,
            suppress_sequences=self.never or None,
        )
        return [[self.ids[token] for token in result.hypotheses[0]] for result in results]

    answer = greedy  # it frames a source itself

    def sources(self, inputs: TokenLists) -> list[list[str]]:
        return spelled([[*ids, *self.after] for ids in inputs], self.names)


class CTranslate2Writer:
    def __init__(self, folder: Path, run: Run, names: Sequence[str]):
        self.names, self.end = list(names), names[run.tokenizer.end_id]
        with faults_of("CTranslate2", folder):
            self.model = need("ctranslate2").Generator(str(folder), compute_type="float32")

    def rows(self, inputs: TokenLists) -> list[Tensor]:
        """The logits after each token."""
        rows = [np.array(self.model.forward_batch([tokens])) for tokens in spelled(inputs, self.names)]
        return [torch.from_numpy(row[0]) for row in rows]

    def greedy(self, prompts: TokenLists, length: int) -> list[list[int]]:
        results = self.model.generate_batch(
            spelled(prompts, self.names),
            max_length=length,
            min_length=0,
            sampling_topk=1,
            include_prompt_in_result=False,
            end_token=self.end,
            max_batch_size=1,  # beside a prompt of one token, longer ones would come back as results
        )
        return [list(result.sequences_ids[0]) for result in results]

    answer = greedy


def spelled(inputs: TokenLists, names: Sequence[str]) -> list[list[str]]:
    return [[names[n] for n in ids] for ids in inputs]
