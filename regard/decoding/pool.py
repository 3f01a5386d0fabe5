"""Slots on a GPU: rows that stay in place while searches come and go, and one CUDA graph for a whole step.

A step is some hundred small kernels: the model's, those of the constraints, of choosing, of a beam's bookkeeping and of
asking who is done.  A graph launches them all at once.  It is captured for one number of slots and one size of their
rooms, both powers of two, so that few graphs serve all searches.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeGuard

import torch
from torch import Tensor

from regard.decoding.constraints import Active
from regard.decoding.interface import AnyGenerator, Generator
from regard.decoding.slots import Lane, conclude, strategy_for
from regard.decoding.strategy import Strategy
from regard.decoding.ticket import Ticket
from regard.nn.layout import power_of_two
from regard.nn.state import PS
from regard.nn.watch import Watchable, is_watched

DEVICES = ("cuda",)
SMALLEST_ROOM = 32
ASK = 4  # steps before it is asked whether a search is done; the answer is read as many steps later
HEAR = 8  # steps before who listens is told what is certain: that makes a GPU wait
SPARSE = 4  # times as many slots as searches: then these move into fewer


class Capturable(Generator[PS], Watchable, Protocol[PS]):
    """A generator that says is_capturable: its states can be pooled, and its steps ask the device nothing."""

    @property
    def device(self) -> torch.device: ...


def can_capture(model: AnyGenerator) -> TypeGuard[Capturable[Any]]:
    return model.is_capturable


def captures(model: AnyGenerator) -> bool:
    """Whether searches by this model run in pools.  A captured step shows nothing of itself to who watches."""
    return can_capture(model) and model.device.type in DEVICES and not is_watched(model)


def rounded(rooms: Sequence[int]) -> tuple[int, ...]:
    return tuple(power_of_two(max(room, SMALLEST_ROOM)) for room in rooms)


class WhoEnded:
    """Whether a search was done when this was asked.  The device goes on while the answer travels."""

    def __init__(self, ended_at: Tensor) -> None:
        self.ended_at = torch.empty(ended_at.shape, dtype=ended_at.dtype, pin_memory=ended_at.is_cuda)
        self.ended_at.copy_(ended_at, non_blocking=True)
        self.event = torch.cuda.Event() if ended_at.is_cuda else None
        if self.event is not None:
            self.event.record()

    def is_yes(self, slots: list[int]) -> bool:
        """For one of these slots."""
        if self.event is not None:
            self.event.synchronize()
        return bool(self.ended_at[slots].any())


@dataclass
class Group(Generic[PS]):
    """Searches that have begun, their rows, and the tokens (searches, copies) that they chose last."""

    tickets: list[Ticket]
    state: PS
    strategy: Strategy
    tokens: Tensor


class Pool(Generic[PS]):
    """Slot i has the rows i · copies …  A slot without a search is stepped like the others, from nothing, and what it
    writes is not recorded."""

    def __init__(self, model: Generator[PS], n_slots: int, groups: Sequence[Group[PS]], memory: Any) -> None:
        """Large enough for these groups; `memory` is where graphs keep what they compute."""
        first, *others = groups
        self.model, self.n_slots, self.copies = model, n_slots, first.strategy.copies
        self.rooms = rounded([max(sizes) for sizes in zip(*(group.state.rooms for group in groups), strict=True)])
        self.state = first.state.pooled(n_slots * self.copies, self.rooms)
        self.strategy = first.strategy.emptied(n_slots, *(group.strategy for group in others))
        self.tokens = torch.zeros_like(first.tokens[:1]).repeat(n_slots, 1)  # chosen last
        self.tickets: list[Ticket | None] = [None] * n_slots
        self.graphs: dict[Active, Callable[[], None]] = {}
        self.memory = memory

    @property
    def taken(self) -> list[int]:
        """The slots that have a search."""
        return [slot for slot, ticket in enumerate(self.tickets) if ticket is not None]

    def has_room(self, group: Group[PS]) -> bool:
        has_slots = len(self.taken) + len(group.tickets) <= self.n_slots
        has_rooms = all(map(int.__le__, group.state.rooms, self.rooms))
        return has_slots and has_rooms and self.strategy.has_room(group.strategy)

    def put(self, group: Group[PS]) -> None:
        """Into free slots."""
        slots = [slot for slot, ticket in enumerate(self.tickets) if ticket is None][: len(group.tickets)]
        places = torch.tensor(slots, device=self.tokens.device)
        self.state.put(self.rows(places), group.state)
        self.strategy.put(places, group.strategy)
        self.tokens[places] = group.tokens
        for slot, ticket in zip(slots, group.tickets, strict=True):
            self.tickets[slot] = ticket

    def take(self) -> Group[PS]:
        """A copy of all searches that are here, whose slots become free."""
        places = torch.tensor(self.taken, device=self.tokens.device)
        tickets = [ticket for ticket in self.tickets if ticket is not None]
        state, strategy = self.state.taken(self.rows(places)), self.strategy.taken(places)
        group = Group(tickets, state, strategy, self.tokens[places])
        self.free(self.taken)
        return group

    def rows(self, slots: Tensor) -> Tensor:
        return (slots[:, None] * self.copies + torch.arange(self.copies, device=slots.device)).flatten()

    def free(self, slots: list[int]) -> None:
        self.strategy.end(torch.tensor(slots, dtype=torch.long, device=self.tokens.device))
        for slot in slots:
            self.tickets[slot] = None

    def step(self) -> None:
        """One token more for all."""
        taken, strategy = self.taken, self.strategy
        active = strategy.constraints.active(strategy.ages[taken], strategy.n_forced[taken])
        if active not in self.graphs:
            self.graphs[active] = self.captured(active)
        self.graphs[active]()
        strategy.ages = strategy.ages + 1

    def captured(self, active: Active) -> Callable[[], None]:
        """A step as a graph."""
        run = partial(self.run, active)
        if self.tokens.device.type != "cuda":
            return run
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.rehearse(run)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.memory, capture_error_mode="thread_local"):
            run()
        return graph.replay

    def rehearse(self, run: Callable[[], None]) -> None:
        """Kernels are compiled and choose their workspaces before the capture.  Two steps, each from the same place: a
        row that ends in the first would write over its own beginning in the second."""
        changing = [*self.changing.values(), *self.state.changing()]
        before = [tensor.clone() for tensor in changing]
        for _ in range(2):
            run()
            for tensor, value in zip(changing, before, strict=True):
                tensor.copy_(value)

    @property
    def changing(self) -> dict[str, Tensor]:
        return {**self.strategy.kept, "chosen": self.tokens}

    def run(self, active: Active) -> None:
        """A step, from tensors that stay in place into the same."""
        before = self.changing
        logits = self.model.step(self.tokens.view(-1, 1), self.state)[:, -1]
        tokens, parents = self.strategy.decide(logits, active)
        if parents is not None:
            first = self.copies * torch.arange(self.n_slots, device=parents.device)[:, None]
            self.state.reorder((first + parents).flatten())
        after = {**self.strategy.kept, "chosen": tokens}
        for name, tensor in before.items():
            if after[name] is not tensor:
                tensor.copy_(after[name])
        self.strategy.kept = {name: tensor for name, tensor in before.items() if name != "chosen"}
        is_idle = self.strategy.kept["ended_at"] > 0
        self.state.lengths.view(-1, self.copies).masked_fill_(is_idle[:, None], 0)


class PoolKeeper(Generic[PS]):
    """The pools of an engine, kept for later searches: capturing a step takes as long as many steps."""

    most = 8

    def __init__(self) -> None:
        self.kept: OrderedDict[tuple[Lane, int], Pool[PS]] = OrderedDict()
        self.memory: Any = None

    def get(self, lane: Lane, model: Generator[PS], groups: Sequence[Group[PS]]) -> Pool[PS]:
        """An empty pool with room for these."""
        if self.memory is None and groups[0].tokens.is_cuda:
            self.memory = torch.cuda.graph_pool_handle()
        n_slots = power_of_two(sum(len(group.tickets) for group in groups))
        pool = self.kept.pop((lane, n_slots), None)
        if pool is None or pool.taken or not all(map(pool.has_room, groups)):
            pool = Pool(model, n_slots, groups, self.memory)
        self.kept[lane, n_slots] = pool
        if len(self.kept) > self.most:
            self.kept.popitem(last=False)
        return pool


class PoolSlots(Generic[PS]):
    """Searches of one manner, in a pool that is as large as they need it."""

    lets_in = True

    def __init__(self, model: Generator[PS], lane: Lane, pools: PoolKeeper[PS]) -> None:
        self.model, self.lane, self.pools = model, lane, pools
        self.pool: Pool[PS] | None = None
        self.n_unasked = 0  # steps since searches were last told what they found
        self.asked: WhoEnded | None = None

    @property
    def tickets(self) -> list[Ticket]:
        return [] if self.pool is None else [ticket for ticket in self.pool.tickets if ticket is not None]

    def step(self, new: Sequence[Ticket], arrived: Sequence[tuple[Ticket, PS, Tensor]] = ()) -> list[Ticket]:
        """See `Slots`."""
        if self.pool is not None and self.pool.taken:
            self.pool.step()
            self.n_unasked += 1
        if new:
            prompts, room = [ticket.search.prompt for ticket in new], max(ticket.search.limit for ticket in new)
            self.let_in(self.begun(list(new), *self.model.start(prompts, self.lane.begin, self.lane.copies, room)))
        for ticket, state, first in arrived:
            state.select(torch.zeros(self.lane.copies, dtype=torch.long, device=first.device))
            self.let_in(self.begun([ticket], state, first))
        is_left = any(ticket.is_over for ticket in self.tickets)  # someone has canceled
        if new or arrived or is_left or self.is_at_limit or (self.n_unasked >= HEAR and self.is_heard):
            return self.answer()
        return self.answer() if self.n_unasked % ASK == 0 and self.is_one_done() else []

    @property
    def is_heard(self) -> bool:
        """Whether someone wants to know each word, to hear it or to stop at it."""
        return any(ticket.listener is not None or ticket.search.stops is not None for ticket in self.tickets)

    def is_one_done(self) -> bool:
        """Whether a search was done when this was asked before; and it is asked again."""
        assert self.pool is not None
        before, self.asked = self.asked, WhoEnded(self.pool.strategy.kept["ended_at"])
        return before is not None and before.is_yes(self.pool.taken)

    def begun(self, tickets: list[Ticket], state: PS, first: Tensor) -> Group[PS]:
        """With their first tokens, after these logits (searches, V)."""
        strategy = strategy_for(tickets[0].search, first.device)
        strategy.join([ticket.search for ticket in tickets])
        tokens, _ = strategy.advance(first.repeat_interleave(self.lane.copies, 0))
        return Group(tickets, state, strategy, tokens)

    def let_in(self, group: Group[PS]) -> None:
        if self.pool is None or not self.pool.has_room(group):
            groups = [group] if self.pool is None or not self.pool.taken else [self.pool.take(), group]
            self.pool = self.pools.get(self.lane, self.model, groups)
        else:
            groups = [group]
        for member in groups:
            self.pool.put(member)

    @property
    def is_at_limit(self) -> bool:
        if self.pool is None:
            return False
        strategy = self.pool.strategy
        return bool((strategy.ages >= strategy.limits)[self.pool.taken].any())

    def answer(self) -> list[Ticket]:
        """Tell searches that are done what they found, and who listens what is certain."""
        assert self.pool is not None
        pool = self.pool
        running = {slot: ticket for slot, ticket in enumerate(pool.tickets) if ticket and not ticket.is_over}
        finished = conclude(pool.strategy, running, max(self.n_unasked, 1))
        self.n_unasked, self.asked = 0, None
        pool.free([slot for slot, ticket in enumerate(pool.tickets) if ticket and ticket.is_over])
        n_taken = len(pool.taken)
        if n_taken and pool.n_slots >= SPARSE * power_of_two(n_taken):
            group = pool.take()
            self.pool = self.pools.get(self.lane, self.model, [group])
            self.pool.put(group)
        return finished

    def leave(self) -> None:
        """Without any search."""
        if self.pool is not None:
            self.pool.free(self.pool.taken)
