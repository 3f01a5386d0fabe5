"""Decisions: rows of return, state and action; windows that have every step; play that is what was trained."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.config import DataConfig
from regard.data.episodes.files import read_episodes
from regard.data.episodes.recording import record_episodes, write_episodes
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.errors import ConfigError, DataError
from regard.games.luck import Luck
from regard.models.decisions import Decider
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.stack import Stack, StackConfig
from regard.tasks.decisions.batches import EpisodePart, best_of, returns_to_go
from regard.tasks.decisions.settings import DecisionsConfig, spread
from regard.tasks.decisions.task import Decisions
from regard.tasks.decisions.verbs import Play
from regard.tasks.setup import Setup, Use
from regard.text.tokenizer import Tokenizer, TokenizerConfig
from tests.drawn import covering_fast

TOKENIZER = Tokenizer.train(["a state"], TokenizerConfig(vocab_size=300))


def make_task(folder: Path, game: str, n: int = 30, way: str = "random", **settings: object) -> Decisions:
    if not (folder / f"{game}.jsonl").exists():
        write_episodes(folder / f"{game}.jsonl", record_episodes(game, way, n, seed=0))
    data = DataConfig(root=str(folder), train=(f"{game}.jsonl",), batch_tokens=200)
    return Decisions.make(DecisionsConfig(game=game, **settings), Setup(data=data, tokenizer=TOKENIZER))


def make_model(task: Decisions, kind: str = "stack") -> Decider:
    torch.manual_seed(0)
    if kind == "stack":
        config = StackConfig(vocab_size=5, d_model=16, n_heads=2, n_layers=2, d_ff=32, max_length=99, position="none")
        return task.config.build(Stack(replace(config, dropout=0.0))).eval()
    return task.config.build(Recurrent(RecurrentConfig(vocab_size=5, d_model=16, d_hidden=16, dropout=0.0))).eval()


def use(model: Decider, **decoding: object) -> Use[Decider]:
    return Use(model, Engine(model), DecodingConfig(**decoding))  # type: ignore[arg-type]


def test_returns_to_go_are_what_is_still_to_come() -> None:
    assert returns_to_go(np.array([1.0, 0.0, 2.0])).tolist() == [3.0, 2.0, 2.0]


def test_windows_that_are_measured_have_every_step_once(tmp_path: Path) -> None:
    task = make_task(tmp_path, "steer", context=4)
    part = task.train
    batch = part.batch(np.arange(len(part)), seed=0, epoch=None)
    assert batch.n_targets == part.raw.lengths.sum() == 300
    torch.testing.assert_close(batch.actions, torch.tensor(part.raw.actions, dtype=torch.float32))
    assert batch.layout.lengths.tolist() == [12, 12, 6] * 30


def test_windows_of_an_epoch_are_drawn_and_drawn_again_alike(tmp_path: Path) -> None:
    part = make_task(tmp_path, "steer", context=4).train
    chosen = np.arange(len(part))
    starts = [part.drawn(chosen, seed=0, epoch=epoch, even=False)[1] for epoch in (0, 0, 1)]
    assert starts[0].tolist() == starts[1].tolist() != starts[2].tolist()
    assert set(np.concatenate(starts)) == set(range(7))  # steps 0 to 6 of ten: every window is whole
    assert part.batch(chosen[3:5], 0, 1).actions.tolist() == part.batch(chosen, 0, 1).actions[12:20].tolist()


def test_returns_can_be_equally_frequent(tmp_path: Path) -> None:
    """Of 100 bets some ten won; of what is drawn, every level has a third."""
    part = make_task(tmp_path, "luck", n=600, even=True).train
    episodes, _ = part.drawn(np.arange(600), seed=0, epoch=0, even=True)
    shares = [np.mean(part.raw.returns[episodes] == goal) for goal in (0.0, 5.0, 10.0)]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.07)
    assert (part.raw.returns == 10).mean() < 0.1
    assert part.drawn(np.arange(600)[7:9], 0, 0, True)[0].tolist() == episodes[7:9].tolist()
    assert np.array_equal(part.drawn(np.arange(600), 0, 0, False)[0], np.arange(600))


def test_rows_hold_what_they_say(tmp_path: Path) -> None:
    """The return to go in units of the largest, the numbers of the symbols, and the action."""
    task = make_task(tmp_path, "key-to-door", n=200)
    won = int(task.train.raw.returns.argmax())
    batch = task.collate(task.train, np.array([won]))
    returns, states, actions = batch.inputs.unflatten(0, (-1, 3)).unbind(1)
    n = len(task.train.raw.all[won])
    assert batch.inputs[:, 0].tolist() == [float(t) for t in range(n) for _ in range(3)]
    assert returns[:, 1].tolist() == [1.0] * n and not returns[:, 2:].any()
    assert actions[:, 1].tolist() == batch.actions.tolist()
    symbols = task.config.symbols
    read = [[column[int(number) - 1] for column, number in zip(symbols, row[1:], strict=True)] for row in states]
    assert read == task.train.raw.all[won].states.tolist()


@pytest.mark.sampled("every case is a training of its own")
@pytest.mark.parametrize("kind", ["stack", "recurrent"])
@pytest.mark.parametrize("game", ["steer", "key-to-door"])
def test_a_decision_sees_the_past_alone(kind: str, game: str, tmp_path: Path) -> None:
    """Neither its own action nor anything later; but everything before."""
    task = make_task(tmp_path, game)
    model, batch = make_model(task, kind), task.collate(task.train, np.array([0]))
    before = model(batch.inputs, batch.layout)
    step = 5
    for row in range(batch.layout.n_rows):
        changed = batch.inputs.clone()
        changed[row, 1] = (changed[row, 1] + 1) % 3  # another symbol, or another number
        differs = (model(changed, batch.layout) - before).abs().amax(-1) > 1e-6
        decided_later = torch.arange(len(differs)) > row // 3 - (row % 3 < 2)
        assert not differs[~decided_later].any()
        assert differs[step] == (row <= 3 * step + 1)


@pytest.mark.sampled("every case is a training of its own")
@pytest.mark.parametrize(
    ("kind", "played_in", "conditioned"),
    covering_fast(["stack", "recurrent"], [("steer", 3), ("key-to-door", 0), ("key-to-door", 5)], [True, False]),
)
def test_play_decides_by_what_training_reads(
    kind: str, played_in: tuple[str, int], conditioned: bool, tmp_path: Path
) -> None:
    """An episode that was played, read as training data, gives the actions that were played."""
    game, context = played_in
    task = make_task(tmp_path, game, context=context, conditioned=conditioned)
    model = make_model(task, kind)
    [played] = task.play(use(model), Play(seed=4))
    environment = task.seat(Play(), 4, None).environment
    states, actions = [environment.reset(seed=4)[0]], played.actions
    states += [environment.step(np.array(action))[0] for action in actions]
    assert played.states == [list(state) for state in states[:-1]]
    record = {"states": played.states, "actions": actions, "rewards": played.rewards}
    (tmp_path / "played.jsonl").write_text(json.dumps(record))
    form = model.form
    part = EpisodePart(read_episodes(["played.jsonl"], tmp_path), form, task.symbols, context or len(actions))
    shift = 0.0 if played.asked is None else played.asked - played.reached
    n = part.context
    for now in range(len(actions)):
        first = max(0, now + 1 - n)
        columns = list(part.steps[0].part(first, now + 1))
        columns[1] = columns[1] + np.float32(shift)
        batch = part.batch(np.array([0]), 0, None)
        layout = type(batch.layout)([(now + 1 - first) * form.n_rows])
        output = model(form.rows(*map(torch.from_numpy, columns)), layout)[-1]
        if form.n_actions:
            assert int(output.argmax()) == actions[now]
        else:
            number = output.item() * form.action_deviation[0] + form.action_mean[0]
            low, high = task.config.action_lowest[0], task.config.action_highest[0]
            assert min(max(number, low), high) == pytest.approx(actions[now][0], abs=1e-4)


@pytest.mark.parametrize("sample", [False, True])
def test_an_episode_is_played_alone_as_among_others(sample: bool, tmp_path: Path) -> None:
    task = make_task(tmp_path, "key-to-door")
    model = make_model(task)
    many = task.play(use(model, sample=sample), Play(episodes=6, seed=2))
    assert [episode.seed for episode in many] == list(range(2, 8))
    assert many[3] == task.play(use(model, sample=sample), Play(seed=5))[0]
    assert len({tuple(episode.names) for episode in many}) > 1


def test_a_validation_can_play(tmp_path: Path) -> None:
    task = make_task(tmp_path, "key-to-door", validation_episodes=30, metric="return")
    model = make_model(task)
    values = task.figures(model, task.train)
    assert values["return"] == np.mean([episode.reached for episode in task.play(use(model), Play(episodes=30))])
    assert task.config.metric == "return" and task.higher_is_better and values["loss"] > 1


def test_a_critic_is_heard_and_measured(tmp_path: Path) -> None:
    task = make_task(tmp_path, "steer", conditioned=False, critic=True)
    model = make_model(task)
    [episode] = task.play(use(model), Play())
    assert len(episode.expected) == len(episode.rewards)
    batch = task.collate(task.train, np.arange(len(task.train)))
    expected = model.expect(model.states(batch.inputs, batch.layout)) * task.config.return_scale
    to_go = np.concatenate([returns_to_go(one.rewards) for one in task.train.raw.all])
    error = np.square(expected.detach().numpy() - to_go).mean()
    assert task.predicted(model, task.train)["critic_error"] == pytest.approx(error, rel=1e-4)
    with pytest.raises(ConfigError, match="actions that are numbers are not drawn"):
        task.play(use(model, sample=True), Play())


def test_boards_are_there_if_asked_for(tmp_path: Path) -> None:
    task = make_task(tmp_path, "key-to-door")
    [episode] = task.play(use(make_model(task)), Play(boards=True))
    assert len(episode.boards) == len(episode.actions) + 1 and "room 1 of 3" in episode.boards[0]
    assert task.play(use(make_model(task)), Play())[0].boards == []


def test_another_environment_can_be_played_in(tmp_path: Path) -> None:
    task = make_task(tmp_path, "luck")
    model = make_model(task)
    [episode] = task.play(use(model), Play(make=Luck))
    assert episode.actions in ([0], [1]) and episode.names in (["0"], ["1"])
    steering = make_task(tmp_path, "steer")
    with pytest.raises(DataError, match="the game shows states of 1 symbols, and the run was trained on 2 numbers"):
        steering.play(use(make_model(steering)), Play(make=Luck))


def test_filtered_cloning_takes_the_best(tmp_path: Path) -> None:
    task = make_task(tmp_path, "steer", top=0.2, conditioned=False)
    everything = read_episodes(["steer.jsonl"], tmp_path)
    assert sorted(task.train.raw.returns) == sorted(everything.returns)[-6:]
    assert "dropped: not among the best 0.2 by return: 24" in " ".join(task.train.notes.rows())
    assert len(best_of(everything, 1e-9)) == 1


def test_a_run_that_imitates_takes_no_return(tmp_path: Path) -> None:
    task = make_task(tmp_path, "luck", conditioned=False)
    model = make_model(task)
    assert model.form.n_rows == 2 and task.play(use(model), Play())[0].asked is None
    with pytest.raises(ConfigError, match="no return can be asked for"):
        task.play(use(model), Play(asked=5.0))


def test_the_data_settle_what_is_left_open(tmp_path: Path) -> None:
    config = make_task(tmp_path, "luck", n=100).config
    assert (config.n_actions, config.max_steps, config.context, config.symbols) == (2, 1, 1, (("choose",),))
    assert (config.asked, config.return_scale, config.targets) == (10.0, 10.0, (0.0, 5.0, 10.0))
    assert spread(np.arange(100.0)) == pytest.approx([11.0 * i for i in range(10)])
    assert spread(np.array([1 / 3, *range(20)]))[-1] == 19.0
    assert make_task(tmp_path, "luck", asked=5.0, targets=(1.0,)).config.targets == (1.0,)


def test_what_the_model_has_no_place_for_is_refused(tmp_path: Path) -> None:
    task = make_task(tmp_path, "luck", n=100)
    for change, message in (
        ({"actions": [2]}, "l.jsonl:1 has the action 2, and the model knows 2"),
        ({"actions": [[0.5]]}, "l.jsonl:1: the model's actions are whole numbers; these differ"),
        ({"states": [[1.0]]}, "l.jsonl:1: the model reads states of 1 symbols; these differ"),
        ({"states": [["choose", "now"]]}, "l.jsonl:1: the model reads states of 1 symbols; these differ"),
    ):
        record = {"states": [["choose"]], "actions": [0], "rewards": [5.0], **change}
        (tmp_path / "l.jsonl").write_text(json.dumps(record))
        with pytest.raises(DataError, match=message):
            task.part(read_episodes(["l.jsonl"], tmp_path), to_learn=False)
    (tmp_path / "l.jsonl").write_text(json.dumps({"states": ["what"], "actions": [0], "rewards": [5.0]}))
    notes = task.part(read_episodes(["l.jsonl"], tmp_path), to_learn=False).notes
    assert notes.rows() == ["symbols that training does not have: 1 (first at l.jsonl:1)"]


def test_settings_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="found by playing: set game, and validation_episodes"):
        DecisionsConfig(metric="return")
    with pytest.raises(ConfigError, match="top must be above 0 and at most 1"):
        DecisionsConfig(top=0.0)
    task = make_task(tmp_path, "key-to-door")
    with pytest.raises(ConfigError, match=r"24 steps are 72 rows, and model.max_length is 64; raise it"):
        task.config.build(Stack(StackConfig(vocab_size=5, d_model=16, n_heads=2, n_layers=1, d_ff=8, max_length=64)))
    with pytest.raises(ConfigError, match="a decision must not see the future"):
        task.config.build(Stack(StackConfig(vocab_size=5, d_model=16, n_heads=2, n_layers=1, d_ff=8, causal=False)))
    with pytest.raises(ConfigError, match=r"set decoding.beam = 1, not 2"):
        task.play(use(make_model(task), beam=2), Play())
    nowhere = replace(task.config, game="")
    with pytest.raises(ConfigError, match="the recipe names no game to play"):
        Decisions(nowhere, task.setup).play(use(make_model(task)), Play())
