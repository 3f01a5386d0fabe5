"""What models of text are: how probable a text is, and what comes next."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from torch import Tensor

from regard.models.interface import Model
from regard.nn.layout import Layout, Prompt
from regard.nn.state import S


class TextModel(Model):
    """How probable a text is, token by token."""

    @abstractmethod
    def nats(self, tokens: Tensor, labels: Tensor, layout: Layout) -> Tensor:
        """-log P of all labels, each after its token and those before it."""

    @abstractmethod
    def guesses(self, tokens: Tensor, layout: Layout) -> Tensor:
        """The likeliest next token after each (N)."""


C = TypeVar("C")  # what a model knows of texts that will go on; its rows are selected as those of a state


class TextWriter(TextModel, Generic[S, C]):
    """A model of text that also writes, from left to right."""

    @abstractmethod
    def carried_nats(self, tokens: Tensor, labels: Tensor, layout: Layout, state: C | None) -> tuple[Tensor, C]:
        """`nats` of texts that go on where the state (None: nowhere) was left; with the state after them."""

    @abstractmethod
    def start(self, prompts: Sequence[Prompt], begin: int, copies: int = 1, room: int = 256) -> tuple[S, Tensor]: ...

    @abstractmethod
    def step(self, tokens: Tensor, state: S) -> Tensor: ...
