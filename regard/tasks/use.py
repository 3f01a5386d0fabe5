"""What a task needs of a run to answer: its model, and how to decode."""

from typing import Any, NamedTuple

from regard.decoding.config import DecodingConfig
from regard.decoding.interface import Generator


class Use(NamedTuple):
    """A model that is used: what a task's verbs and measures are given."""

    model: Any  # as the task built it
    generator: Generator[Any]  # what a search steps: the model, the model with CUDA graphs, or an ensemble
    decoding: DecodingConfig  # the recipe's, or as asked
