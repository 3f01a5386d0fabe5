"""Every file of a run × changed bytes: what has a checksum is noticed always, and nothing ends in a bug."""

import random
import shutil
from pathlib import Path

import pytest
from bounded import BUG, bounded
from calling import Outcome, call
from tiny_runs import Runs

DIGESTED = ("checkpoints/",)  # every file below is part of a checkpoint, with its checksum
N_FAST, N_SLOW = 2, 60


def files_of(run: Path) -> list[str]:
    """All but what is cut anew from the data whenever it is missing, and pictures."""
    names = [str(path.relative_to(run)) for path in sorted(run.rglob("*")) if path.is_file()]
    return [name for name in names if not name.startswith("cache/") and not name.endswith(".png")]


def flip(path: Path, chance: random.Random) -> str:
    data = bytearray(path.read_bytes())
    if not data:
        data = bytearray(b"x")
    place = chance.randrange(len(data))
    data[place] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    return f"byte {place} of {path.name}"


def shorten(path: Path, chance: random.Random) -> str:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(max(1, len(data)))])
    return f"{path.name} cut short"


def replace(path: Path, chance: random.Random) -> str:
    content = chance.choice([b"", b"null", b"[]", b"{}", b'{"a": 1}', b"[" * 100_000, b"\x00" * 64, b'"x"', b"1e999"])
    path.write_bytes(content)
    return f"{path.name} replaced by {content[:20]!r}"


def use(run: Path, *arguments: str | Path) -> Outcome:
    end = bounded(lambda: tuple(vars(call(run.parent, *arguments, "--device", "cpu", stdin=b"the cat\n")).values()))
    assert end.how == "returned", str(end)
    outcome = Outcome(*end.value)
    assert BUG not in outcome.err, (run.parent / "error.log").read_text()[-1500:]
    assert outcome.code in (0, 1, 2, 3)
    assert outcome.code == 0 or outcome.err.strip()
    return outcome


def damage_and_use(runs: Runs, n: int, place: Path, seed: int) -> None:
    source = runs["translation"]
    chance = random.Random(seed)
    sound = place / "sound"
    shutil.copytree(source, sound)
    for name in ("model.safetensors", "result.json", "README.md"):
        (sound / name).unlink()
    steps = sorted(sound.glob("checkpoints/step-*"), key=lambda path: int(path.name.split("-")[1]))
    shutil.rmtree(steps.pop())  # it goes on from the one before
    newest = steps[-1].relative_to(sound)
    unbroken = use(sound_copy(sound, place / "unbroken"), "train", place / "unbroken", "--resume")
    assert unbroken.code == 0, unbroken.err
    expected = (place / "unbroken" / "model.safetensors").read_bytes()
    for case in range(n):
        for way in (flip, shorten, replace):
            for origin in (source, sound):
                run = place / f"{case}-{way.__name__}-{origin.name}"
                shutil.copytree(origin, run)
                name = chance.choice(files_of(run))
                if origin == sound and case % 2:
                    name = chance.choice([f for f in files_of(run) if f.startswith(str(newest))])
                before = (run / name).read_bytes()
                what = f"{way(run / name, chance)} in {name}"
                changed = (run / name).read_bytes() != before
                resumed = use(run, "train", run, "--resume") if origin == sound else use(run, "translate", run)
                use(run, "show", run)
                if origin == sound and changed and name.startswith(str(newest)):
                    assert newest.name in resumed.err + resumed.out, f"{what} was not noticed: {resumed}"
                if origin == sound and resumed.code == 0 and name.startswith("checkpoints/"):
                    assert (run / "model.safetensors").read_bytes() == expected, f"{what} changed the result"
                shutil.rmtree(run)


def sound_copy(run: Path, target: Path) -> Path:
    shutil.copytree(run, target)
    return target


@pytest.mark.slow  # a training for each damaged file
def test_a_few_changed_files_of_a_run(runs: Runs, tmp_path: Path) -> None:
    damage_and_use(runs, N_FAST, tmp_path, seed=1)


@pytest.mark.slow
def test_many_changed_files_of_a_run(runs: Runs, tmp_path: Path) -> None:
    damage_and_use(runs, N_SLOW, tmp_path, seed=2)


@pytest.mark.slow
def test_every_bit_of_a_state_is_checked(runs: Runs, tmp_path: Path) -> None:
    """The place in the data and the best value are in state.json: a flipped bit must not change them in silence."""
    from regard.runs.checkpoints import state_of

    step = next(runs["translation"].glob("checkpoints/step-*"))
    shutil.copytree(step, tmp_path / step.name)
    path = tmp_path / step.name / "state.json"
    sound = path.read_bytes()
    assert state_of(path.parent) is not None
    for place in range(len(sound)):
        for bit in range(8):
            data = bytearray(sound)
            data[place] ^= 1 << bit
            path.write_bytes(data)
            assert state_of(path.parent) is None, f"bit {bit} of byte {place}"
