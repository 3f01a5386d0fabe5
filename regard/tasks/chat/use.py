"""A chat at work: the assistant's next message."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.data.batching.template import Template, template_of
from regard.data.files.conversations import SYSTEM, Conversation
from regard.decoding.config import DecodingConfig
from regard.decoding.search import generate, stream
from regard.decoding.stopping import Stops, TextPieces
from regard.errors import RegardError
from regard.text.tokenizer import Tokenizer

LONGEST = 256  # tokens of an answer, unless more are asked for


@dataclass(frozen=True)
class Reply:
    text: str
    log_prob: float  # with its end, where it has one
    finished: bool  # False: the length limit came first
    notes: tuple[str, ...] = ()  # what happened to the conversation


def reply(
    model: Any, tokenizer: Tokenizer, conversations: Sequence[Conversation], length: int | None, config: DecodingConfig
) -> list[Reply]:
    """The best answer to the last message of each, of at most `length` tokens (None: see `usual_length`)."""
    length = usual_length(model) if length is None else length
    template = template_of(tokenizer)
    read = [fitted(template, talk, room(model, length)) for talk in conversations]
    config = replace(config, length_ratio=0.0, extra_length=length)
    found = generate(model, [ids for ids, _ in read], config, tokenizer.start_id, template.end_id)
    return [
        Reply(tokenizer.decode(best.tokens).strip(), best.log_prob, best.finished, notes)
        for (best, *_), (_, notes) in zip(found, read, strict=True)
    ]


def reply_stream(
    model: Any, tokenizer: Tokenizer, conversation: Conversation, length: int | None, config: DecodingConfig
) -> TextPieces:
    """The same of one conversation, in pieces as it is written."""
    length = usual_length(model) if length is None else length
    template = template_of(tokenizer)
    ids, notes = fitted(template, conversation, room(model, length))
    config = replace(config, length_ratio=0.0, extra_length=length)

    def decode(tokens: Iterable[int]) -> str:
        return tokenizer.decode(tokens).lstrip()

    nowhere = Stops((), decode)
    return TextPieces(stream(model, ids, config, tokenizer.start_id, template.end_id, nowhere), nowhere, notes)


def usual_length(model: Any, most: int = LONGEST) -> int:
    """At most half of what the model can hold: the rest is for the conversation."""
    return min(model.config.max_length // 2, most)


def room(model: Any, length: int) -> int:
    """How many tokens of a conversation can be read before `length` more."""
    most: int = model.config.max_length - length + 1  # the last one written is not read
    if length < 1 or most < 2:
        raise RegardError(f"an answer of {length} tokens does not fit the model's {model.config.max_length}")
    return most


def fitted(template: Template, conversation: Conversation, most: int) -> tuple[list[int], tuple[str, ...]]:
    """The tokens of a conversation.  Of one that is too long the oldest turns are left out, the system's word stays."""
    (ids,) = template.prompts([conversation])
    left_out = 0
    while len(ids) > most and (shorter := without_first_turn(conversation)):
        conversation, left_out = shorter, left_out + 1
        (ids,) = template.prompts([conversation])
    notes = (f"too long: the first {left_out} turns were left out",) if left_out else ()
    if len(ids) > most:
        notes = (*notes, f"too long: only its last {most:,} of {len(ids):,} tokens were read")
    return ids[-most:], notes


def without_first_turn(conversation: Conversation) -> Conversation:
    """Without the first message of the user and its answer; () if there is none but the last."""
    kept, rest = (conversation[:1], conversation[1:]) if conversation[0].role == SYSTEM else ((), conversation)
    return kept + rest[2:] if len(rest) > 2 else ()
