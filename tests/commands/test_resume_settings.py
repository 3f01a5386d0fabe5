"""What a resume notices: settings, validation data and records that are not as they were."""

import json
from pathlib import Path

import pytest
from calling import Call, Outcome, content

from regard.runs.checkpoints import state_of
from tests.drawn import some_fast

CHANGES = ["tokenizer.dropout=0.1", "model.dropout=0.3", "training.learning_rate=0.5"]
MORE = ("--set", "training.steps=22", "--device", "cpu")


@pytest.mark.parametrize(
    "setting",
    [
        "task.metric=bleu",
        "model.position=rotary",
        "model.norm_eps=0.1",
        "training.seed=7",
        "data.order=grouped",
        "data.batch_tokens=599",
        "tokenizer.min_count=2",
    ],
)
def test_what_the_weights_and_the_state_belong_to_stays(run: Path, regard: Call, setting: str) -> None:
    before = content(run)
    refused = regard("train", run, "--resume", "--set", setting, *MORE)
    assert refused.code == 1, refused
    assert setting.split("=")[0] in refused.err and "Nothing was changed" in refused.err and "--from" in refused.err
    assert content(run) == before


@pytest.mark.parametrize("setting", some_fast(CHANGES, every=3))  # a training each
def test_what_may_change_is_said(run: Path, regard: Call, setting: str) -> None:
    ended = regard("train", run, "--resume", "--set", setting, *MORE)
    assert ended.code == 0, ended.err
    assert f"{setting.split('=')[0]} was " in ended.out + ended.err


def with_other_valid(run: Path, regard: Call) -> Outcome:
    path = run.parent / "data" / "valid.fr"
    path.write_text("".join(reversed(path.read_text(encoding="utf-8").splitlines(keepends=True))), encoding="utf-8")
    return regard("train", run, "--resume", "--set", f"data.root={run.parent / 'data'}", *MORE)


def test_other_validation_files_are_noticed(run: Path, regard: Call) -> None:
    refused = with_other_valid(run, regard)
    assert refused.code == 1 and "valid.fr. Nothing was changed" in refused.err


def test_a_run_that_does_not_know_its_validation_files_is_trusted(run: Path, regard: Call) -> None:
    record = json.loads((run / "data.json").read_text())
    del record["valid"]
    (run / "data.json").write_text(json.dumps(record))
    assert with_other_valid(run, regard).code == 0


def test_a_damaged_data_json_is_said(run: Path, regard: Call) -> None:
    for damage in (b"", b"[]", b"{}", b'{"train": 3}', b"\xff", b"[" * 100_000):
        (run / "data.json").write_bytes(damage)
        refused = regard("train", run, "--resume", *MORE)
        assert refused.code == 1, damage[:20]
        assert "data.json is damaged" in refused.err and "remove it and resume" in refused.err
    (run / "data.json").unlink()
    assert regard("train", run, "--resume", *MORE).code == 0


@pytest.mark.sampled("every case is a run of the command of its own")
@pytest.mark.parametrize("damage", [b"", b"[]", b"{}", b'{"weights": 3}', b"\xff", b"[" * 100_000])
def test_a_damaged_result_json_spoils_no_use(run: Path, regard: Call, damage: bytes) -> None:
    (run / "result.json").write_bytes(damage)
    assert regard("translate", run, "--device", "cpu", stdin=b"dog\n").code == 0


LINES = [b"[]\n", b'"x"\n', b'{"step": "x"}\n', b'{"kind": 1, "step": 1}\n', b"\xff\n", b"[" * 100_000]


# All of them in one file; each by itself takes a training more.
@pytest.mark.parametrize("damage", [b"".join(LINES), *(pytest.param(line, marks=pytest.mark.slow) for line in LINES)])
def test_damaged_lines_of_metrics_are_left_out(run: Path, regard: Call, damage: bytes) -> None:
    path = run / "metrics.jsonl"
    sound = path.read_bytes()
    path.write_bytes(damage + sound.replace(b'"lr": ', b'"lr": "x", "was": ', 1))
    ended = regard("train", run, "--resume", *MORE)
    assert ended.code == 0, ended.err


@pytest.mark.parametrize(
    "damage",
    [b"[]", *(pytest.param(other, marks=pytest.mark.slow) for other in (b'{"now": 3, "changes": 4}', b"\xff"))],
)
def test_a_damaged_environment_json_is_begun_anew(run: Path, regard: Call, damage: bytes) -> None:
    (run / "environment.json").write_bytes(damage)
    assert regard("train", run, "--resume", *MORE).code == 0
    assert json.loads((run / "environment.json").read_text())["now"]


def test_a_damaged_checkpoint_that_the_average_needs_is_named_with_a_way_on(run: Path, regard: Call) -> None:
    path = run / "checkpoints" / "step-10" / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    ended = regard("train", run, "--resume", "--set", "training.average=3", *MORE)
    assert ended.code == 1 and str(path) in ended.err
    assert "the average needs it" in ended.err and "--set training.average=0" in ended.err
    assert regard("train", run, "--resume", "--set", "training.average=0", "--device", "cpu").code == 0


def test_a_flipped_bit_of_a_state_is_damage(run: Path) -> None:
    step = run / "checkpoints" / "step-20"
    path = step / "state.json"
    sound = path.read_bytes()
    assert state_of(step) is not None
    for place in range(len(sound)):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1 << place % 8]) + sound[place + 1 :])
        assert state_of(step) is None, f"byte {place}"


def test_a_checkpoint_of_an_older_version_is_read(run: Path, regard: Call) -> None:
    for path in run.glob("checkpoints/step-*/state.json"):
        state = json.loads(path.read_text())
        del state["sha256"]
        path.write_text(json.dumps(state, indent=2))
    ended = regard("train", run, "--resume", *MORE)
    assert ended.code == 0 and "resuming from" in ended.out + ended.err


OTHER_SHAPES = [{"step": "20"}, 3, {"stepp": 1}, None, {"best_value": "x", "step": 20}]


@pytest.mark.parametrize("progress", some_fast(OTHER_SHAPES, every=5))  # a training each
def test_an_older_state_of_another_shape_is_passed_over(run: Path, regard: Call, progress: object) -> None:
    path = run / "checkpoints" / "step-20" / "state.json"
    state = json.loads(path.read_text())
    del state["sha256"]
    path.write_text(json.dumps({**state, "progress": progress}))
    ended = regard("train", run, "--resume", *MORE)
    assert ended.code == 0, ended.err
    assert f"skipping {path.parent}" in ended.out + ended.err
