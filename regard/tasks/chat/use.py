"""The assistant's next message in a conversation."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from regard.data.batching.template import Template, template_of
from regard.data.files.conversations import ASSISTANT, SYSTEM, USER, Conversation, Message, read_messages
from regard.decoding.config import DecodingConfig
from regard.decoding.interface import Generator, S
from regard.decoding.search import generate, stream
from regard.decoding.stopping import Stops, TextPieces
from regard.errors import RegardError
from regard.tasks.chat.verbs import Chat, ChatStream, Reply
from regard.tasks.setup import Use
from regard.text.tokenizer import Tokenizer
from regard.viewer.capture import Capture
from regard.viewer.looking import Asked, look_at_text

LONGEST = 256  # tokens of an answer, unless more are asked for


def reply(
    model: Generator[S],
    tokenizer: Tokenizer,
    conversations: Sequence[Conversation],
    length: int | None,
    config: DecodingConfig,
) -> list[Reply]:
    """The best answer to the last message of each, of at most `length` tokens (None: see `usual_length`)."""
    most, config = limited(model, length, config)
    template = template_of(tokenizer)
    read = [fitted(template, talk, most) for talk in conversations]
    hypotheses = generate(model, [ids for ids, _ in read], config, tokenizer.start_id, template.end_id)
    return [
        Reply(tokenizer.decode(best.tokens).strip(), best.log_prob, best.finished, notes)
        for (best, *_), (_, notes) in zip(hypotheses, read, strict=True)
    ]


def reply_stream(
    model: Generator[S], tokenizer: Tokenizer, conversation: Conversation, length: int | None, config: DecodingConfig
) -> TextPieces:
    """The same of one conversation, in pieces as it is written."""
    most, config = limited(model, length, config)
    template = template_of(tokenizer)
    ids, notes = fitted(template, conversation, most)

    def decode(tokens: Iterable[int]) -> str:
        return tokenizer.decode(tokens).lstrip()

    nowhere = Stops((), decode)
    return TextPieces(stream(model, ids, config, tokenizer.start_id, template.end_id, nowhere), nowhere, notes)


def chat_verbs(tokenizer: Tokenizer) -> dict[str, Callable[[Use, Any], Any]]:
    """What every language model can do in a conversation, whatever it was trained for."""

    def chat(use: Use, ask: Chat) -> Reply:
        talk = read_messages(list(ask.messages))
        return reply(use.generator, tokenizer, [talk], ask.length, ask.decoding or use.decoding)[0]

    def chat_stream(use: Use, ask: ChatStream) -> TextPieces:
        talk = read_messages(list(ask.messages))
        return reply_stream(use.generator, tokenizer, talk, ask.length, ask.decoding or use.decoding)

    return {"chat": chat, "chat_stream": chat_stream}


def look_at_talk(use: Use, tokenizer: Tokenizer, source: str, target: str | None, asked: Asked) -> Capture:
    """An assistant that reads what the user says and writes its answer."""
    asked.check(use.model)
    if target is None:
        target = reply(use.generator, tokenizer, [(Message(USER, source),)], None, use.decoding)[0].text
    ((ids, _),) = template_of(tokenizer).read([(Message(USER, source), Message(ASSISTANT, target))])
    return look_at_text(use.model, tokenizer, ids.tolist(), f"{source} → {target}", asked)


def usual_length(model: Generator[S], most: int = LONGEST) -> int:
    """At most half of what the model can hold: the rest is for the conversation."""
    return min(model.max_length // 2, most)


def limited(model: Generator[S], length: int | None, config: DecodingConfig) -> tuple[int, DecodingConfig]:
    """How many tokens of a conversation can be read, and the settings for `length` tokens more."""
    length = usual_length(model) if length is None else length
    most = model.max_length - length + 1  # the last one written is not read
    if length < 1 or most < 2:
        raise RegardError(f"an answer of {length} tokens does not fit the model's {model.max_length}")
    return most, replace(config, length_ratio=0.0, extra_length=length)


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
