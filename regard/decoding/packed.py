"""A model that is stepped with copies of its weights."""

from typing import Generic

from torch import Tensor

from regard.decoding.interface import Generator, Prompts
from regard.nn.packed import COPIES, Copies
from regard.nn.state import S


class Packed(Generic[S]):
    """The model, with the same answers."""

    is_capturable = False

    def __init__(self, model: Generator[S], copies: Copies) -> None:
        self.model, self.copies = model, copies

    @property
    def max_length(self) -> int:
        return self.model.max_length

    @property
    def reads_on(self) -> bool:
        return self.model.reads_on

    def check_room(self, n_rows: int, room: int) -> None:
        self.model.check_room(n_rows, room)

    def start(self, prompts: Prompts, begin: int, copies: int = 1, room: int = 256) -> tuple[S, Tensor]:
        with self.copies:
            return self.model.start(prompts, begin, copies, room)

    def step(self, tokens: Tensor, state: S) -> Tensor:
        with self.copies:
            return self.model.step(tokens, state)


def packed(model: Generator[S], weights: str) -> Packed[S]:
    """`weights` is one of COPIES."""
    return Packed(model, COPIES[weights]())
