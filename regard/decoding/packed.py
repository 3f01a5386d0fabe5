"""A model that is stepped with copies of its weights."""

from contextlib import AbstractContextManager
from typing import Generic

import torch
from torch import Tensor

from regard.decoding.interface import Generator, Prompts
from regard.errors import ConfigError
from regard.nn.packed import COPIES, JoinedWeights
from regard.nn.state import S


class Packed(Generic[S]):
    """The model, with the same answers."""

    is_capturable = False

    def __init__(self, model: Generator[S], copies: AbstractContextManager[None]) -> None:
        self.model, self.copies = model, copies

    @property
    def device(self) -> torch.device:
        return self.model.device

    def halved(self) -> "Packed[S]":
        return Packed(self.model.halved(), self.copies)

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
    """The model as it is stepped fastest, its weights read so (`DecodingConfig.weights`)."""
    if model.device.type == "cpu":
        return Packed(model.halved() if weights == "bfloat16" else model, COPIES[weights]())
    if weights == "int8":
        raise ConfigError('decoding.weights = "int8" is for a CPU; on a GPU take "bfloat16"')
    return Packed(model.halved() if weights == "bfloat16" else model, JoinedWeights())
