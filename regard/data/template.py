"""The chat template: who speaks is a special token, which no text becomes, and an answer ends with </s>.

<s> <system> Be brief. <user> Hello! <assistant> Hi. </s> <user> ...
"""

from collections.abc import Iterable, Sequence

import numpy as np

from regard.data.conversations import ASSISTANT, ROLES, Conversation, check_prompt
from regard.errors import ConfigError
from regard.text.tokenizer import Tokenizer


class Template:
    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        try:
            self.speakers = {role: tokenizer.special_id(f"<{role}>") for role in ROLES}
        except ConfigError as error:
            names = ", ".join(f'"<{role}>"' for role in ROLES)
            raise ConfigError(f"{error}; a chat needs tokenizer.extra = [{names}]") from None

    def prompts(self, conversations: Sequence[Conversation]) -> list[list[int]]:
        """The tokens up to the one after which the assistant speaks."""
        for conversation in conversations:
            check_prompt(conversation)
        return [[*ids.tolist(), self.speakers[ASSISTANT]] for ids, _ in self.read(conversations)]

    def read(self, conversations: Sequence[Conversation]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of each conversation the tokens, and which of them the assistant says."""
        texts = self.tokenizer.encode_batch([message.content for talk in conversations for message in talk])
        contents = iter(texts)
        return [self.join((message.role, next(contents)) for message in talk) for talk in conversations]

    def join(self, said: Iterable[tuple[str, list[int]]]) -> tuple[np.ndarray, np.ndarray]:
        ids, is_answer = [self.tokenizer.start_id], [False]
        for role, content in said:
            ids += [self.speakers[role], *content]
            is_answer += [False] + [role == ASSISTANT] * len(content)
            if role == ASSISTANT:
                ids.append(self.tokenizer.end_id)
                is_answer.append(True)
        return np.array(ids, np.int64), np.array(is_answer, bool)
