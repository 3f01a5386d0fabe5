"""Chat templates: conversations as tokens.  Who speaks, and where an answer ends, say tokens that no text becomes."""

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from regard.data.files.conversations import ASSISTANT, ROLES, Conversation, check_prompt
from regard.errors import ConfigError
from regard.text.tokenizer import Tokenizer


class Template:
    """<s> <system> Be brief. <user> Hello! <assistant> Hi. </s> <user> ..."""

    names: tuple[str, ...] = tuple(f"<{role}>" for role in ROLES)  # the tokens that it needs

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer, self.end_id = tokenizer, tokenizer.end_id
        self.first = [tokenizer.start_id]
        self.opening = {role: [tokenizer.special_id(name)] for role, name in zip(ROLES, self.names, strict=True)}
        self.closing: dict[str, list[int]] = {role: [self.end_id] if role == ASSISTANT else [] for role in ROLES}

    def text(self, role: str, content: str) -> str:
        """What stands between opening and closing."""
        return content

    @cached_property
    def head(self) -> dict[str, list[int]]:
        """What stands there before any content."""
        return {role: self.tokenizer.encode(self.text(role, "")) for role in ROLES}

    def prompts(self, conversations: Sequence[Conversation]) -> list[list[int]]:
        """The tokens up to where the assistant speaks."""
        for conversation in conversations:
            check_prompt(conversation)
        speaks = self.opening[ASSISTANT] + self.head[ASSISTANT]
        return [[*ids.tolist(), *speaks] for ids, _ in self.read(conversations)]

    def read(self, conversations: Sequence[Conversation]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of each conversation the tokens, and which of them the assistant says."""
        texts = [self.text(message.role, message.content) for talk in conversations for message in talk]
        contents = iter(self.tokenizer.encode_batch(texts))
        return [self.join((message.role, next(contents)) for message in talk) for talk in conversations]

    def join(self, messages: Iterable[tuple[str, list[int]]]) -> tuple[np.ndarray, np.ndarray]:
        ids, is_answer = [*self.first], [False] * len(self.first)
        for role, content in messages:
            n_before = len(self.head[role])
            parts = (self.opening[role] + content[:n_before], content[n_before:], self.closing[role])
            ids += [n for part in parts for n in part]
            learned = role == ASSISTANT
            is_answer += [False] * len(parts[0]) + [learned] * len(parts[1])
            is_answer += [learned and n == self.end_id for n in parts[2]]
        return np.array(ids, np.int64), np.array(is_answer, bool)


class ChatML(Template):
    r"""<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\nHi.<|im_end|>\n  (SmolLM, Qwen)"""

    names = ("<|im_start|>", "<|im_end|>")

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer, self.first = tokenizer, []
        start, self.end_id = (tokenizer.special_id(name) for name in self.names)
        self.opening = {role: [start] for role in ROLES}
        self.closing = {role: [self.end_id, *tokenizer.encode("\n")] for role in ROLES}

    def text(self, role: str, content: str) -> str:
        return f"{role}\n{content}"


TEMPLATES: tuple[type[Template], ...] = (Template, ChatML)


def template_of(tokenizer: Tokenizer) -> Template:
    """The first template whose tokens the tokenizer has."""
    for template in TEMPLATES:
        if set(template.names) <= set(tokenizer.special):
            return template(tokenizer)
    names = ", ".join(f'"{name}"' for name in Template.names)
    raise ConfigError(f"this tokenizer has no speaker tokens; a chat needs tokenizer.extra = [{names}]")
