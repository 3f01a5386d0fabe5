"""What can be asked of a run that talks: its next message."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.decoding.config import DecodingConfig
from regard.tasks.request import Request


@dataclass(frozen=True)
class Reply:
    text: str
    log_prob: float  # with its end, where it has one
    finished: bool  # False: the length limit came first
    notes: tuple[str, ...] = ()  # what happened to the conversation


@dataclass(frozen=True)
class Chat(Request[Reply]):
    """The answer to the last of the messages, each such as {"role": "user", "content": "Hello!"}."""

    name = "chat"

    messages: Sequence[dict[str, str]]
    length: int | None = None  # None: half of what the model holds
    decoding: DecodingConfig | None = None


@dataclass(frozen=True)
class ChatStream(Chat):
    """The same answer in pieces, as it is written."""

    name = "chat_stream"
