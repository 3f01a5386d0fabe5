"""Direct preference optimisation: the paper's formula by hand, the reference that never changes, what is measured."""

import copy
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_talk import WORDS, model_for, pairs, setup

from regard.decoding.engine import Engine
from regard.errors import ConfigError, DataError
from regard.nn.layout import Ragged
from regard.tasks.chat.batches import Turns
from regard.tasks.chat.preference import Preference, PreferenceConfig, dpo_loss, margins
from regard.tasks.chat.task import PAIR, SINGLE, ChatConfig, InstructionTuning, wins
from regard.tasks.chat.task import test_of as dialogues_of
from regard.tasks.setup import Use


def preference(folder: Path, **settings) -> Preference:
    return Preference.make(PreferenceConfig(**settings), setup(folder, "pairs.jsonl"))


@torch.no_grad()
def log_prob(model, ids, learnt) -> float:
    """log P of the learnt tokens of one sequence, one token after the other."""
    tokens = torch.from_numpy(ids)
    log_probs = (model(tokens[:-1], Ragged([len(ids) - 1])) @ model.output_table.T).log_softmax(-1)
    return sum(float(log_probs[i - 1, ids[i]]) for i in range(1, len(ids)) if learnt[i])


def changed(model):
    """The same model after some other learning."""
    other = copy.deepcopy(model)
    torch.manual_seed(5)
    with torch.no_grad():
        for weight in other.parameters():
            weight += 0.1 * torch.randn_like(weight)
    return other


def test_worked_numbers():
    policy = torch.tensor([[-1.0, -2.0], [-3.0, -1.0]])  # chosen, then rejected, of two prompts
    reference = torch.tensor([[-2.0, -2.0], [-2.0, -2.0]])
    assert margins(policy, reference).tolist() == [2.0, -1.0]
    expected = [math.log(1 + math.exp(-0.5 * 2.0)), math.log(1 + math.exp(0.5 * 1.0))]
    assert dpo_loss(policy, reference, 0.5).tolist() == pytest.approx(expected)


def test_the_loss_is_the_papers(tmp_path):
    task = preference(tmp_path, beta=0.3)
    reference = model_for(task.tokenizer)
    task.restore({}, reference)
    model = changed(reference)
    chosen, rejected = task.train.scripts
    total = 0.0
    for (best, best_learnt), (other, other_learnt) in zip(chosen, rejected, strict=True):
        gained = log_prob(model, best, best_learnt) - log_prob(reference, best, best_learnt)
        lost = log_prob(model, other, other_learnt) - log_prob(reference, other, other_learnt)
        total += -math.log(1 / (1 + math.exp(-0.3 * (gained - lost))))
    batches = [task.batch(0, i) for i in range(task.n_batches(0))]
    assert len(batches) > 1 and sum(batch.n_targets for batch in batches) == len(WORDS)
    assert sum(task.loss(model, batch).item() for batch in batches) == pytest.approx(total, rel=1e-4)
    assert task.validate(model)["loss"] == pytest.approx(total / len(WORDS), rel=1e-4)


def test_at_the_beginning_nothing_is_preferred(tmp_path):
    task = preference(tmp_path)
    model = model_for(task.tokenizer)
    task.restore({}, model)
    values = task.validate(model)
    assert values["loss"] == pytest.approx(math.log(2), abs=1e-6) and abs(values["margin"]) < 1e-5


def test_only_the_answers_count(tmp_path):
    """The prompt is the same on both sides: what it says of itself must cancel, because it is not learnt at all."""
    task = preference(tmp_path)
    for scripts in task.train.scripts:
        for ids, learnt in scripts:
            assert task.tokenizer.special_id("<assistant>") == ids[~learnt][-1]
    assert task.train.batch(np.arange(len(WORDS))).n_targets == len(WORDS) * (
        2 + 4
    )  # "cat", "I say cat", and their ends


def test_learning_raises_the_chosen_answers(tmp_path):
    task = preference(tmp_path, beta=0.5)
    model = model_for(task.tokenizer)
    task.restore({}, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for step in range(30):
        optimizer.zero_grad()
        task.loss(model, task.batch(step, 0)).backward()
        optimizer.step()
    values = task.validate(model)
    assert values["accuracy"] == 100 and values["margin"] > 2 and values["loss"] < 0.4
    what, metrics = task.measure(Use(model, Engine(model), task.setup.decoding))[:2]
    assert what == "the validation conversations"
    assert {m.name: m.value for m in metrics}["the chosen answer is more probable, %"] == 100


def test_where_both_answers_are_the_same_nothing_is_learnt_and_that_is_counted(tmp_path):
    task = preference(tmp_path)
    dialogues = task.train.dialogues
    answers = [("yes", "yes") if i < 3 else each for i, each in enumerate(dialogues.answers)]
    turns = Turns(replace(dialogues, answers=answers), task.tokenizer, 100, last_only=True)
    assert turns.kept.tolist() == [i for i in task.train.kept if i > 2]
    assert any("3" in row and "answers are the same" in row for row in turns.notes.rows())
    with pytest.raises(DataError, match=r"none of the 6 conversations can be used.*the same"):
        Turns(replace(dialogues, answers=[("no", "no")] * len(answers)), task.tokenizer, 100, last_only=True)


def test_measuring_says_which_pairs_were_left_out(tmp_path):
    task = preference(tmp_path)
    model = model_for(task.tokenizer)
    task.restore({}, model)
    same = [record | {"rejected": record["chosen"]} if i == 2 else record for i, record in enumerate(pairs())]
    test = tmp_path / "test.jsonl"
    test.write_text("".join(json.dumps(record) + "\n" for record in same))
    (remark,) = task.measure(Use(model, Engine(model), task.setup.decoding), [str(test)]).remarks
    assert "answers are the same" in remark and remark.endswith(": 1 (first at test.jsonl:3)")


def test_a_checkpoint_keeps_the_reference(tmp_path):
    task = preference(tmp_path)
    model = model_for(task.tokenizer)
    task.restore({}, model)
    resumed = preference(tmp_path)
    resumed.restore(task.tensors(), changed(model))  # the model of a checkpoint has moved on already
    first, again = task.batch(2, 1), resumed.batch(2, 1)
    assert torch.equal(first.reference, again.reference) and first.reference.abs().sum() > 0
    assert resumed.validate(model) == task.validate(model)


@pytest.mark.parametrize(
    "settings", [{"beta": 0.0}, {"beta": float("nan")}, {"shown": -1}, {"sample_length": 0}, {"metric": "wins"}]
)
def test_settings_that_mean_nothing(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        PreferenceConfig(**settings)


def test_an_answer_wins_where_it_alone_is_the_chosen_one():
    chosen = ["a", "b", "c ", "d", "e"]
    assert wins(["a", "x", "c", "x", "e"], ["x", "b", "c", "y", "x"], chosen) == pytest.approx((40.0, 40.0, 20.0))


def test_each_file_of_a_comparison_is_read_as_the_run_of_its_kind_reads_it(tmp_path):
    """Tables of conversations and of pairs have other columns."""
    (tmp_path / "talk.csv").write_text("prompt,answer\nHi,Hello\n")
    (tmp_path / "pairs.csv").write_text("prompt,chosen,rejected\nHi,Hello,No\n")
    made = setup(tmp_path, "pairs.jsonl")
    chat = InstructionTuning(ChatConfig(), replace(made, data=replace(made.data, columns=("prompt", "answer"))))
    wanted = ("prompt", "chosen", "rejected")
    taught = Preference(PreferenceConfig(), replace(made, data=replace(made.data, columns=wanted)))
    for tasks in ((chat, taught), (taught, chat)):
        _, pairs = dialogues_of(PAIR, "preference", tasks, str(tmp_path / "pairs.csv"))
        _, talk = dialogues_of(SINGLE, "chat", tasks, str(tmp_path / "talk.csv"))
        assert pairs.answers == [("Hello", "No")] and talk.answers == [("Hello",)]
