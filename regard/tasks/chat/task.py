"""Instruction tuning: conversations in, of which the assistant's words are learned."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from regard.checks import at_least, not_negative, one_of, share
from regard.data.batching.template import template_of
from regard.data.config import DataConfig
from regard.data.files.conversations import ROLES, USER, Dialogues, Message, as_one_text, dialogue_parts
from regard.data.files.recognizing import conversations
from regard.data.files.splits import Parts
from regard.data.report import Row, note_rows
from regard.evaluation.measured import Versus
from regard.evaluation.metric import perplexity
from regard.models.heads import LanguageModel
from regard.models.interface import Reader
from regard.tasks.chat.batches import AnswerBatch, Turns, answer_nats, mean_nats
from regard.tasks.chat.use import chat_verbs, look_at_talk, reply, usual_length
from regard.tasks.chat.versus import compare_talkers, share_equal
from regard.tasks.exchange import CAUSAL
from regard.tasks.setup import B, Sample, TaskConfig, Use
from regard.tasks.task import AnyTask, Task
from regard.viewer.capture import Capture
from regard.viewer.looking import Asked


@dataclass(frozen=True, kw_only=True)
class TalkConfig(TaskConfig):
    """What every task on conversations may set."""

    shown: int = 2  # answers written at each validation
    sample_length: int = 60  # the most tokens of each, there and in `regard evaluate`

    def __post_init__(self) -> None:
        not_negative(self, "shown")
        at_least(self, 1, "sample_length")


@dataclass(frozen=True, kw_only=True)
class ChatConfig(TalkConfig):
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        share(self, "smoothing")
        one_of(self, ("loss",), "metric")


class Talk(Task[Dialogues, Turns, LanguageModel, B]):
    """What all tasks on conversations have in common."""

    compared_as = "conversations"
    cut_once = "a conversation"
    exchange = CAUSAL
    commands = ("regard chat RUN", "regard evaluate RUN")
    answer_names: ClassVar[tuple[str, ...]] = ("answer",)
    config: Any

    @classmethod
    def read_parts(cls, config: TalkConfig, data: DataConfig) -> Parts[Dialogues]:
        return dialogue_parts(data, cls.answer_names)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        train = dialogue_parts(data, cls.answer_names).train
        yield from (message.content for prompt in train.prompts for message in prompt)
        yield from (answer for answers in train.answers for answer in answers)

    def part(self, raw: Dialogues, to_learn: bool) -> Turns:
        last_only = len(self.answer_names) > 1  # where answers are compared, only they count
        return Turns(raw, self.tokenizer, self.max_length, last_only)

    @classmethod
    def build(cls, config: TalkConfig, model: Reader[Any]) -> LanguageModel:
        return LanguageModel(model)

    def encode(self, text: str) -> list[int]:
        """As what a user says, up to where the answer begins."""
        return template_of(self.tokenizer).prompts([(Message(USER, text),)])[0]

    def first_samples(self, model: LanguageModel, valid: Turns) -> list[Sample]:
        """What the model answers to the first validation prompts."""
        few, chosen = valid.dialogues, valid.kept[: self.config.shown]
        prompts = [few.prompts[i] for i in chosen]
        plain = replace(self.setup.decoding, beam=1, n_best=1)
        replies = reply(model, self.tokenizer, prompts, usual_length(model, self.config.sample_length), plain)
        return [
            (as_one_text(prompt), few.answers[i][0], answer.text)
            for prompt, i, answer in zip(prompts, chosen, replies, strict=True)
        ]

    def replies(self, use: Use, turns: Turns) -> list[str]:
        """What a model answers to every prompt."""
        prompts = [turns.dialogues.prompts[i] for i in turns.kept]
        length = usual_length(use.model, self.config.sample_length)
        return [answer.text for answer in reply(use.generator, self.tokenizer, prompts, length, use.decoding)]

    def versus(self, use: Use, other: AnyTask, its: Use, files: Sequence[str]) -> Versus:
        return compare_talkers((self, use), (other, its), files)

    def inspect(self) -> list[Row]:
        return [row for name, part in self.parts().items() for row in part_rows(name, part, self.answer_names)]

    @property
    def verbs(self) -> Mapping[str, Callable[[Use, Any], Any]]:
        return {**chat_verbs(self.tokenizer), **super().verbs}

    def look(self, use: Use, source: str, target: str | None, asked: Asked) -> Capture:
        return look_at_talk(use, self.tokenizer, source, target, asked)


class InstructionTuning(Talk[AnswerBatch]):
    """-log P of the assistant's words."""

    settings = ChatConfig
    purpose = "was trained to answer in conversations"
    recognize = staticmethod(partial(conversations, answers=("answer",)))
    config: ChatConfig

    def collate(self, part: Turns, chosen: np.ndarray, epoch: int | None = None) -> AnswerBatch:
        return part.batch(chosen)

    def nats(self, model: LanguageModel, batch: AnswerBatch, smoothing: float) -> Tensor:
        return answer_nats(model, batch, smoothing)

    def figures(self, model: LanguageModel, part: Turns) -> dict[str, float]:
        """Nats a token of the answers, and what they mean."""
        loss = mean_nats(model, part, self.batch_tokens)
        return {"loss": loss, "perplexity": perplexity(loss)}

    def test_figures(self, use: Use, part: Turns) -> dict[str, float]:
        """Also how often the model gives just the answer that the data have."""
        answers = [part.dialogues.answers[i][0] for i in part.kept]
        return {**self.figures(use.model, part), "exactly the answer, %": share_equal(self.replies(use, part), answers)}

    def signature(self, part: Turns) -> str:
        return f"conversations:{len(part)}|tokens:{part.n_targets}|tok:{self.tokenizer.kind}"


def part_rows(name: str, turns: Turns, answers: tuple[str, ...]) -> list[Row]:
    dialogues = turns.dialogues
    n_messages = {role: sum(m.role == role for prompt in dialogues.prompts for m in prompt) for role in ROLES}
    rows = [
        Row(name, "conversations", f"{len(dialogues):,}"),
        Row(name, "messages before the answer", ", ".join(f"{role} {n:,}" for role, n in n_messages.items())),
        Row(name, "tokens, longest", f"{turns.lengths.sum():,}, {turns.lengths.max():,}"),
    ]
    for a, answer in enumerate(answers):
        texts = [answers_to_prompt[a] for answers_to_prompt in dialogues.answers]
        empty = [i for i, text in enumerate(texts) if not text.strip()]
        rows.append(Row(name, f"{answer}: characters", f"{sum(map(len, texts)):,}"))
        rows.append(Row(name, f"{answer}: empty", f"{len(empty):,}", dialogues.places[empty[0]] if empty else ""))
    return rows + note_rows(name, turns.notes)
