"""The assistant's next message in a conversation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from regard.data.batching.template import Template, template_of
from regard.data.files.conversations import SYSTEM, Conversation, read_messages
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.decoding.stopping import Stops, TextPieces
from regard.errors import RegardError
from regard.models.heads import LanguageModel
from regard.tasks.chat.batches import Script
from regard.tasks.chat.verbs import Chat, ChatStream, Reply
from regard.tasks.setup import Use, Verbs
from regard.text.tokenizer import Tokenizer

LONGEST = 256  # tokens of an answer, unless more are asked for


@dataclass(frozen=True)
class Talker:
    """What every language model can do in a conversation, whatever it was trained for."""

    tokenizer: Tokenizer

    @property
    def verbs(self) -> Verbs:
        return {"chat": self.chat, "chat_stream": self.chat_stream}

    def chat(self, use: Use, ask: Chat) -> Reply:
        use = use._replace(decoding=ask.decoding or use.decoding)
        return self.reply(use, [read_messages(list(ask.messages))], ask.length, ask.stop)[0]

    def chat_stream(self, use: Use, ask: ChatStream) -> TextPieces:
        """The same, in pieces as it is written."""
        most, config = limited(use.engine.max_length, ask.length, ask.decoding or use.decoding)
        template = template_of(self.tokenizer)
        ids, notes = fitted(template, read_messages(list(ask.messages)), most)

        def decode(tokens: Iterable[int]) -> str:
            return self.tokenizer.decode(tokens).lstrip()

        tokens = use.engine.stream(ids, config, self.tokenizer.start_id, template.end_id, self.stops(ask.stop))
        return TextPieces(tokens, Stops(ask.stop, decode), notes)

    def stops(self, strings: Sequence[str]) -> Stops | None:
        return Stops(strings, self.tokenizer.decode) if strings else None

    def reply(
        self, use: Use, conversations: Sequence[Conversation], length: int | None, stop: Sequence[str] = ()
    ) -> list[Reply]:
        """The best answer to the last message of each, of at most `length` tokens (None: see `usual_length`), up to a
        stop string."""
        most, config = limited(use.engine.max_length, length, use.decoding)
        template = template_of(self.tokenizer)
        read = [fitted(template, talk, most) for talk in conversations]
        sources = [ids for ids, _ in read]
        stops, start_id = self.stops(stop), self.tokenizer.start_id
        hypotheses = use.engine.generate(sources, config, start_id, template.end_id, stops=stops)
        ending = stops or Stops((), self.tokenizer.decode)
        return [
            Reply(ending.cut(self.tokenizer.decode(best.tokens).strip()), best.log_prob, best.finished, notes)
            for (best, *_), (_, notes) in zip(hypotheses, read, strict=True)
        ]


def write_answers(
    model: LanguageModel, tokenizer: Tokenizer, prompts: list[list[int]], most: int, decoding: DecodingConfig
) -> list[Script]:
    """Each prompt with each of its answers of at most `most` tokens, up to its end where it has one."""
    template = template_of(tokenizer)
    config = limited(model.max_length, usual_length(model.max_length, most), decoding)[1]
    scripts = []
    hypotheses = generate(model, prompts, config, tokenizer.start_id, template.end_id)
    for prompt, answers in zip(prompts, hypotheses, strict=True):
        for answer in answers:
            tokens = [*answer.tokens, *([template.end_id] if answer.finished else [])]
            ids = np.array([*prompt, *tokens], np.int64)
            scripts.append((ids, np.arange(len(ids)) >= len(prompt)))
    return scripts


def usual_length(room: int, most: int = LONGEST) -> int:
    """At most half of the tokens that a model has room for: the rest is for the conversation."""
    return min(room // 2, most)


def limited(room: int, length: int | None, config: DecodingConfig) -> tuple[int, DecodingConfig]:
    """How many tokens of a conversation a model with room for `room` can read, and the settings for `length` more."""
    length = usual_length(room) if length is None else length
    most = room - length + 1  # the last one written is not read
    if length < 1 or most < 2:
        raise RegardError(f"an answer of {length} tokens does not fit the model's {room}")
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
    first, rest = (conversation[:1], conversation[1:]) if conversation[0].role == SYSTEM else ((), conversation)
    return first + rest[2:] if len(rest) > 2 else ()
