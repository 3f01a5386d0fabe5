"""Steps whose figures wait on the device hold what was carried up to them, but not more than there is room for."""

import dataclasses
from pathlib import Path

import pytest
import torch
from tiny_training import CONFIG, TinyTask, run_tiny

from regard.training.learner import Learner
from regard.training.unread import HELD, Unread, is_too_much


def unread(n_numbers: int) -> Unread:
    carried = {"layer.0": torch.zeros(n_numbers), "layer.1": torch.zeros(n_numbers)}  # 8 bytes of both for each
    return Unread(1, 0.1, 5, torch.zeros(3), [(0, 0)], {}, carried)


def test_too_much_is_a_share_of_the_device() -> None:
    room = 3 * 8 * 100 / HELD
    assert not is_too_much([], room)
    assert not is_too_much([unread(100)] * 3, room)
    assert is_too_much([unread(100)] * 4, room)


def test_nothing_carried_is_never_too_much() -> None:
    step = Unread(1, 0.1, 5, torch.zeros(3), [(0, 0)], {}, {})
    assert not is_too_much([step] * 1000, 1.0)


@pytest.mark.parametrize(("most", "expected"), [(100, 8), (3, 3)])
def test_the_loop_reads_when_it_must(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, expected: int) -> None:
    waiting: list[int] = []
    read = Learner.read

    def counted(learner: Learner) -> object:
        waiting.append(len(learner.unread))
        return read(learner)

    monkeypatch.setattr(Learner, "must_read", lambda learner: len(learner.unread) >= most)
    monkeypatch.setattr(Learner, "read", counted)
    settings = {"steps": 16, "log_every": 8, "validate_every": 16, "save_every": 16}
    task = TinyTask()
    monkeypatch.setattr(task, "valid", None, raising=False)  # how long a validation takes need not be guessed
    run_tiny(tmp_path / "run", dataclasses.replace(CONFIG, **settings), task=task)
    assert max(waiting) == expected and sum(waiting) == 16
