"""The engine: searches wait until there is room, run side by side in slots, and leave as soon as they are done.

Commands, validation and servers decode with it.  An answer is the same alone and in any company, but for rounding:
choices closer than 1e-5 are counted (`Hypothesis.near_ties`).
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.interface import AnyGenerator, Ids, Progress, Prompts
from regard.decoding.outputs import Hypothesis
from regard.decoding.packed import packed
from regard.decoding.pool import PoolKeeper, PoolSlots, captures
from regard.decoding.search import Search, plan
from regard.decoding.shortlist import AllowedWords, Shortlisted
from regard.decoding.slots import Lane, Slots
from regard.decoding.stopping import Stops
from regard.decoding.ticket import Ticket
from regard.errors import RegardError
from regard.memory import TooLarge

FAILURES = (RegardError, RuntimeError, MemoryError)  # of a model's step: they end its searches and no others
PIECE = 512  # tokens of prompts that are read in one step beside running searches, and of one piece of a long prompt


@dataclass
class Arriving:
    """A long prompt that is read in pieces beside running searches."""

    ticket: Ticket
    state: Any = None  # of the model, one row
    n_read: int = 0


class Load(NamedTuple):
    """What runs and is let in."""

    n_searches: int
    longest: int  # limit of all
    n_rows: int = 0  # of those that are let in now, and what follows too
    room: int = 0  # tokens of the longest with its prompt
    n_read: int = 0  # tokens of prompts

    @classmethod
    def of(cls, running: Sequence[Ticket]) -> "Load":
        return cls(len(running), max((ticket.search.limit for ticket in running), default=0))

    def plus(self, search: Search) -> "Load":
        n_tokens = len(search.prompt)
        return Load(
            self.n_searches + 1,
            max(self.longest, search.limit),
            self.n_rows + search.copies,
            max(self.room, search.limit + n_tokens),
            self.n_read + n_tokens,
        )


class Engine:
    """`submit` tickets and `step` until they are over; or `generate` and `stream`, which do both."""

    def __init__(self, model: AnyGenerator) -> None:
        self.given = model
        self.models: dict[tuple[str, int], AnyGenerator] = {}  # by how their weights are read, and their shortlist
        self.word_lists: Callable[[], AllowedWords] | None = None  # of shortlists, where there are any
        self.waiting: deque[Ticket] = deque()
        self.arriving: list[Arriving] = []
        self.slots: dict[Lane, Slots[Any] | PoolSlots[Any]] = {}
        self.pools: PoolKeeper[Any] = PoolKeeper()
        self.is_pooled = False  # whether searches that begin now run in pools

    @cached_property
    def model(self) -> AnyGenerator:
        """What is stepped: the model in its fastest form."""
        return self.reading("float32")

    def reading(self, weights: str, shortlist: int = 0) -> AnyGenerator:
        """The model that reads its weights so, with a shortlist of so many words and those of each line (0: none)."""
        if (weights, shortlist) not in self.models:
            model = self.reading(weights) if shortlist else packed(self.given, weights)
            if shortlist and self.word_lists is None:
                raise RegardError("shortlists are for runs that translate: set shortlist = 0")
            if shortlist and self.word_lists is not None:
                model = Shortlisted(model, self.word_lists(), shortlist)
            self.models[weights, shortlist] = model
        return self.models[weights, shortlist]

    def lane_of(self, ticket: Ticket) -> Lane:
        search = ticket.search
        manner = search.manner if self.is_pooled and not search.config.shortlist else None
        return Lane(search.copies, search.begin, search.config.weights, search.config.shortlist, manner)

    def slots_of(self, lane: Lane) -> Slots[Any] | PoolSlots[Any]:
        model = self.reading(lane.weights, lane.shortlist)
        return Slots(model, lane) if lane.manner is None else PoolSlots(model, lane, self.pools)

    @property
    def max_length(self) -> int:
        return self.given.max_length

    @property
    def running(self) -> list[Ticket]:
        """Those that have rows."""
        return [*(t for slots in self.slots.values() for t in slots.tickets), *(a.ticket for a in self.arriving)]

    @property
    def is_idle(self) -> bool:
        return not (self.waiting or self.arriving or self.slots)

    def submit(self, ticket: Ticket) -> None:
        self.waiting.append(ticket)

    @torch.no_grad()
    def step(self) -> list[Ticket]:
        """One step of all that run, after letting in who fits; those that are over now."""
        self.is_pooled = captures(self.given)
        finished: list[Ticket] = []
        new: dict[Lane, list[Ticket]] = {}
        for ticket in self.admit(finished):
            new.setdefault(self.lane_of(ticket), []).append(ticket)
        arrived: dict[Lane, list[tuple[Ticket, Any, Tensor]]] = {}
        for ticket, state, first in self.read_on(finished):
            arrived.setdefault(self.lane_of(ticket), []).append((ticket, state, first))
        for key in dict.fromkeys([*self.slots, *new, *arrived]):
            if key not in self.slots:
                self.slots[key] = self.slots_of(key)
            slots = self.slots[key]
            joining = [*new.get(key, []), *(ticket for ticket, _, _ in arrived.get(key, []))]
            try:
                finished += slots.step(new.get(key, []), arrived.get(key, []))
            except FAILURES as error:
                failed = [ticket for ticket in {*slots.tickets, *joining} if not ticket.is_over]
                for ticket in failed:
                    ticket.error = error
                finished += failed
                slots.leave()
            if not slots.tickets:
                del self.slots[key]
        return finished

    def give_up(self, error: Exception) -> list[Ticket]:
        """End all that waits and runs with this error."""
        tickets = [ticket for ticket in (*self.waiting, *self.running) if not ticket.is_over]
        for ticket in tickets:
            ticket.error = error
        self.waiting.clear()
        self.arriving, self.slots = [], {}
        return tickets

    def admit(self, refused: list[Ticket]) -> list[Ticket]:
        """Who comes next, in order, as far as there is room; `refused` gets those that never have any."""
        admitted: list[Ticket] = []
        if not self.waiting:
            return admitted
        is_beside, load = bool(self.slots), Load.of(self.running)
        while self.waiting:
            ticket = self.waiting[0]
            n_tokens = len(ticket.search.prompt)
            if not ticket.is_cancelled:
                if is_beside and admitted and load.n_read + n_tokens > PIECE:
                    break
                heavier = load.plus(ticket.search)
                try:
                    if not self.has_room(ticket, heavier):
                        break
                except TooLarge as error:
                    if self.slots or admitted or self.arriving:
                        break  # until others have left
                    ticket.error = error
                    refused.append(ticket)
            self.waiting.popleft()
            if ticket.is_over:
                continue
            load = heavier
            if is_beside and self.model.reads_on and n_tokens > PIECE:
                self.arriving.append(Arriving(ticket))
            else:
                admitted.append(ticket)
        return admitted

    def has_room(self, ticket: Ticket, load: "Load") -> bool:
        """Whether all that runs can go on with this one, which is the last of the load."""
        slots = self.slots.get(self.lane_of(ticket))
        if slots is not None and not slots.lets_in:
            return False
        if load.n_searches > 1 and load.n_searches * load.longest > ticket.search.config.batch_tokens:
            return False
        self.model.check_room(load.n_rows, load.room)
        return True

    def read_on(self, failed: list[Ticket]) -> Iterator[tuple[Ticket, Any, Tensor]]:
        """A piece more of the first long prompt; where it was the last, the ticket, its state and its logits."""
        self.arriving = [arriving for arriving in self.arriving if not arriving.ticket.is_cancelled]
        if not self.arriving:
            return
        first = self.arriving[0]
        try:
            logits = self.read_piece(first)
        except FAILURES as error:
            first.ticket.error = error
            failed.append(self.arriving.pop(0).ticket)
            return
        if first.n_read == len(first.ticket.search.prompt):
            self.arriving.pop(0)
            yield first.ticket, first.state, logits

    def read_piece(self, arriving: Arriving) -> Tensor:
        search = arriving.ticket.search
        model, tokens = self.reading(search.config.weights, search.config.shortlist), [*search.prompt]
        piece = tokens[arriving.n_read : arriving.n_read + PIECE]
        if arriving.n_read == 0:
            arriving.state, logits = model.start([piece], search.begin, 1, search.limit + len(tokens) - PIECE)
        else:
            at = arriving.state.lengths.device
            logits = model.step(torch.tensor([piece], device=at), arriving.state)[:, -1]
        arriving.n_read += len(piece)
        return logits

    def answer(self, searches: Sequence[Search], on_progress: Progress | None = None) -> list[list[Hypothesis]]:
        """The best hypotheses of each search, best first; finished ones before those that hit the length limit."""
        tickets = [Ticket(search) for search in searches]
        # The longest first, so that those that run together are alike and no long one is left for the end.
        for ticket in sorted(tickets, key=lambda t: (-t.search.limit, -len(t.search.prompt))):
            self.submit(ticket)
        own, n_done = set(tickets), 0
        try:
            while n_done < len(tickets):
                n_now = sum(ticket in own for ticket in self.step())
                n_done += n_now
                if on_progress is not None and n_now:
                    on_progress(n_done, len(tickets))
        finally:
            for ticket in tickets:
                ticket.cancel()
        return [ticket.answer() for ticket in tickets]

    def generate(
        self,
        prompts: Prompts,
        config: DecodingConfig,
        begin: int,
        end: int,
        prefixes: Ids | None = None,
        on_progress: Progress | None = None,
        stops: Stops | None = None,
    ) -> list[list[Hypothesis]]:
        """See `plan` and `answer`; `on_progress(n_done, n_prompts)` is called while they run."""
        return self.answer(plan(prompts, config, begin, end, prefixes, stops), on_progress)

    def stream(
        self, prompt: list[int], config: DecodingConfig, begin: int, end: int, stops: Stops | None = None
    ) -> Iterator[int]:
        """The tokens that `generate` finds, as soon as they are certain; the last may complete a stop string."""
        if config.n_best > 1:
            raise RegardError(f"one text at a time can be streamed: set n_best = 1, got {config.n_best}")
        (search,) = plan([prompt], config, begin, end, stops=stops)
        return self.follow(search)

    def follow(self, search: Search) -> Iterator[int]:
        certain: list[int] = []

        def hear(tokens: list[int]) -> None:
            certain[:] = tokens

        ticket, n_told = Ticket(search, hear), 0
        self.submit(ticket)
        try:
            while not ticket.is_over:
                self.step()
                new = certain[n_told:]
                n_told += len(new)
                yield from new
            yield from ticket.answer()[0].tokens[n_told:]
        finally:
            ticket.cancel()


def generate(
    model: AnyGenerator,
    prompts: Prompts,
    config: DecodingConfig,
    begin: int,
    end: int,
    prefixes: Ids | None = None,
    on_progress: Progress | None = None,
    stops: Stops | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses of each prompt, by an engine for these alone."""
    return Engine(model).generate(prompts, config, begin, end, prefixes, on_progress, stops)
