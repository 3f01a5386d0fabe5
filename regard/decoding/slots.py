"""Rows that are stepped together, while searches come and go."""

import math
from collections.abc import Sequence
from typing import Generic, NamedTuple

import torch
from torch import Tensor

from regard.decoding.beam import Beam
from regard.decoding.config import DecodingConfig
from regard.decoding.greedy import Greedy, Sampling
from regard.decoding.interface import Generator
from regard.decoding.search import Search
from regard.decoding.strategy import Strategy
from regard.decoding.ticket import Ticket
from regard.errors import RegardError
from regard.nn.state import S

AHEAD = {"cpu": 1, "cuda": 8}  # steps before it is asked which searches are done: asking makes a GPU wait
FREE = 0.25  # of the rows: when so many have no search, the others move together


def strategy_for(search: Search, device: torch.device) -> Strategy:
    if search.config.beam > 1:
        return Beam(search, device)
    return Sampling(search, device) if search.config.sample else Greedy(search, device)


class Lane(NamedTuple):
    """Searches with the same share their steps."""

    copies: int
    begin: int
    weights: str
    shortlist: int
    manner: tuple[DecodingConfig, int] | None  # None: of any manner


class Slots(Generic[S]):
    """Searches with equally many copies, each at its own step.  Those of one manner share a strategy."""

    def __init__(self, model: Generator[S], lane: Lane) -> None:
        self.model, self.copies, self.begin = model, lane.copies, lane.begin
        self.tickets: list[Ticket] = []  # search i has the rows i · copies …
        self.owners: list[Strategy] = []  # who advances search i
        self.strategies: dict[tuple[DecodingConfig, int], Strategy] = {}
        self.state: S | None = None
        self.tokens = torch.zeros(0, lane.copies, dtype=torch.long)  # chosen last
        self.n_unasked = 0  # steps since it was asked who is done

    @property
    def lets_in(self) -> bool:
        """Whether searches may join those that run: on a GPU, where rows stay in place, a batch is finished first."""
        return not self.tokens.is_cuda

    def step(self, new: Sequence[Ticket], arrived: Sequence[tuple[Ticket, S, Tensor]] = ()) -> list[Ticket]:
        """One token more for all that are here, and the first for those that are new; those that are done now.  The
        prompts of `arrived` were read in pieces: with a state of one row, and its logits (1, V)."""
        parts: list[Tensor] = []
        if self.state is not None:
            parts.append(self.model.step(self.tokens.view(-1, 1), self.state)[:, -1])
        if new:
            prompts, room = [ticket.search.prompt for ticket in new], max(ticket.search.limit for ticket in new)
            state, first = self.model.start(prompts, self.begin, self.copies, room)
            parts.append(self.take(new, state, first))
        for ticket, state, first in arrived:
            state.select(torch.zeros(self.copies, dtype=torch.long, device=first.device))
            parts.append(self.take([ticket], state, first))
        logits = parts[0] if len(parts) == 1 else torch.cat(parts)
        parents = self.advance(logits.float())
        self.n_unasked += 1
        # A search ends at its limit at the latest, and must not be stepped beyond it.
        finished: list[Ticket] = []
        if self.n_unasked >= AHEAD[logits.device.type] or self.is_at_limit:
            finished = self.answer(self.n_unasked)
            self.n_unasked = 0
        self.move(parents)
        return finished

    @property
    def is_at_limit(self) -> bool:
        return any(bool((strategy.ages >= strategy.limits).any()) for strategy in self.strategies.values())

    def take(self, new: Sequence[Ticket], state: S, first: Tensor) -> Tensor:
        """Put new searches after the others; the logits (rows, V) of their first tokens."""
        if self.state is None:
            self.state = state
        else:
            self.state.join(state)
        for ticket in new:
            manner = ticket.search.manner
            if manner not in self.strategies:
                self.strategies[manner] = strategy_for(ticket.search, first.device)
            self.owners.append(self.strategies[manner])
        for strategy in self.strategies.values():
            joining = [t.search for t, owner in zip(new, self.owners[-len(new) :], strict=True) if owner is strategy]
            if joining:
                strategy.join(joining)
        self.tickets += new
        return first.repeat_interleave(self.copies, 0)

    def advance(self, logits: Tensor) -> Tensor | None:
        """Choose the tokens after these logits (rows, V); the copy that each continues (None: each its own)."""
        if len(self.strategies) == 1:
            (strategy,) = self.strategies.values()
            self.tokens, parents = strategy.advance(logits)
            return parents
        by_search = logits.unflatten(0, (-1, self.copies))
        own = torch.arange(self.copies, device=logits.device)
        self.tokens = torch.zeros(len(self.tickets), self.copies, dtype=torch.long, device=logits.device)
        parents = own.repeat(len(self.tickets), 1)
        is_moved = False
        for strategy in self.strategies.values():
            places = self.places(strategy).to(logits.device)
            self.tokens[places], moved = strategy.advance(by_search[places].flatten(0, 1))
            if moved is not None:
                parents[places], is_moved = moved, True
        return parents if is_moved else None

    def places(self, strategy: Strategy) -> Tensor:
        return torch.tensor([i for i, owner in enumerate(self.owners) if owner is strategy], dtype=torch.long)

    def answer(self, n_steps: int) -> list[Ticket]:
        """Tell searches that are done what they found, and who listens what is certain, `n_steps` steps after it was
        asked last."""
        finished: list[Ticket] = []
        for strategy in self.strategies.values():
            tickets = [ticket for ticket, owner in zip(self.tickets, self.owners, strict=True) if owner is strategy]
            running = {i: ticket for i, ticket in enumerate(tickets) if not ticket.is_over}
            finished += conclude(strategy, running, n_steps)
        return finished

    def move(self, parents: Tensor | None) -> None:
        """Copies go where they continue, and rows without a search go away, when that is worth it."""
        assert self.state is not None
        running = [i for i, ticket in enumerate(self.tickets) if not ticket.is_over]
        if not running:
            self.leave()
            return
        first = self.copies * torch.arange(len(self.tickets), device=self.tokens.device)[:, None]
        rows = first + (torch.arange(self.copies, device=first.device) if parents is None else parents)
        if len(running) < len(self.tickets) and self.is_worth_moving(len(running), parents is not None):
            kept = torch.tensor(running, device=first.device)
            self.state.select(rows[kept].flatten())
            alive = set(running)
            for manner, strategy in list(self.strategies.items()):
                places = [i in alive for i in self.places(strategy).tolist()]
                if any(places):
                    strategy.keep(torch.tensor(places, device=first.device).nonzero()[:, 0])
                else:
                    del self.strategies[manner]
            self.tokens = self.tokens[kept]
            self.tickets, self.owners = [self.tickets[i] for i in running], [self.owners[i] for i in running]
        elif parents is not None:
            self.state.reorder(rows.flatten())

    def is_worth_moving(self, n_running: int, is_moved_anyway: bool) -> bool:
        """Where copies change places anyway, every row counts.  On a GPU rows are cheap, and another number of them
        needs another graph."""
        if self.tokens.is_cuda:
            return False
        if is_moved_anyway or n_running <= (1 - FREE) * len(self.tickets):
            return True
        return self.is_at_limit  # one that is done must not be stepped further

    def leave(self) -> None:
        """Without any search."""
        self.tickets, self.owners, self.strategies = [], [], {}
        self.state = None
        self.tokens = self.tokens[:0]


def conclude(strategy: Strategy, running: dict[int, Ticket], n_steps: int) -> list[Ticket]:
    """Tell searches that are done what they found, and who listens what is certain, `n_steps` steps after it was asked
    last.  `running` are those that are not over, by their places."""
    for place, ticket in running.items():
        if ticket.search.stops is not None:
            strategy.stop(place, n_steps)
    steps = strategy.kept["ended_at"].cpu()
    for place, ticket in running.items():
        if ticket.listener is not None:
            ticket.listener(strategy.agreed(place, int(steps[place]) or int(strategy.ages[place])))
    done = [place for place in running if steps[place]]
    if not done:
        return []
    places = torch.tensor(done, device=strategy.device)
    for place, hypotheses in zip(done, strategy.hypotheses(places, steps[done].numpy()), strict=True):
        if not hypotheses or any(math.isnan(hypothesis.score) for hypothesis in hypotheses):
            message = "the model's scores are NaN: its weights contain NaN; take an earlier checkpoint"
            running[place].error = RegardError(message)
        else:
            running[place].hypotheses = hypotheses
    return [running[place] for place in done]
