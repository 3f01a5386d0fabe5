"""Instruction tuning: conversations in, of which the assistant's words are learned."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from regard.checks import at_least, not_negative, one_of, share
from regard.data.batching.packing import cut
from regard.data.batching.template import template_of
from regard.data.config import DataConfig
from regard.data.files.conversations import (
    ASSISTANT,
    ROLES,
    USER,
    Conversation,
    Dialogues,
    Message,
    as_one_text,
    dialogue_parts,
    read_dialogues,
)
from regard.data.files.recognizing import conversations
from regard.data.files.splits import Parts
from regard.data.report import Row, note_rows
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.errors import ConfigError
from regard.evaluation.measured import Versus, perplexity
from regard.models.heads import LanguageModel
from regard.models.interface import AnyReader
from regard.tasks.chat.batches import AnswerBatch, Turns, answer_divergences, answer_nats, make_batch, mean_nats
from regard.tasks.chat.sizing import draft_for
from regard.tasks.chat.use import Talker, usual_length, write_answers
from regard.tasks.exchange import CAUSAL
from regard.tasks.setup import B, M, Sample, TaskConfig, Use, Verbs
from regard.tasks.task import AnyTask, Task
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus, look_at_text

PAIR, SINGLE = ("chosen", "rejected"), ("answer",)  # what follows a prompt in data of preferences, and of conversations


@dataclass(frozen=True, kw_only=True)
class TalkConfig(TaskConfig):
    """What every task on conversations may set."""

    shown: int = 2  # answers written at each validation
    sample_length: int = 60  # the most tokens of an answer, also in `regard evaluate`; at most half of model.max_length

    def __post_init__(self) -> None:
        not_negative(self, "shown")
        at_least(self, 1, "sample_length")

    def build(self, reader: AnyReader) -> LanguageModel:
        return LanguageModel(reader)


@dataclass(frozen=True, kw_only=True)
class ChatConfig(TalkConfig):
    smoothing: float = 0.0  # label smoothing

    def __post_init__(self) -> None:
        super().__post_init__()
        share(self, "smoothing")
        one_of(self, ("loss",), "metric")


class DialogueTask(Task[Dialogues, Turns, M, B]):
    """What all tasks on conversations have in common."""

    cut_once = "a conversation"
    answer_names: ClassVar[tuple[str, ...]] = SINGLE

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[Dialogues]:
        return dialogue_parts(data, cls.answer_names)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        train = dialogue_parts(data, cls.answer_names).train
        yield from (message.content for prompt in train.prompts for message in prompt)
        yield from (answer for answers in train.answers for answer in answers)

    def part(self, raw: Dialogues, to_learn: bool) -> Turns:
        last_only = len(self.answer_names) > 1  # where answers are compared, only they count
        return Turns(raw, self.tokenizer, self.max_length, last_only)

    def encode(self, text: str) -> list[int]:
        """As what a user says, up to where the answer begins."""
        return template_of(self.tokenizer).prompts([(Message(USER, text),)])[0]

    def inspect(self) -> list[Row]:
        return [row for name, part in self.parts().items() for row in part_rows(name, part, self.answer_names)]


class Talk(DialogueTask[LanguageModel, B]):
    """What all have in common whose models answer."""

    compared_as = "conversations"
    exchange = CAUSAL
    commands = ("regard chat RUN", "regard evaluate RUN")
    config: TalkConfig

    def first_samples(self, model: LanguageModel, valid: Turns) -> list[Sample]:
        """What the model answers to the first validation prompts."""
        few = valid.dialogues.take(valid.kept[: self.config.shown])
        texts = replies(self, Use(model, Engine(model), replace(self.setup.decoding, beam=1, n_best=1)), few.prompts)
        examples = zip(few.prompts, few.answers, texts, strict=True)
        return [(as_one_text(prompt), answers[0], text) for prompt, answers, text in examples]

    def versus(self, use: Use[LanguageModel], other: AnyTask, its: Use, files: Sequence[str]) -> Versus:
        """`files`: prompts with a chosen and a rejected answer, then conversations; by default the test data of the run
        that was trained on preferences, and those of the run that was trained to answer."""
        given, tasks = [*files, "", ""], (self, other)
        of_pairs, pairs = test_of(PAIR, "preference", tasks, given[0])
        of_talk, talk = test_of(SINGLE, "chat", tasks, given[1])
        (ours, first), (theirs, second) = side(self, use, pairs, talk), side(other, its, pairs, talk)
        won, tied, lost = wins(ours, theirs, [chosen for chosen, _ in pairs.answers])
        record: dict[str, object] = {"pairs": of_pairs, "conversations": of_talk}
        record |= {"wins_percent": won, "ties_percent": tied, "losses_percent": lost}

        def row(what: str, name: str, form: str) -> tuple[str, ...]:
            return what, form.format(first[name]), form.format(second[name])

        rows = [
            ("what", "first", "second"),
            row("answers as the chosen one", "chosen_percent", "{:.1f} %"),
            row("answers as the rejected one", "rejected_percent", "{:.1f} %"),
            row("characters of an answer", "characters", "{:.1f}"),
            ("wins: the chosen one, the other's not", f"{won:.1f} %", f"{lost:.1f} %"),
            ("neither wins", f"{tied:.1f} %", ""),
        ]
        footing = "the runs have different tokenizers: drift and perplexities of their tokens cannot be compared"
        if self.tokenizer.to_json() == other.tokenizer.to_json():
            ratio = first["perplexity"] / second["perplexity"]
            drifts = [drift(self, pairs.prompts, use, its), drift(other, pairs.prompts, its, use)]
            record |= {"perplexity_ratio": ratio, "drifts": drifts}
            rows += [
                ("drift: KL from the other, nats an answer", *(f"{nats:.2f}" for nats in drifts)),
                row(f"perplexity of {of_talk}", "perplexity", "{:.4f}"),
            ]
            footing = f"perplexity ratio: {ratio:.4f}"
        title = f"{of_pairs} ({len(pairs):,} prompts)"
        records: list[dict[str, object]] = [{**first}, {**second}]
        return Versus(record, records, [(title, rows)], footing=[footing])

    @property
    def verbs(self) -> Verbs:
        return {**Talker(self.tokenizer).verbs, **super().verbs}

    def look(self, use: Use[LanguageModel], source: str, target: str | None, focus: Focus) -> Capture:
        """An assistant that reads what the user says and writes its answer."""
        focus.check(use.model)
        if target is None:
            target = Talker(self.tokenizer).reply(use, [(Message(USER, source),)], None)[0].text
        ((ids, _),) = template_of(self.tokenizer).read([(Message(USER, source), Message(ASSISTANT, target))])
        return look_at_text(use.model, self.tokenizer, ids.tolist(), f"{source} → {target}", focus)


class InstructionTuning(Talk[AnswerBatch]):
    """-log P of the assistant's words."""

    settings = ChatConfig
    purpose = "was trained to answer in conversations"
    recognize = staticmethod(partial(conversations, answers=SINGLE))
    draft = staticmethod(partial(draft_for, partial(dialogue_parts, names=SINGLE)))

    def collate(self, part: Turns, chosen: np.ndarray, epoch: int | None = None) -> AnswerBatch:
        return part.batch(chosen)

    nats = staticmethod(answer_nats)

    def figures(self, model: LanguageModel, part: Turns) -> dict[str, float]:
        """Nats a token of the answers, and what they mean."""
        loss = mean_nats(model, part, self.batch_tokens)
        return {"loss": loss, "perplexity": perplexity(loss)}

    def test_figures(self, use: Use[LanguageModel], part: Turns) -> dict[str, float]:
        """Also how often the model gives just the answer that the data have."""
        asked = part.dialogues.take(part.kept)
        exact_share = share_equal(replies(self, use, asked.prompts), [answer for (answer,) in asked.answers])
        return {**self.figures(use.model, part), "exactly the answer, %": exact_share}

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


def test_of(names: tuple[str, ...], kind: str, tasks: Sequence[AnyTask], file: str) -> tuple[str, Dialogues]:
    """A test with these answers: the given file, or that of the run that was trained on such data."""
    owner = next((task for task in tasks if task.answer_names == names), None)
    if owner is not None:
        return owner.test([file] if file else [])
    if file:
        return file, read_dialogues((file,), tasks[0].setup.data.columns, ".", names)
    raise ConfigError(f"neither run was trained for {kind}; give two files: pairs of answers, then conversations")


def replies(task: AnyTask, use: Use, prompts: Sequence[Conversation]) -> list[str]:
    """What a model answers to every prompt."""
    length = usual_length(use.model.max_length, task.config.sample_length)
    return [answer.text for answer in Talker(task.tokenizer).reply(use, prompts, length)]


def side(task: AnyTask, use: Use, pairs: Dialogues, others: Dialogues) -> tuple[list[str], dict[str, float]]:
    """What a run answers to prompts with a chosen and a rejected answer; the percentages of its answers that are the
    one and the other, their mean length, and the perplexity of a token of the answers in other conversations."""
    texts = replies(task, use, pairs.prompts)
    turns = Turns(others, task.tokenizer, use.model.max_length, last_only=False)
    return texts, {
        "chosen_percent": share_equal(texts, [chosen for chosen, _ in pairs.answers]),
        "rejected_percent": share_equal(texts, [rejected for _, rejected in pairs.answers]),
        "characters": sum(map(len, texts)) / len(texts),
        "perplexity": perplexity(mean_nats(use.model, turns, task.batch_tokens)),
    }


def drift(task: AnyTask, asked: Sequence[Conversation], use: Use, its: Use) -> float:
    """KL(P ‖ P of the other run) in nats an answer, estimated with one answer to each prompt, drawn by chance."""
    drawn = DecodingConfig(sample=True)
    prompts = template_of(task.tokenizer).prompts(asked)
    scripts = write_answers(use.model, task.tokenizer, prompts, task.config.sample_length, drawn)
    lengths = np.array([len(ids) for ids, _ in scripts])
    total = 0.0
    for chosen in cut(np.arange(len(scripts)), lengths, task.batch_tokens):
        batch = make_batch([scripts[i] for i in chosen], []).to(use.model.device)
        total += float(answer_divergences(use.model, its.model, batch).sum())
    return total / len(scripts)


def share_equal(texts: Sequence[str], wanted: Sequence[str]) -> float:
    return 100 * sum(text == want.strip() for text, want in zip(texts, wanted, strict=True)) / len(texts)


def wins(ours: Sequence[str], theirs: Sequence[str], chosen: Sequence[str]) -> tuple[float, float, float]:
    """Wins, ties and losses, in percent: an answer wins where it is the chosen one and the other's is not."""
    wanted = [text.strip() for text in chosen]
    n_wins = sum(a == want != b for a, b, want in zip(ours, theirs, wanted, strict=True))
    n_losses = sum(b == want != a for a, b, want in zip(ours, theirs, wanted, strict=True))
    share = 100 / len(wanted)
    return n_wins * share, (len(wanted) - n_wins - n_losses) * share, n_losses * share
