"""The recipes sentences-bart and sentences-t5: trained by themselves, they put words of the right kind into gaps."""

import re
from pathlib import Path

import pytest
import torch
from rich.console import Console

import regard
from regard.data.corpora.grammar import generate
from regard.runs.recipe import Recipe
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start

N = 60  # sentences that are repaired
ENDS = re.compile(r" too (\w+)([.?])$")


@pytest.mark.slow  # a minute of training each
@pytest.mark.parametrize("kind", ["bart", "t5"])
def test_gaps_are_filled_with_words_of_their_kind(kind: str, tmp_path: Path) -> None:
    generate().write(tmp_path / "sentences")
    learned = (tmp_path / "sentences" / "train.en").read_text(encoding="utf-8").splitlines()
    asked = (tmp_path / "sentences" / "held-out.en").read_text(encoding="utf-8").splitlines()
    adjectives = {match[1] for line in learned if (match := ENDS.search(line))}
    lines = [line for line in asked if ENDS.search(line)][:N]
    few = [f"data.root={tmp_path}", *(f"training.{name}=600" for name in ("steps", "validate_every", "save_every"))]
    prepared = prepare(Recipe.read(f"sentences-{kind}", few), tmp_path / "run")
    start(prepared, tmp_path / "run", torch.device("cpu"), False, Screen(Console(quiet=True)))
    answers = regard.load(tmp_path / "run", "cpu").fill([ENDS.sub(r" too [MASK]\2", line) for line in lines])
    ends = [ENDS.search(answer.text) for answer in answers]
    n_right = sum(match is not None and match[1] in adjectives for match in ends)
    assert len(adjectives) > 10 and n_right >= 0.9 * N
    assert len({match[1] for match in ends if match}) > 3  # not one word for all
    starts = [line[: line.rindex(" too ")] for line in lines]
    assert sum(answer.text.startswith(words) for words, answer in zip(starts, answers, strict=True)) >= 0.9 * N
