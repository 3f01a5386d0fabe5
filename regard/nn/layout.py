"""Where each sequence lies in a batch.  A batch is flat: one row per token, and padding does not exist.

`Ragged` is the rule: rows (N, ...), sequences one after the other.  `Rectangle` is the exception: rows (B, T, ...),
for the places that step in lockstep (cached decoding) or cannot trace ragged offsets (export).  The same modules
run on both, because both answer `pad` (to B, T, ...) and `flatten` (back to their own rows).
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

TENSORS = ("lengths", "positions", "sequences", "places", "offsets")  # of a ragged layout
SHORT = 128  # tokens at most, of a sentence; full windows of a text have more


class Layout(ABC):
    """What attention and positions need to know about a batch of sequences."""

    lengths: Tensor  # B, tokens of each sequence
    starts: Tensor | None  # B, or 1 for all: the position of each sequence's first row (None: all begin at 0)
    positions: Tensor  # N or B T, the place of each row within its sequence
    longest: int
    n_sequences: int
    is_full: bool  # every sequence is as long as the longest: a rectangle without padding
    continues = False  # its rows come after those of the call before, which had the same sequences

    @property
    @abstractmethod
    def ends(self) -> Tensor:
        """N or B 1: how many tokens the sequence of each row has, from its beginning to its last row here."""

    @abstractmethod
    def pad(self, rows: Tensor) -> Tensor:
        """Rows -> (B, T, ...), zeros where a sequence has no token."""

    @abstractmethod
    def flatten(self, padded: Tensor) -> Tensor:
        """(B, T, ...) -> rows: the opposite of `pad`."""

    @abstractmethod
    def arrange(self, rows: Tensor) -> Tensor:
        """The same rows (..., D) in this layout's own shape."""

    def padded_positions(self) -> Tensor:
        """The places of (B, T), counted on past a sequence's end; only (1, T) when all begin at 0."""
        steps = torch.arange(self.longest, device=self.lengths.device)[None]
        return steps if self.starts is None else self.starts[:, None] + steps

    def once(self, what: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """What a module derives from the places; a rectangle keeps it from layer to layer."""
        return make()

    def places_among(self, keys: "Layout") -> Tensor:
        """The same counted from the first of the keys, which is not at 0 where a cache has dropped its oldest."""
        places = self.padded_positions()
        return places if keys.starts is None else places - keys.starts[:, None]


class Ragged(Layout):
    """Sequences of any lengths, one after the other: `Ragged([3, 1])` has rows 0 0 0 1."""

    def __init__(
        self, lengths: Sequence[int] | Tensor, device: torch.device | str | None = None, longest: int | None = None
    ):
        on_host = torch.as_tensor(lengths, dtype=torch.long, device="cpu")
        self.true_longest = int(on_host.max()) if len(on_host) else 0
        self.longest = longest or self.true_longest  # kernels may be given a rounder number
        self.n_sequences = len(on_host)
        self.n_rows = int(on_host.sum())
        self.is_full = self.n_rows == self.longest * self.n_sequences
        self.starts = None
        ends = on_host.cumsum(0)
        positions = torch.arange(self.n_rows) - (ends - on_host).repeat_interleave(on_host)
        sequence = torch.arange(self.n_sequences).repeat_interleave(on_host)
        offsets = torch.cat([ends.new_zeros(1), ends]).int()
        # One transfer for all of them, so that a GPU waits once.
        parts = [on_host, positions, sequence, sequence * self.longest + positions, offsets]
        moved = torch.cat([p.long() for p in parts]).to(device, non_blocking=True)
        self.lengths, self.positions, self.sequences, self.places, offsets = moved.split([len(p) for p in parts])
        self.offsets = offsets.int()  # B + 1, where each sequence begins: what the varlen kernels take

    @property
    def ends(self) -> Tensor:
        return self.lengths[self.sequences]

    def pad(self, rows: Tensor) -> Tensor:
        shape = (self.n_sequences, self.longest, *rows.shape[1:])
        if self.is_full:
            return rows.reshape(shape)
        return Scatter.apply(rows, self.places, self.n_sequences * self.longest).view(shape)

    def flatten(self, padded: Tensor) -> Tensor:
        rows = padded.flatten(0, 1)
        return rows if self.is_full else Gather.apply(rows, self.places)

    def arrange(self, rows: Tensor) -> Tensor:
        return rows.reshape(self.n_rows, rows.shape[-1])

    def rows_of(self, first: int, last: int) -> slice:
        """Those of the sequences from `first` to before `last`."""
        return slice(int(self.offsets[first]), int(self.offsets[last]))

    def part(self, first: int, last: int) -> "Ragged":
        """These sequences alone."""
        return Ragged(self.lengths[first:last], self.lengths.device)

    def to(self, device: torch.device | str) -> "Ragged":
        moved = self.mapped(lambda tensor: tensor.to(device, non_blocking=True))
        # Compiled code has one graph for all batches of sentences, also for the rare one without any padding.
        moved.is_full = self.is_full and (self.longest > SHORT or torch.device(device).type == "cpu")
        return moved

    def mapped(self, change: Callable[[Tensor], Tensor]) -> "Ragged":
        """The same layout with other copies of its tensors."""
        other = copy.copy(self)
        for name in TENSORS:
            setattr(other, name, change(getattr(self, name)))
        return other


class Prompt(Protocol):
    """What a model reads before it writes: a list of token ids, or an image (`ImagePrompt`)."""

    def __len__(self) -> int:
        """How many rows it becomes."""
        ...

    def __iter__(self) -> Iterator[int]:
        """Which prompt it is: its token ids, or some numbers that no other image has."""
        ...


def joined(sequences: Sequence[Prompt], device: torch.device) -> tuple[Tensor, Ragged]:
    """The tokens (N) of all sequences, and how they lie."""
    tokens = torch.tensor([token for sequence in sequences for token in sequence], dtype=torch.long, device=device)
    return tokens, Ragged([len(sequence) for sequence in sequences], device)


class Rectangle(Layout):
    """B sequences in T places each; only the first `lengths` of a sequence are tokens."""

    def __init__(
        self,
        lengths: Tensor,
        longest: int,
        is_full: bool = False,
        starts: Tensor | None = None,
        n_before: int | None = None,  # rows of each sequence before these, where all have as many
    ):
        self.lengths = lengths
        self.n_before = n_before
        self.longest = longest
        self.n_sequences = lengths.shape[0]
        self.is_full = is_full
        self.starts = starts
        self.kept: dict[Hashable, Tensor] = {}

    def once(self, what: Hashable, make: Callable[[], Tensor]) -> Tensor:
        if torch.compiler.is_compiling():
            return make()
        if what not in self.kept:
            self.kept[what] = make()
        return self.kept[what]

    @property
    def positions(self) -> Tensor:  # type: ignore[override]
        return self.once("positions", lambda: self.padded_positions().expand(self.n_sequences, -1))

    @property
    def offsets(self) -> Tensor:
        """B + 1, where each sequence begins, of rows that are whole sequences."""
        ends = self.longest * (self.n_sequences + 1)
        return self.once("offsets", lambda: torch.arange(0, ends, self.longest, device=self.lengths.device).int())

    @property
    def ends(self) -> Tensor:
        return (self.lengths if self.starts is None else self.starts + self.lengths)[:, None]

    def pad(self, rows: Tensor) -> Tensor:
        return rows

    def flatten(self, padded: Tensor) -> Tensor:
        return padded

    def arrange(self, rows: Tensor) -> Tensor:
        return rows.reshape(self.n_sequences, self.longest, rows.shape[-1])


class Moment(Rectangle):
    """Row `t` of B sequences that are read step by step, where a row needs what the one before it has seen."""

    def __init__(self, n_sequences: int, t: int, device: torch.device):
        ones = torch.ones(n_sequences, dtype=torch.long, device=device)
        super().__init__(ones, 1, is_full=True, starts=t * ones)
        self.continues = t > 0


class Scatter(torch.autograd.Function):
    """out[places] = rows.  Every place is used once, so the gradient is a plain gather: fast and deterministic.

    Not in place: torch 2.11 loses the gradients of what is written in place here, when it compiles.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor, n_places: int) -> Tensor:
        ctx.save_for_backward(places)
        return torch.index_copy(rows.new_zeros(n_places, *rows.shape[1:]), 0, places, rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (places,) = ctx.saved_tensors
        return gradient.index_select(0, places), None, None


class Gather(torch.autograd.Function):
    """out = padded[places]: the opposite of `Scatter`."""

    @staticmethod
    def forward(ctx: Any, padded: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.n_places = padded.shape[0]
        return padded.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        return torch.index_copy(gradient.new_zeros(ctx.n_places, *gradient.shape[1:]), 0, places, gradient), None


def filled(*layouts: Ragged) -> list[Ragged]:
    """Layouts of the same sequences with more after them, so that there are few sizes: rows are rounded, the number of
    sequences and the longest become powers of two.  No new sequence is longer than the true ones; the last are empty.
    """
    more = []
    for layout in layouts:
        whole, rest = divmod(rounded(layout.n_rows) - layout.n_rows, layout.true_longest)
        more.append([layout.true_longest] * whole + [rest])
    n_sequences = power_of_two(layouts[0].n_sequences + max(map(len, more)))
    longest = power_of_two(max(16, *(layout.true_longest for layout in layouts)))
    filled_layouts = []
    for layout, added in zip(layouts, more, strict=True):
        empty = [0] * (n_sequences - layout.n_sequences - len(added))
        filled_layouts.append(Ragged(torch.cat([layout.lengths, torch.tensor(added + empty)]), longest=longest))
    return filled_layouts


def rounded(n: int) -> int:
    """Up to a number of five binary digits followed by zeros: at most a sixteenth more."""
    unit = power_of_two(n) // 32 or 1
    return -(-n // unit) * unit


def power_of_two(n: int) -> int:
    """The next from n on."""
    return 1 << max(0, n - 1).bit_length()
