"""Instruction tuning: what is learnt, what is measured, and answers to conversations that are too long."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from small_talk import WORDS, model_for, setup

from regard.data.batching.template import Template
from regard.data.files.conversations import Message
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.errors import ConfigError, DataError, RegardError
from regard.models.stack import Stack, StackConfig
from regard.nn.layout import Ragged
from regard.tasks.chat.task import ChatConfig, InstructionTuning
from regard.tasks.chat.use import Talker, fitted
from regard.tasks.chat.verbs import ChatStream
from regard.tasks.setup import Use


def chat(folder: Path, **settings) -> InstructionTuning:
    return InstructionTuning.make(ChatConfig(**settings), setup(folder, "talk.jsonl"))


@torch.no_grad()
def by_hand(model, task: InstructionTuning) -> tuple[float, int]:
    """-log P of the assistant's tokens, read one conversation at a time."""
    total, count = 0.0, 0
    for ids, learnt in task.train.scripts[0]:
        tokens = torch.from_numpy(ids)
        logits = model(tokens[:-1], Ragged([len(ids) - 1])) @ model.output_table.T
        log_probs = logits.log_softmax(-1)
        for place in range(1, len(ids)):
            if learnt[place]:
                total -= float(log_probs[place - 1, ids[place]])
                count += 1
    return total, count


def test_the_loss_is_that_of_the_assistants_words_alone(tmp_path):
    task = chat(tmp_path)
    model = model_for(task.tokenizer)
    batches = [task.batch(0, i) for i in range(task.n_batches(0))]
    total, count = by_hand(model, task)
    assert sum(batch.n_targets for batch in batches) == count == 6 * 2 + 6 * 4  # a word and an end for each answer
    assert sum(task.loss(model, batch).item() for batch in batches) == pytest.approx(total, rel=1e-5)
    validated = task.validate(model)
    assert validated["loss"] == pytest.approx(total / count, rel=1e-5)
    assert len(batches) == 2


def test_smoothing_is_for_learning_only(tmp_path):
    task = chat(tmp_path, smoothing=0.3)
    model, batch = model_for(task.tokenizer), task.small_batch(50)
    assert task.loss(model, batch).item() != pytest.approx(task.plain_loss(model, batch).item())


def test_it_learns_and_is_measured(tmp_path):
    task = chat(tmp_path)
    model = model_for(task.tokenizer)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(60):
        optimizer.zero_grad()
        batch = task.batch(step, 0)
        (task.loss(model, batch) / batch.n_targets).backward()
        optimizer.step()
    what, metrics = task.measure(Use(model, Engine(model), DecodingConfig()))[:2]
    values = {metric.name: metric.value for metric in metrics}
    assert what == "the validation conversations" and values["exactly the answer, %"] > 80
    assert values["perplexity"] == pytest.approx(2.718281828 ** values["loss"], rel=1e-4) and values["loss"] < 0.7
    (prompt, wanted, answer), *_ = task.samples(model)
    assert prompt == "user: say cat" and wanted == answer == "cat"


def test_long_conversations_are_dropped_and_counted(tmp_path):
    short = setup(tmp_path, "talk.jsonl", max_length=8)
    task = InstructionTuning.make(ChatConfig(), short)
    assert len(task.train) == 6 and task.train.notes.counts == {"dropped: longer than 8 tokens": 6}
    assert ("decided", "dropped: longer than 8 tokens: 6 (first at talk.jsonl:7)") in task.rows()
    with pytest.raises(DataError, match=r"all 12 conversations are too long; raise data\.max_length to 6 at least"):
        InstructionTuning.make(ChatConfig(), replace(short, data=replace(short.data, max_length=4)))


def test_the_doctor_sees_every_part(tmp_path):
    task = chat(tmp_path)
    rows = {(row.part, row.what): row.value for row in task.inspect()}
    assert rows["train", "conversations"] == "12"
    assert rows["train", "messages before the answer"] == "system 6, user 18, assistant 6"


def test_answers_alone_and_together_are_the_same(tmp_path):
    task = chat(tmp_path)
    model, cut = model_for(task.tokenizer), task.tokenizer
    prompts = task.train.dialogues.prompts
    talker, use = Talker(cut), Use(model, Engine(model), DecodingConfig())
    together = talker.reply(use, prompts, 6)
    alone = [talker.reply(use, [prompt], 6)[0] for prompt in prompts]

    def streamed(conversation):
        return talker.chat_stream(use, ChatStream([asdict(message) for message in conversation], 6))

    assert [answer.text for answer in together] == [answer.text for answer in alone]
    assert [answer.log_prob for answer in together] == pytest.approx([answer.log_prob for answer in alone], abs=1e-4)
    assert ["".join(streamed(prompt)).strip() for prompt in prompts] == [answer.text for answer in together]
    long = [*prompts[0], Message("assistant", "owl"), Message("user", "say " + "cat " * 200)]
    [answer] = talker.reply(use, [tuple(long)], 6)
    assert answer.notes and streamed(long).notes == answer.notes


def test_the_oldest_turns_are_left_out(tmp_path):
    cut = setup(tmp_path, "talk.jsonl").tokenizer
    template = Template(cut)
    told = (Message("system", "be kind"),)
    turns = tuple(Message(role, "cat") for _ in range(5) for role in ("user", "assistant"))
    talk = told + turns + (Message("user", "say owl"),)
    ids, notes = fitted(template, talk, 100)
    assert notes == () and len(ids) == len(template.prompts([talk])[0])
    ids, notes = fitted(template, talk, 20)
    assert ids == template.prompts([told + turns[6:] + talk[-1:]])[0] and len(ids) <= 20
    assert notes == ("too long: the first 3 turns were left out",)
    ids, notes = fitted(template, (*told, Message("user", "say owl " * 30)), 9)
    assert len(ids) == 9 and ids[-1] == cut.special_id("<assistant>")
    assert notes[0].startswith("too long: only its last 9 of ")


def test_an_answer_must_fit(tmp_path):
    cut = setup(tmp_path, "talk.jsonl").tokenizer
    model = model_for(cut)
    with pytest.raises(RegardError, match="an answer of 48 tokens does not fit the model's 48"):
        Talker(cut).reply(Use(model, Engine(model), DecodingConfig()), [(Message("user", "say cat"),)], 48)


def test_it_needs_a_model_that_writes(tmp_path):
    sizes = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 8}
    with pytest.raises(ConfigError, match="must not see the future"):
        ChatConfig().build(Stack(StackConfig(vocab_size=9, causal=False, **sizes)))


@pytest.mark.parametrize("settings", [{"shown": -1}, {"sample_length": 0}, {"smoothing": 1.0}, {"metric": "bleu"}])
def test_settings_that_mean_nothing(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        ChatConfig(**settings)


def test_conversations_are_cut_in_one_way(tmp_path):
    with pytest.raises(ConfigError, match=r"set tokenizer\.dropout = 0"):
        InstructionTuning.make(ChatConfig(), replace(setup(tmp_path, "talk.jsonl"), dropout=0.1))


def test_the_tokenizer_learns_from_what_is_said(tmp_path):
    texts = list(InstructionTuning.texts(setup(tmp_path, "talk.jsonl").data))
    assert {"be kind", "say cat", *WORDS} <= set(texts)
