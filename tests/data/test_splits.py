import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard.data.config import DataConfig
from regard.data.files.labelled import labelled_parts, read_labelled
from regard.data.files.plain import text_parts
from regard.data.files.splits import by_hash, folds, normalized
from regard.errors import ConfigError, DataError

SMS = Path(__file__).parents[2].parent / "shared" / "data" / "sms-spam"
TEXTS = [f"text number {i % 700}" + " " * (i % 3) for i in range(1000)]  # 300 texts come twice


def test_the_parts_are_all_of_it_and_of_the_right_size() -> None:
    train, held_out = by_hash(TEXTS, 0.2)
    assert sorted([*train, *held_out]) == list(range(1000))
    assert 150 < len(held_out) < 250
    assert 50 < len(by_hash(TEXTS, 0.1)[1]) < 150


def test_repeated_texts_stay_together() -> None:
    texts = ["Free  entry!", "free entry!", " FREE\tentry! ", "other"] * 3 + TEXTS
    for train, held_out in [by_hash(texts, 0.3, seed=seed) for seed in range(5)] + folds(texts, 4):
        sides = [{normalized(texts[i]) for i in side} for side in (train, held_out)]
        assert all(sides) and not sides[0] & sides[1]


@pytest.mark.skipif(not SMS.is_dir(), reason="the SMS Spam Collection is not here")
def test_the_repeated_messages_of_sms_spam_stay_together() -> None:
    texts = read_labelled(("SMSSpamCollection.tsv.xz",), ("2", "1"), SMS).texts
    kinds = Counter(normalized(text) for text in texts)
    assert sum(n > 1 for n in kinds.values()) > 250
    train, held_out = by_hash(texts, 0.2)
    assert len(train) + len(held_out) == len(texts) == 5574
    assert 0.15 < len(held_out) / len(texts) < 0.25
    assert not {normalized(texts[i]) for i in train} & {normalized(texts[i]) for i in held_out}


def test_folds_hold_out_every_text_once() -> None:
    parts = folds(TEXTS, 5)
    assert sorted(np.concatenate([held_out for _, held_out in parts])) == list(range(1000))
    assert all(sorted([*train, *held_out]) == list(range(1000)) for train, held_out in parts)


def test_another_seed_is_another_split_and_a_larger_share_holds_the_smaller() -> None:
    assert by_hash(TEXTS, 0.2, seed=0)[1].tolist() != by_hash(TEXTS, 0.2, seed=1)[1].tolist()
    assert set(by_hash(TEXTS, 0.2)[1]) < set(by_hash(TEXTS, 0.4)[1])


def test_other_processes_and_other_texts_beside_it_change_nothing() -> None:
    """Python's own hash of a string differs from process to process."""
    code = "from regard.data.files.splits import by_hash; print(by_hash([f't{i}' for i in range(60)], 0.5)[1].tolist())"
    found = [i for i in by_hash([f"t{i}" for i in range(90)], 0.5)[1].tolist() if i < 60]
    for hash_seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": hash_seed}
        output = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout
        assert output.decode().strip() == str(found)


def test_what_cannot_be_split_is_refused() -> None:
    with pytest.raises(ConfigError, match="above 0 and below 1, got 1"):
        by_hash(TEXTS, 1.0)
    with pytest.raises(DataError, match="1 texts are too few"):
        by_hash(["a"], 0.5)
    with pytest.raises(ConfigError, match="2 folds or more, got 1"):
        folds(TEXTS, 1)
    with pytest.raises(DataError, match="2 texts are too few for 3 folds"):
        folds(["a", "b"], 3)


def test_parts_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    """Neither does a training need the test files, nor a test those of the training."""
    (tmp_path / "test.tsv").write_text("text\tlabel\nfine\tgood\n", encoding="utf-8")
    data = DataConfig(root=str(tmp_path), train=("gone.tsv",), test=("test.tsv",), columns=("text", "label"))
    what, test = labelled_parts(data).to_evaluate(())
    assert what == "test.tsv" and test.texts == ["fine"]
    what, given = labelled_parts(data).to_evaluate((str(tmp_path / "test.tsv"),))
    assert what == str(tmp_path / "test.tsv") and given.labels == ["good"]
    train_only = DataConfig(root=str(tmp_path), train=("test.tsv",), test=("gone.tsv",), columns=("text", "label"))
    assert labelled_parts(train_only).train.texts == ["fine"]


def test_what_is_evaluated_without_test_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {i}\n" for i in range(20)), encoding="utf-8")
    data = DataConfig(root=str(tmp_path), train=("a.txt",))
    shared = replace(data, valid_share=0.1)
    what, valid = text_parts(shared, "lines").to_evaluate(())
    assert what == "the validation text" and valid.lines[-1] == "line 19"
    for parts, or_valid in ((text_parts(data, "lines"), True), (text_parts(shared, "lines"), False)):
        with pytest.raises(ConfigError, match="the recipe names no test files; give them: regard evaluate RUN FILE"):
            parts.to_evaluate((), or_valid)
