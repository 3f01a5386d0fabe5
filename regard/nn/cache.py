"""Keys and values kept from step to step.  Room is allocated ahead, for tokens and for rows; a step writes into it and
concatenates nothing.

And the state of models that look at a source while they write: their own past, and the source's keys and values.
"""

from functools import partial
from typing import Generic, Self

import torch
from torch import Tensor

from regard.nn.attention import Memory, Past
from regard.nn.layout import Rectangle
from regard.nn.state import PS, RowState


class Cache(RowState):
    """The keys and values of every layer, for B sequences of up to `room` tokens.

    Sequences that have always advanced together are in lockstep: their new tokens go to one column, and nothing
    needs a mask.  Rows that leave make place for others: what `content` has beyond B is free.
    """

    def __init__(self, content: Tensor, lengths: Tensor, longest: int, lockstep: bool):
        self.content = content  # 2 (keys, values), layers, B or more, room, H, E
        self.spare: Tensor | None = None  # room for the rows that `select` takes
        self.lengths = lengths  # B
        self.longest = longest
        self.lockstep = lockstep
        self.ahead: Rectangle | None = None  # how keys lie with those of the step that runs now: once for all layers

    @classmethod
    def empty(cls, n_layers: int, n_rows: int, room: int, heads: tuple[int, int], like: Tensor) -> "Cache":
        """`heads` says how many heads of keys there are and how wide one is; `like` is a tensor of their type."""
        content = like.new_zeros(2, n_layers, n_rows, room, *heads)
        lengths = torch.zeros(n_rows, dtype=torch.long, device=like.device)
        return cls(content, lengths, 0, lockstep=True)

    @classmethod
    def holding(cls, memories: list[Memory]) -> "Cache":
        """What an encoder left for each decoder layer, padded once so that no step has to."""
        layout = memories[0].layout
        content = torch.stack(
            [
                torch.stack([layout.pad(memory.keys) for memory in memories]),
                torch.stack([layout.pad(memory.values) for memory in memories]),
            ]
        )
        return cls(content, layout.lengths, layout.longest, lockstep=layout.is_full)

    @property
    def room(self) -> int:
        return self.content.shape[3]

    def memory(self, layer: int) -> Memory:
        """All that one layer holds."""
        if self.ahead is None or self.ahead.lengths is not self.lengths or self.ahead.longest != self.longest:
            self.ahead = Rectangle(self.lengths, self.longest, is_full=self.lockstep)
        keys, values = self.content[:, layer, : self.n_rows, : self.longest].unbind()
        return Memory(keys, values, self.ahead)

    def queries(self, n: int) -> Rectangle:
        self.ahead = Rectangle(self.lengths + n, self.longest + n, is_full=self.lockstep)
        return super().queries(n)

    def layer(self, index: int) -> Past:
        return partial(self.extend, index)

    def make_room(self, n: int) -> None:
        """There is room for all that will ever be read."""

    def extend(self, layer: int, new: Memory) -> Memory:
        """Write the new keys and values (B, n, H, E) of a layer after the old ones and return all of them."""
        n, ahead = new.keys.shape[1], self.ahead
        assert self.longest + n <= self.room, f"{self.longest} + {n} tokens do not fit in {self.room}"
        assert ahead is not None and ahead.longest == self.longest + n, "ask for `queries` before a step"
        keys, values = self.content[:, layer, : self.n_rows, : ahead.longest].unbind()
        if self.lockstep:
            keys[:, self.longest :], values[:, self.longest :] = new.keys, new.values
        else:
            rows = ahead.once("rows", lambda: torch.arange(self.n_rows, device=keys.device)[:, None])
            columns = ahead.once("columns", lambda: self.lengths[:, None] + torch.arange(n, device=keys.device))
            keys[rows, columns], values[rows, columns] = new.keys.to(keys.dtype), new.values.to(values.dtype)
        return Memory(keys, values, ahead)

    def advance(self, n: int) -> None:
        """Call once when every layer has been extended by n tokens."""
        self.lengths += n
        self.longest += n
        self.ahead = None

    def select(self, rows: Tensor) -> None:
        """Keep these sequences, in this order; one may be taken several times or not at all."""
        capacity = self.content.shape[2]
        if len(rows) > capacity or self.content.is_cuda:
            self.content, self.spare = self.content.index_select(2, rows), None
        else:  # from one room into another and back: half of what copying in place takes
            # Zeros, because a mask hides what is not used yet from the weights, but 0 times NaN is NaN.
            taken = torch.zeros_like(self.content) if self.spare is None else self.spare
            width = self.longest * self.content.shape[-2] * self.content.shape[-1]
            for layer, into in zip(self.content.flatten(0, 1).flatten(2), taken.flatten(0, 1).flatten(2), strict=True):
                torch.index_select(layer[:, :width], 0, rows, out=into[: len(rows), :width])
            self.content, self.spare = taken, self.content
        self.lengths = self.lengths[rows]
        if not (self.lockstep or self.content.is_cuda):  # there the host would wait
            self.measure()

    def truncate(self, lengths: Tensor) -> None:
        """Forget all but the first `lengths` tokens of each sequence."""
        self.lengths.copy_(torch.minimum(self.lengths, lengths))
        self.ahead = None
        self.measure()

    def measure(self) -> None:
        """Columns that no sequence has reached are not looked at."""
        self.longest = int(self.lengths.max()) if self.n_rows else 0
        self.lockstep = bool((self.lengths == self.longest).all())

    @property
    def rooms(self) -> tuple[int, ...]:
        return (self.room,)

    def pooled(self, n_rows: int, rooms: tuple[int, ...]) -> "Cache":
        (room,) = rooms
        content = self.content.new_zeros(*self.content.shape[:2], n_rows, room, *self.content.shape[4:])
        return PooledCache(content, self.lengths.new_zeros(n_rows), room, lockstep=False)

    def put(self, rows: Tensor, other: "Cache") -> None:
        width = min(other.longest, self.room)
        self.content[:, :, rows, :width] = other.content[:, :, : other.n_rows, :width]
        self.lengths[rows] = other.lengths

    def taken(self, rows: Tensor) -> "Cache":
        content = self.content.index_select(2, rows)
        return Cache(content, self.lengths[rows], self.longest, lockstep=False)

    def changing(self) -> list[Tensor]:
        return [self.lengths]

    def join(self, other: "Cache") -> None:
        """Put another cache's sequences after these."""
        n_both = self.n_rows + other.n_rows
        capacity, room = self.content.shape[2], max(self.room, other.room)
        if n_both > capacity or room > self.room:
            grown = max(n_both, capacity + capacity // 2) if n_both > capacity else capacity
            content = self.content.new_zeros(*self.content.shape[:2], grown, room, *self.content.shape[4:])
            content[:, :, : self.n_rows, : self.room] = self.content[:, :, : self.n_rows]
            self.content, self.spare = content, None
        into = self.content[:, :, self.n_rows : n_both]
        into[:, :, :, : other.room] = other.content[:, :, : other.n_rows]
        into[:, :, :, other.room :] = 0
        self.lockstep = self.lockstep and other.lockstep and self.longest == other.longest
        self.lengths = torch.cat([self.lengths, other.lengths])
        self.longest = max(self.longest, other.longest)


class PooledCache(Cache):
    """A cache whose tensors stay in place.  It shows its whole room at every step, so that a step has one shape and a
    CUDA graph can hold it; `lengths` says how much of the room each row uses.

    Rows that change places leave their keys and values where they are: `ancestors` (B, room) says in which row each
    token of a row was written.
    """

    def __init__(self, content: Tensor, lengths: Tensor, longest: int, lockstep: bool):
        super().__init__(content, lengths, longest, lockstep)
        self.own = torch.arange(self.n_rows, device=lengths.device)
        self.ancestors = self.own[:, None].repeat(1, self.room)
        self.is_reordered = False  # ever: then ancestors count
        self.ends = self.lengths  # how many tokens each row has with the one that is being read

    def memory(self, layer: int) -> Memory:
        return self.view(layer, self.lengths)

    def view(self, layer: int, lengths: Tensor) -> Memory:
        keys, values = self.content[:, layer]
        return Memory(keys, values, Rectangle(lengths, self.room), self.ancestors if self.is_reordered else None)

    def queries(self, n: int) -> Rectangle:
        self.ends = self.lengths + n  # once for all layers
        return RowState.queries(self, n)

    def extend(self, layer: int, new: Memory) -> Memory:
        assert new.keys.shape[1] == 1, "a step of a CUDA graph has one token"
        memory = self.view(layer, self.ends)
        memory.new = new.keys[:, 0], new.values[:, 0]  # who looks at them writes them
        return memory

    def advance(self, n: int) -> None:
        self.lengths += n

    def reorder(self, rows: Tensor) -> None:
        self.is_reordered = True
        self.lengths.copy_(self.lengths[rows])
        is_written = torch.arange(self.room, device=rows.device) < self.lengths[:, None]
        self.ancestors.copy_(torch.where(is_written, self.ancestors[rows], self.own[:, None]))

    def put(self, rows: Tensor, other: Cache) -> None:
        super().put(rows, other)
        self.ancestors[rows] = rows[:, None]

    def taken(self, rows: Tensor) -> Cache:
        places = torch.arange(self.room, device=rows.device)
        return Cache(self.content[:, :, self.ancestors[rows], places], self.lengths[rows], self.room, lockstep=False)

    def changing(self) -> list[Tensor]:
        return [self.lengths, self.ancestors]


class TranslatorState(Generic[PS]):
    """What decoding has so far: each row's own past, and the memory of the source that `copies` rows share."""

    def __init__(self, own: PS, source: Cache, copies: int):
        self.own = own
        self.source = source
        self.copies = copies

    def spread(self, copies: int) -> None:
        """Give every source so many rows; until now each has one."""
        if copies == 1:
            return
        rows = torch.arange(self.source.n_rows, device=self.source.lengths.device)
        self.own.select(rows.repeat_interleave(copies))
        self.copies = copies

    @property
    def n_rows(self) -> int:
        return self.own.n_rows

    @property
    def lengths(self) -> Tensor:
        return self.own.lengths

    def across(self, n: int) -> Rectangle:
        """The rows of one source lie side by side: B sources, copies x n queries each."""
        return Rectangle(torch.full_like(self.source.lengths, self.copies * n), self.copies * n, is_full=True)

    def select(self, rows: Tensor) -> None:
        self.own.select(rows)
        self.source.select(rows[:: self.copies] // self.copies)

    def reorder(self, rows: Tensor) -> None:
        self.own.reorder(rows)

    def truncate(self, lengths: Tensor) -> None:
        self.own.truncate(lengths)

    def join(self, other: Self) -> None:
        assert self.copies == other.copies
        self.own.join(other.own)
        self.source.join(other.source)

    @property
    def rooms(self) -> tuple[int, ...]:
        return *self.source.rooms, *self.own.rooms

    def pooled(self, n_rows: int, rooms: tuple[int, ...]) -> Self:
        own, source = self.own.pooled(n_rows, rooms[1:]), self.source.pooled(n_rows // self.copies, rooms[:1])
        return type(self)(own, source, self.copies)

    def put(self, rows: Tensor, other: Self) -> None:
        self.own.put(rows, other.own)
        self.source.put(self.prompts_of(rows), other.source)

    def taken(self, rows: Tensor) -> Self:
        return type(self)(self.own.taken(rows), self.source.taken(self.prompts_of(rows)), self.copies)

    def prompts_of(self, rows: Tensor) -> Tensor:
        return rows[:: self.copies] // self.copies

    def changing(self) -> list[Tensor]:
        return self.own.changing()
