"""Memory that stops growing: of the rows of every layer the last few are kept, however long a text becomes."""

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.errors import RegardError
from regard.nn.attention import Memory, Past
from regard.nn.layout import Rectangle
from regard.nn.state import RowState


def full(n_sequences: int, n: int, like: Tensor, start: int | None = None) -> Rectangle:
    """Sequences of `n` rows each, all of them beginning at one place."""
    lengths = torch.full((n_sequences,), n, device=like.device)
    starts = None if start is None else lengths.new_full((1,), start)
    return Rectangle(lengths, n, is_full=True, starts=starts, n_before=start or 0)


def last_rows(old: Tensor, new: Tensor, n: int) -> Tensor:
    """The last n rows of (B, M, D) and (B, T, D), without the memory of those before them, as a view would keep it."""
    n_old = min(max(0, n - new.shape[1]), old.shape[1])
    return torch.cat([old[:, old.shape[1] - n_old :].to(new.dtype), new[:, -n:]], 1)


def with_room(content: Tensor, room: int) -> Tensor:
    """(2, layers, B, M, H, E) with zeros after the M rows, up to `room` of them."""
    missing = room - content.shape[3]
    return F.pad(content, (0, 0, 0, 0, 0, missing)) if missing else content


def refuse_taking_back(read: Tensor, wanted: Tensor) -> None:
    if (wanted < read).any():
        raise RegardError("a memory that drops its oldest rows cannot take tokens back")


class SegmentMemory(RowState):
    """What each layer read last, SG(h^(l-1)), for the segment that comes next  (Dai et al. 2019, section 3.2)

    Rows and not their keys, so that the weights that make keys learn from them, too.
    """

    def __init__(self, layers: list[Tensor], lengths: Tensor):
        self.layers = layers  # each (B, M, D), without gradients
        self.lengths = lengths  # B

    def tensors(self) -> dict[str, Tensor]:
        return {**{f"layer.{i}": layer for i, layer in enumerate(self.layers)}, "lengths": self.lengths}

    def select(self, rows: Tensor) -> None:
        self.layers = [layer.index_select(0, rows) for layer in self.layers]
        self.lengths = self.lengths[rows]

    def truncate(self, lengths: Tensor) -> None:
        refuse_taking_back(self.lengths, lengths)

    def join(self, other: "SegmentMemory") -> None:
        self.layers = [torch.cat(pair) for pair in zip(self.layers, other.layers, strict=True)]
        self.lengths = torch.cat([self.lengths, other.lengths])


class RollingCache(RowState):
    """The keys and values of the first `n_first` and the last `n_kept` rows of every layer, for B sequences of any
    length.

    Its room grows with what is written, up to twice as many of the last: when it is full, the older half is dropped.  A
    rule, not the room, says who looks at whom, so that nobody sees when this happens.  What follows the first rows
    moves towards them: a rule and a position that measure no distance to these, but know how many they are, do not see
    that either.
    """

    def __init__(self, content: Tensor, lengths: Tensor, n_kept: int, n_first: int = 0):
        self.content = content  # 2 (keys, values), layers, B, room, H, E
        self.lengths = lengths  # B, rows read so far
        self.starts = torch.zeros_like(lengths)  # B, how many of them were dropped
        self.n_kept, self.n_first = n_kept, n_first
        self.longest = 0  # rows held, of the sequence that has most

    @classmethod
    def empty(
        cls, n_layers: int, n_rows: int, room: int, n_kept: int, heads: tuple[int, int], like: Tensor, n_first: int = 0
    ) -> "RollingCache":
        """`room` rows are expected; `heads` says how many heads of keys there are and how wide one is; `like` is a
        tensor of their type."""
        content = like.new_zeros(2, n_layers, n_rows, min(room, n_first + 2 * n_kept), *heads)
        return cls(content, torch.zeros(n_rows, dtype=torch.long, device=like.device), n_kept, n_first)

    def layer(self, index: int) -> Past:
        return partial(self.extend, index)

    def make_room(self, n: int) -> None:
        """For `n` more rows, at most `n_kept`: call before the layers are extended."""
        wanted, most = self.longest + n, self.n_first + 2 * self.n_kept
        if self.content.shape[3] < min(wanted, most):
            self.content = with_room(self.content, min(most, max(wanted, 2 * self.content.shape[3])))
        if wanted > self.content.shape[3]:
            self.keep(self.n_kept)

    def keep(self, n: int) -> None:
        """Drop all but the first rows and the last n."""
        held, last = self.lengths - self.starts, self.n_first + n
        if last >= self.longest:
            return
        dropped = (held - last).clamp(min=0)
        rows = torch.arange(self.n_rows, device=held.device)[:, None]
        columns = dropped[:, None] + torch.arange(self.n_first, last, device=held.device)
        self.content[:, :, :, self.n_first : last] = self.content[:, :, rows, columns]
        self.starts = self.starts + dropped
        self.longest = last

    def extend(self, layer: int, new: Memory) -> Memory:
        """Write the new keys and values (B, n, H, E) of a layer after the old ones and return all of them."""
        n, held = new.keys.shape[1], self.lengths - self.starts
        keys, values = self.content[:, layer]
        rows = torch.arange(self.n_rows, device=held.device)[:, None]
        columns = held[:, None] + torch.arange(n, device=held.device)
        keys[rows, columns], values[rows, columns] = new.keys.to(keys.dtype), new.values.to(values.dtype)
        longest = self.longest + n
        return Memory(keys[:, :longest], values[:, :longest], Rectangle(held + n, longest, starts=self.starts))

    def advance(self, n: int) -> None:
        """Call once when every layer has been extended by n rows."""
        self.lengths = self.lengths + n
        self.longest += n

    def select(self, rows: Tensor) -> None:
        self.content = self.content.index_select(2, rows)
        self.lengths, self.starts = self.lengths[rows], self.starts[rows]

    def truncate(self, lengths: Tensor) -> None:
        refuse_taking_back(self.lengths, lengths)

    def join(self, other: "RollingCache") -> None:
        room = max(self.content.shape[3], other.content.shape[3])
        self.content = torch.cat([with_room(content, room) for content in (self.content, other.content)], 2)
        self.lengths = torch.cat([self.lengths, other.lengths])
        self.starts = torch.cat([self.starts, other.starts])
        self.longest = max(self.longest, other.longest)
