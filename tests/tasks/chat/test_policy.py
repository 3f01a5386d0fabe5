"""Reward models and policy optimization: the papers' formulas by hand, chance that comes again, what is refused."""

import math
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from small_talk import model_for, setup

from regard.data.batching.template import template_of
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.errors import ConfigError
from regard.models.heads import Classifier
from regard.nn.layout import Ragged
from regard.runs.recipe import Recipe
from regard.tasks.chat.batches import answer_divergences, answer_log_probs, make_batch
from regard.tasks.chat.policy import Policy, PolicyConfig, advantages
from regard.tasks.chat.preference import PreferenceConfig
from regard.tasks.chat.reward import Reward, RewardConfig
from regard.tasks.chat.task import drift
from regard.tasks.chat.use import write_answers
from regard.tasks.chat.verbs import Judge
from regard.tasks.setup import Use
from regard.training.prepare import check


def reward(folder: Path) -> Reward:
    return Reward.make(RewardConfig(), setup(folder, "pairs.jsonl"))


def judge_for(task: Reward | Policy) -> Classifier:
    """Rewards of answers that differ."""
    torch.manual_seed(7)
    return RewardConfig().build(model_for(task.tokenizer).reader).eval()


def policy(folder: Path, **settings: object) -> Policy:
    config = PolicyConfig(judge="runs/judge", **{"copies": 3, "sample_length": 5, **settings})
    task = Policy.make(config, setup(folder, "pairs.jsonl"))
    task.consult(judge_for(task), RewardConfig())
    return task


@torch.no_grad()
def reward_of(judge: Classifier, ids: np.ndarray) -> float:
    return float(judge(torch.from_numpy(ids), Ragged([len(ids)]))[0, 0])


def test_the_loss_of_a_reward_model_is_the_papers(tmp_path: Path) -> None:
    task = reward(tmp_path)
    judge = judge_for(task)
    batch = task.collate(task.train, np.arange(len(task.train)))
    gained = [
        reward_of(judge, best) - reward_of(judge, other)
        for (best, _), (other, _) in zip(*task.train.scripts, strict=True)
    ]
    expected = sum(math.log(1 + math.exp(-margin)) for margin in gained)
    assert float(task.plain_loss(judge, batch).detach()) == pytest.approx(expected, rel=1e-4)
    figures = task.figures(judge, task.train)
    assert figures["margin"] == pytest.approx(sum(gained) / len(gained), rel=1e-4)
    assert figures["accuracy"] == pytest.approx(100 * sum(margin > 0 for margin in gained) / len(gained))
    assert batch.n_targets == len(task.train)


def test_a_judge_gives_the_reward_of_the_whole_conversation(tmp_path: Path) -> None:
    task = reward(tmp_path)
    judge = judge_for(task)
    prompts = [prompt[-1].content for prompt in task.train.dialogues.prompts]
    answers = [best for best, _ in task.train.dialogues.answers]
    judged = task.judge(Use(judge, Engine(judge), task.setup.decoding), Judge(prompts, answers))  # type: ignore[arg-type]
    expected = [reward_of(judge, ids) for ids, _ in task.train.scripts[0]]
    assert [one.reward for one in judged] == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_an_answer_is_compared_with_the_others_to_its_prompt() -> None:
    values = torch.tensor([[1.0, 2.0, 6.0], [4.0, 4.0, 4.0]])
    assert advantages(values).tolist() == [[1 - 4.0, 2 - 3.5, 6 - 1.5], [0.0, 0.0, 0.0]]


def test_what_is_rewarded_becomes_more_probable_and_drifting_costs(tmp_path: Path) -> None:
    task = policy(tmp_path, beta=0.5)
    model = model_for(task.tokenizer)
    task.restore({}, model)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.2 * torch.randn_like(weight)
    batch = task.collate(task.train, np.arange(len(task.train)), epoch=1)
    written = task.write(model, batch)
    log_probs = answer_log_probs(model, written.batch)
    drifts = log_probs.detach() - answer_log_probs(task.reference, written.batch)
    values = (written.rewards - 0.5 * drifts).view(-1, 3)
    others = (values.sum(1, keepdim=True) - values) / 2
    expected = -((values - others).flatten() * log_probs).sum()
    loss = task.loss(model, batch)
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-4)
    assert batch.n_targets == len(written.rewards) == 3 * len(task.train)


@torch.no_grad()
def test_drift_is_the_divergence_of_whole_answers(tmp_path: Path) -> None:
    """Of answers of one token it is known exactly; of longer ones, drawn answers give what log P - log P does."""
    task = policy(tmp_path, sample_length=1)
    model, other = model_for(task.tokenizer), model_for(task.tokenizer)
    for weight in model.parameters():
        weight += 0.2 * torch.randn_like(weight)
    ours, theirs = (Use(each, Engine(each), task.setup.decoding) for each in (model, other))
    prompts = task.train.dialogues.prompts
    expected = []
    for prompt in template_of(task.tokenizer).prompts(prompts):
        p, q = (
            (each(torch.tensor(prompt), Ragged([len(prompt)]))[-1] @ each.output_table.T).log_softmax(-1)
            for each in (model, other)
        )
        expected.append(float((p.exp() * (p - q)).sum()))
    assert min(expected) > 0
    assert drift(task, prompts, ours, theirs) == pytest.approx(sum(expected) / len(expected), rel=1e-4)
    assert drift(task, prompts, ours, ours) == pytest.approx(0, abs=1e-6)
    asked = template_of(task.tokenizer).prompts(prompts)
    scripts = write_answers(model, task.tokenizer, asked, 3, DecodingConfig(sample=True, n_best=200))
    drawn = make_batch(scripts, [])
    ratios = answer_log_probs(model, drawn) - answer_log_probs(other, drawn)
    error = float(ratios.std()) / len(ratios) ** 0.5
    assert float(answer_divergences(model, other, drawn).mean()) == pytest.approx(float(ratios.mean()), abs=5 * error)


def test_answers_are_drawn_again_by_the_epoch_and_differ_between_epochs(tmp_path: Path) -> None:
    task = policy(tmp_path)
    model = model_for(task.tokenizer)
    task.restore({}, model)
    chosen = np.arange(len(task.train))
    drawn = [task.write(model, task.collate(task.train, chosen, epoch)).batch.tokens.tolist() for epoch in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_reference_stays_and_a_checkpoint_holds_it(tmp_path: Path) -> None:
    task = policy(tmp_path)
    model = model_for(task.tokenizer)
    task.restore({}, model)
    before = {name: tensor.clone() for name, tensor in task.tensors().items()}
    with torch.no_grad():
        for weight in model.parameters():
            weight += 1
    resumed = policy(tmp_path)
    resumed.restore(task.tensors(), model)
    for name, tensor in resumed.tensors().items():
        assert torch.equal(tensor, before[name])
    assert not any(weight.requires_grad for weight in resumed.reference.parameters())


def test_a_policy_begins_with_a_model_that_can_answer(tmp_path: Path) -> None:
    policy = Recipe.read("chat-policy", ["task.judge=judge", "tokenizer.vocab_size=300"])
    for name, can in (("chat-reward", False), ("chat-tiny", True)):
        run = tmp_path / name
        run.mkdir()
        Recipe.read(name, ["tokenizer.vocab_size=300"]).write(run / "recipe.toml")
        with nullcontext() if can else pytest.raises(ConfigError, match=r"can answer.*reward was trained"):
            check(policy, run)


def test_a_policy_needs_a_judge_that_was_trained_for_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task\.judge must name the run of a reward model"):
        Policy.make(PolicyConfig(), setup(tmp_path, "pairs.jsonl"))
    task = policy(tmp_path)
    with pytest.raises(ConfigError, match='is not a run of kind = "reward"'):
        task.consult(judge_for(task), PreferenceConfig())
    with pytest.raises(ConfigError, match="copies must be at least 2"):
        PolicyConfig(copies=1)
