"""The recipe sentences-gru: Bahdanau's order on the sentences of the demo, whose alignments are clear."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

from regard.data.corpora.grammar import generate
from regard.runs.recipe import Recipe
from regard.runs.run import load
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start


@pytest.mark.slow  # a whole training
def test_the_command_writes_the_sentences(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "regard.data.corpora.grammar", str(tmp_path / "sentences")]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert told == f"wrote {tmp_path / 'sentences'}: 12,000 pairs to learn from, 1,200 others\n"
    recipe = Recipe.read("sentences-gru", [f"data.root={tmp_path}"])
    for name in (*recipe.data.train, *recipe.data.valid, *recipe.data.test):
        assert (tmp_path / name).is_file()


@pytest.mark.slow
def test_nouns_look_at_what_they_translate(tmp_path: Path) -> None:
    corpus = generate()
    corpus.write(tmp_path / "sentences")
    prepared = prepare(Recipe.read("sentences-gru", [f"data.root={tmp_path}"]), tmp_path / "run")
    start(prepared, tmp_path / "run", torch.device("cpu"), False, Screen(Console(quiet=True)))
    run = load(tmp_path / "run", "cpu")
    singular = [pair for pair in corpus.held_out if not (pair.sentence.plural_subject or pair.sentence.plural_object)]
    right = []
    for pair in singular[:60]:
        looks = run.look(pair.source, target=pair.target).pick("cross", 0, 0)
        queries, keys = ([word.strip() for word in names] for names in (looks.queries, looks.keys))
        for english, noun in zip(pair.sentence.english_nouns, pair.sentence.nouns, strict=True):
            weights = looks.weights[queries.index(noun.french.split()[-1])]
            right.append(keys[weights.argmax()] == english and weights.max() > 0.5)
    assert sum(right) >= 0.95 * len(right)
