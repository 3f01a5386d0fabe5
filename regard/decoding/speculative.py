"""Speculative decoding: a small draft model proposes tokens, and the model reads them all in one step.

The answers are the model's own.  Greedy search writes the tokens that it writes alone; sampling has the distribution
that it has alone (Leviathan et al. 2023; Chen et al. 2023).  Only the time depends on the draft.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.decoding.constraints import BEGINNINGS, Constraints
from regard.decoding.distribution import Distribution
from regard.decoding.drafting import DraftedRow, GreedyChoice, SampledChoice, Verdict
from regard.decoding.engine import Engine
from regard.decoding.interface import AnyGenerator, Generator, Progress
from regard.decoding.outputs import Hypothesis
from regard.decoding.packed import packed
from regard.decoding.search import Search
from regard.errors import RegardError
from regard.memory import TooLarge
from regard.nn.state import S, State

D = TypeVar("D", bound=State)  # of the draft


class Speculation(Generic[S, D]):
    """Searches of one manner that are written together.  A round gives each row one token or more.

    Before and after a round both models have read all of a row but its last token.
    """

    def __init__(self, model: Generator[S], draft: Generator[D], searches: Sequence[Search]) -> None:
        self.model, self.draft, self.like = model, draft, searches[0]
        self.choice = (SampledChoice if self.like.config.sample else GreedyChoice)(self.like.config)
        self.n_proposed = self.n_accepted = 0
        copies = range(self.like.copies)
        self.rows = self.all_rows = [DraftedRow(search, copy) for search in searches for copy in copies]
        prompts, room = [search.prompt for search in searches], max(search.limit for search in searches)
        self.state, wanted = model.start(prompts, self.like.begin, len(copies), room)
        self.draft_state, drafted = draft.start(prompts, self.like.begin, len(copies), room)
        nothing = torch.zeros(len(self.rows), 0, dtype=torch.long, device=wanted.device)
        tokens, known = self.propose(drafted.repeat_interleave(len(copies), 0), nothing)
        self.write(self.judge(wanted.repeat_interleave(len(copies), 0)[:, None], tokens[:, None], known[:, None]))

    @property
    def is_over(self) -> bool:
        return all(row.is_ended for row in self.rows)

    def step(self) -> None:
        """A round: the draft proposes up to `draft_tokens` tokens of every row, and the model reads them."""
        n = min(self.like.config.draft_tokens, *(row.room for row in self.rows if not row.is_ended))
        before = self.state.lengths.clone(), self.draft_state.lengths.clone()
        last = torch.tensor([[row.tokens[-1]] for row in self.rows], device=before[0].device)
        proposed, known = last[:, :0], []
        for _ in range(n):
            read = torch.cat([last, proposed], 1)[:, -1:]
            tokens, about = self.propose(self.draft.step(read, self.draft_state)[:, -1], proposed)
            proposed = torch.cat([proposed, tokens[:, None]], 1)
            known.append(about)
        logits = self.model.step(torch.cat([last, proposed[:, :-1]], 1), self.state)
        n_written = self.write(self.judge(logits, proposed, torch.stack(known, 1)))
        # What a row reads that has ended does not matter; it must not outgrow its room.
        is_ended = torch.tensor([row.is_ended for row in self.rows], device=n_written.device)
        for state, lengths in zip((self.state, self.draft_state), before, strict=True):
            state.truncate(torch.where(is_ended, 0, lengths + n_written))
        self.drop_finished()

    def propose(self, logits: Tensor, proposed: Tensor) -> tuple[Tensor, Tensor]:
        """The next token of each row by the draft's logits (rows, V), after those that are `proposed` (rows, n)."""
        place = proposed.shape[1]
        return self.choice.propose(self.constrained(logits[:, None], proposed, [place]), self.chances([place]))

    def judge(self, logits: Tensor, proposed: Tensor, known: Tensor) -> Verdict:
        """By the model's logits (rows, n, V) of the places that were proposed (rows, n)."""
        n = proposed.shape[1]
        wanted = self.constrained(logits, proposed, range(n))
        verdict = self.choice.judge(wanted, proposed.flatten(), known.flatten(0, 1), self.chances(range(n)))
        return Verdict(*(part.view(-1, n) for part in verdict))

    def constrained(self, logits: Tensor, proposed: Tensor, places: Sequence[int]) -> Distribution:
        """What may come at these places of all rows, row by row, where each place follows those before it."""
        config = self.like.config
        constraints = Constraints(replace(config, counted="prompt"), self.like.ends, copies=1)
        searches = [row.search for row in self.rows for _ in places]
        if constraints.need_history:
            beginning, tokens = BEGINNINGS[config.counted], proposed.tolist()
            searches = [
                replace(row.search, prompt=[*beginning(row.search), *row.tokens, *own[:place]])
                for row, own in zip(self.rows, tokens, strict=True)
                for place in places
            ]
        ages = np.array([len(row.tokens) + place for row in self.rows for place in places], np.int64)
        active = constraints.active(ages, np.array([len(search.prefix) for search in searches], np.int64))
        kept = {"t": torch.from_numpy(ages), **constraints.fresh(searches)}
        on_device = {name: tensor.to(logits.device) for name, tensor in kept.items()}
        return constraints.apply(logits.float().flatten(0, 1), on_device, active)

    def chances(self, places: Sequence[int]) -> Tensor:
        """The random numbers of these places of all rows, row by row."""
        last = [row.search.limit - 1 for row in self.rows]
        at = [
            [min(len(row.tokens) + place, most) for place in places] for row, most in zip(self.rows, last, strict=True)
        ]
        chances = torch.cat([row.chances[own] for row, own in zip(self.rows, at, strict=True)])
        return chances.to(self.state.lengths.device)

    def write(self, verdict: Verdict) -> Tensor:
        """How many tokens each row has got, (rows,): up to the first refused one, with what stands in its place."""
        n_written = []
        columns = (part.tolist() for part in verdict)
        for row, tokens, are_accepted, log_probs, gaps in zip(self.rows, *columns, strict=True):
            n_before = len(row.tokens)
            for token, is_accepted, log_prob, gap in zip(tokens, are_accepted, log_probs, gaps, strict=True):
                if row.is_ended:
                    break
                row.write(token, log_prob, gap)
                self.n_accepted += is_accepted
                if not is_accepted:
                    break
            n_written.append(len(row.tokens) - n_before)
            self.n_proposed += len(tokens) if n_written[-1] else 0
        return torch.tensor(n_written, device=verdict.tokens.device)

    def drop_finished(self) -> None:
        """Searches whose rows have all ended leave."""
        copies = self.like.copies
        groups = [range(first, first + copies) for first in range(0, len(self.rows), copies)]
        kept = [i for group in groups if not all(self.rows[i].is_ended for i in group) for i in group]
        if 0 < len(kept) < len(self.rows):
            for state in (self.state, self.draft_state):
                state.select(torch.tensor(kept, device=state.lengths.device))
            self.rows = [self.rows[i] for i in kept]

    def hypotheses(self) -> list[list[Hypothesis]]:
        copies = self.like.copies
        written = [row.hypothesis() for row in self.all_rows]
        return [sorted(written[i : i + copies], key=lambda best: -best.score) for i in range(0, len(written), copies)]


class SpeculativeEngine(Engine):
    """An engine for callers that wait for their answers: searches run in batches, with a draft beside the model."""

    def __init__(self, model: AnyGenerator, draft: AnyGenerator) -> None:
        super().__init__(model)
        self.draft = draft
        self.pairs: dict[str, tuple[AnyGenerator, AnyGenerator]] = {}  # by how their weights are read
        self.n_proposed = self.n_accepted = 0

    @property
    def max_length(self) -> int:
        return min(self.given.max_length, self.draft.max_length)

    @property
    def acceptance(self) -> float:
        """The share of proposed tokens that were written."""
        return self.n_accepted / max(self.n_proposed, 1)

    def begin(self, searches: Sequence[Search]) -> Speculation:
        config = searches[0].config
        if config.beam > 1:
            raise RegardError(f"a draft needs greedy search or sampling: set beam = 1, got {config.beam}")
        if config.shortlist:
            raise RegardError("a draft and a shortlist exclude each other: set shortlist = 0")
        if config.weights not in self.pairs:
            self.pairs[config.weights] = packed(self.given, config.weights), packed(self.draft, config.weights)
        return Speculation(*self.pairs[config.weights], searches)

    def count(self, speculation: Speculation) -> None:
        self.n_proposed += speculation.n_proposed
        self.n_accepted += speculation.n_accepted

    @torch.no_grad()
    def answer(self, searches: Sequence[Search], on_progress: Progress | None = None) -> list[list[Hypothesis]]:
        answers: dict[Search, list[Hypothesis]] = {}
        for batch in self.batches(searches):
            speculation = self.begin(batch)
            while not speculation.is_over:
                speculation.step()
            self.count(speculation)
            answers.update(zip(batch, speculation.hypotheses(), strict=True))
            if on_progress is not None:
                on_progress(len(answers), len(searches))
        return [answers[search] for search in searches]

    def batches(self, searches: Sequence[Search]) -> Iterator[list[Search]]:
        """Searches of one manner, the longest first, as many as there is room for."""
        batch: list[Search] = []
        for search in sorted(searches, key=lambda s: (repr(s.manner), s.begin, -s.limit, -len(s.prompt))):
            if batch and not self.fits(batch, search):
                yield batch
                batch = []
            batch.append(search)
        if batch:
            yield batch

    def fits(self, batch: Sequence[Search], search: Search) -> bool:
        first, many = batch[0], [*batch, search]
        is_alike = (search.manner, search.begin) == (first.manner, first.begin)
        if not is_alike or len(many) * first.limit > search.config.batch_tokens:
            return False
        longest = max(other.limit + len(other.prompt) for other in many)
        try:
            for model in (self.given, self.draft):
                model.check_room(len(many) * first.copies, longest)
        except TooLarge:
            return False
        return True

    def follow(self, search: Search) -> Iterator[int]:
        n_told = 0
        with torch.no_grad():
            speculation = self.begin([search])
        (row,) = speculation.rows
        while True:
            certain = row.tokens[:-1] if row.tokens[-1] in search.ends else row.tokens
            yield from certain[n_told:]
            n_told = len(certain)
            if row.is_ended:
                break
            with torch.no_grad():
                speculation.step()
        self.count(speculation)
