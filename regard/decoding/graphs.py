"""CUDA graphs for decoding: a step is some hundred small kernels, and a graph launches them all at once.

Applied from outside: `Graphed(model)` is a generator like the model, with the same answers.  Shapes are rounded up so
that batches of about the same size share a graph; the state lives in the graph's own memory, and reordering rows is
part of the graph.
"""

from collections import OrderedDict
from typing import Generic, Protocol, Self, TypeGuard, TypeVar

import torch
from torch import Tensor

from regard.decoding.interface import AnyGenerator, Generator, Prompts
from regard.nn.state import State
from regard.nn.watch import Watchable, is_watched

ROUND = 32  # rooms and source lengths are rounded up to multiples of this
N_GRAPHS = 8  # graphs kept for later batches


class CapturableState(State, Protocol):
    """A state whose tensors stay in place."""

    def copy_(self, other: Self) -> None:
        """Take over another state of the same shape, in place."""
        ...

    def clone(self) -> Self: ...


CS = TypeVar("CS", bound=CapturableState)


class Capturable(Generator[CS], Watchable, Protocol[CS]):
    """A generator that says is_capturable: with `fixed_room` for the prompts every step has one shape."""

    @property
    def device(self) -> torch.device: ...

    def start(
        self, prompts: Prompts, begin: int, copies: int = 1, room: int = 256, fixed_room: int | None = None
    ) -> tuple[CS, Tensor]: ...


class Captured(Generic[CS]):
    """One captured step: rows are reordered by `rows`, then `tokens` stepped, and `logits` hold the answer."""

    def __init__(self, model: Capturable[CS], state: CS) -> None:
        self.state = state
        device = state.lengths.device
        self.rows = torch.arange(state.n_rows, device=device)
        self.same = self.rows.clone()
        self.tokens = torch.zeros(state.n_rows, 1, dtype=torch.long, device=device)
        lengths = state.lengths.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # kernels choose their workspaces before the capture
            for _ in range(2):
                state.reorder(self.rows)
                model.step(self.tokens, state)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            state.reorder(self.rows)
            self.logits = model.step(self.tokens, state)
        state.lengths.copy_(lengths)


class GraphedState(Generic[CS]):
    """A state that lives in a captured graph.  When its number of rows changes it moves out and steps eagerly."""

    def __init__(self, captured: Captured[CS] | None, inner: CS, room: int) -> None:
        self.captured = captured
        self.inner = inner
        self.room, self.stepped = room, 1  # the token that a target begins with
        self.is_reordered = False

    @property
    def n_rows(self) -> int:
        return self.inner.n_rows

    @property
    def lengths(self) -> Tensor:
        return self.inner.lengths

    def select(self, rows: Tensor) -> None:
        self.leave()
        self.inner.select(rows)

    def reorder(self, rows: Tensor) -> None:
        if self.captured is None or self.is_reordered:
            self.leave()
            self.inner.reorder(rows)
        else:
            self.captured.rows.copy_(rows)
            self.is_reordered = True

    def truncate(self, lengths: Tensor) -> None:
        self.leave()
        self.inner.truncate(lengths)

    def join(self, other: Self) -> None:
        self.leave()
        other.leave()
        self.inner.join(other.inner)

    def leave(self) -> None:
        """Take a copy of the state out of the graph's memory, which the next batch will use."""
        if self.captured is None:
            return
        self.inner = self.captured.state.clone()
        if self.is_reordered:
            self.inner.reorder(self.captured.rows)
        self.captured = None


class Graphed(Generic[CS]):
    """A generator that replays captured steps.  One batch at a time: a new `start` may reuse the memory of the last."""

    is_capturable = False

    def __init__(self, model: Capturable[CS]) -> None:
        self.model = model
        self.graphs: OrderedDict[tuple[int, ...], Captured[CS]] = OrderedDict()

    @property
    def max_length(self) -> int:
        return self.model.max_length

    def check_room(self, n_rows: int, room: int) -> None:
        self.model.check_room(n_rows, room)

    @property
    def reads_on(self) -> bool:
        return self.model.reads_on

    def start(self, prompts: Prompts, begin: int, copies: int = 1, room: int = 256) -> tuple[GraphedState[CS], Tensor]:
        if is_watched(self.model):  # a replayed graph shows nothing of itself
            state, first = self.model.start(prompts, begin, copies, room)
            return GraphedState(None, state, room), first
        room = rounded(room)
        longest = rounded(max(len(prompt) for prompt in prompts))
        state, first = self.model.start(prompts, begin, copies, room, longest)
        key = (len(prompts), copies, room, longest)
        if key in self.graphs:
            self.graphs.move_to_end(key)
            self.graphs[key].state.copy_(state)
        else:
            self.graphs[key] = Captured(self.model, state)
            if len(self.graphs) > N_GRAPHS:
                self.graphs.popitem(last=False)
        return GraphedState(self.graphs[key], self.graphs[key].state, room), first

    def step(self, tokens: Tensor, state: GraphedState[CS]) -> Tensor:
        state.stepped += tokens.shape[1]
        assert state.stepped <= state.room, f"{state.stepped} tokens do not fit in {state.room}"
        if state.captured is None or tokens.shape[1] > 1:
            state.leave()
            return self.model.step(tokens, state.inner)
        if not state.is_reordered:
            state.captured.rows.copy_(state.captured.same)
        state.is_reordered = False
        state.captured.tokens.copy_(tokens)
        state.captured.graph.replay()
        return state.captured.logits


def fastest(model: AnyGenerator) -> AnyGenerator:
    """The model as the fastest generator on its device."""
    return Graphed(model) if can_capture(model) and model.device.type == "cuda" else model


def can_capture(model: AnyGenerator) -> TypeGuard[Capturable]:
    return model.is_capturable


def rounded(n: int) -> int:
    return -(-n // ROUND) * ROUND
