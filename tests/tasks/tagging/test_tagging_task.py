"""Tagging as a task: it learns, reads no padding, resumes, and says what happened to every line."""

from pathlib import Path

import pytest
import torch
from tiny_sentences import MODELS, TAGGING, sentences, tags_of, train, write_sentences

from regard.data.batching.restoring import strip
from regard.errors import ConfigError, DataError
from regard.nn.layout import Ragged, Rectangle
from regard.runs.recipe import Recipe
from regard.runs.run import Run, load
from regard.runs.weights import weights_of
from regard.tasks.tagging.task import RestorationConfig, TaggingConfig
from regard.training.prepare import prepare
from tests.drawn import some_fast

TEXT = ["I saw Ann.", "Then Ann saw me, and I ran.", "Did NASA see Ann?", "Yes, NASA saw me."]


@pytest.fixture(scope="module", params=some_fast(MODELS, every=len(MODELS)))  # a training each
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp(request.param)
    train(write_sentences(place, request.param), place / "run")
    return load(place / "run", "cpu")


@pytest.fixture(scope="module")
def restorer(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Knows four sentences by heart."""
    place = tmp_path_factory.mktemp("restorer")
    for name in ("train", "valid", "test"):
        (place / f"{name}.txt").write_text("".join(f"{line}\n" for line in TEXT * 10), encoding="utf-8")
    settings = {"root": place, "kind": "restoration", "task": "", "architecture": "recurrent", "tokenizer": "bpe"}
    recipe = place / "restorer.toml"
    recipe.write_text(TAGGING.format(model="\n".join(MODELS["recurrent"]), **settings), encoding="utf-8")
    train(recipe, place / "run", "training.steps=100", "training.learning_rate=0.03")
    return load(place / "run", "cpu")


def test_every_kind_of_reader_learns_what_the_context_tells(run: Run) -> None:
    what, metrics = run.measure()[:2]
    found = {metric.name: metric.value for metric in metrics}
    assert what == "test.txt"
    assert found["micro F1"] > 97 and found["accuracy"] > 97
    assert found["unigram baseline: micro F1"] == 0  # the word alone tells nothing
    assert found["F1 of BEFORE"] == found["micro F1"] == found["macro F1"]


def test_a_run_knows_the_tags_that_its_data_had(run: Run) -> None:
    assert run.recipe.task.tags == ("BEFORE", "O")
    answer = run.tag(["can bee fig"])[0]
    assert answer.words == ["can", "bee", "fig"] and answer.tags == ["BEFORE", "O", "O"]
    assert answer.text == "can/BEFORE bee/O fig/O" and all(0.5 <= p <= 1 for p in answer.probabilities)


def test_alone_as_in_a_batch(run: Run) -> None:
    lines = [" ".join(words) for words in sentences(8, seed=7)]
    for line, together in zip(lines, run.tag(lines), strict=True):
        alone = run.tag([line])[0]
        assert alone.tags == together.tags
        assert alone.probabilities == pytest.approx(together.probabilities, abs=1e-5)


@pytest.mark.slow  # a training of its own
def test_words_between_their_marks_are_learnt_too(tmp_path: Path) -> None:
    train(write_sentences(tmp_path, "stack"), tmp_path / "run", "task.framed=true")
    run = load(tmp_path / "run", "cpu")
    found = {metric.name: metric.value for metric in run.measure().metrics}
    assert found["accuracy"] > 97
    assert run.tag(["can bee fig"])[0].tags == ["BEFORE", "O", "O"]
    assert run.tag(["can bee " * 15])[0].notes == ["split into 2"]


def test_padding_is_never_read(run: Run) -> None:
    """The same rows whether the places behind the shorter sentence hold nothing, or ids that mean something."""
    tokens = torch.tensor([[4, 5, 6, 7], [5, 6, 4, 4]])
    lengths = torch.tensor([4, 2])
    with torch.no_grad():
        flat = run.model(torch.cat([tokens[0], tokens[1, :2]]), Ragged([4, 2]))
        alone = run.model(tokens[1, :2], Ragged([2]))
        padded = run.model(tokens, Rectangle(lengths, 4))
    torch.testing.assert_close(flat[4:], alone)
    torch.testing.assert_close(padded[1, :2], alone)


def test_every_line_has_an_answer_and_its_story(run: Run) -> None:
    lines = ["", "bee", " \t ", "can bee " * 15, "unknown words </s>"]
    answers = run.tag(lines)
    assert [answer.notes for answer in answers] == [["empty"], [], ["empty"], ["split into 2"], []]
    assert [len(answer.words) for answer in answers] == [0, 1, 0, 30, 3]
    assert answers[0].text == "" and answers[3].tags.count("BEFORE") > 10
    assert run.tag([]) == []


@pytest.mark.slow  # a whole training
@pytest.mark.parametrize("tokenizer", ["bpe", "words", "characters"])  # a training each
def test_words_of_several_tokens(tmp_path: Path, tokenizer: str) -> None:
    recipe = write_sentences(tmp_path, "recurrent", tokenizer)
    train(recipe, tmp_path / "run", "tokenizer.vocab_size=263", "training.learning_rate=0.03", "data.max_length=60")
    run = load(tmp_path / "run", "cpu")
    words = ["can", "bee", "fig", "bee", "bee"]
    assert len(run.tokenizer.encode(" can")) > 1 or tokenizer == "words"
    assert run.tag([" ".join(words)])[0].tags == tags_of(words)


def test_a_resumed_run_is_the_same_to_the_bit(tmp_path: Path) -> None:
    recipe = write_sentences(tmp_path)
    settings = ["training.save_every=10", "training.validate_every=10", "training.schedule=constant"]
    train(recipe, tmp_path / "whole", *settings, "training.steps=20", "model.dropout=0.3")
    train(recipe, tmp_path / "parted", *settings, "training.steps=10", "model.dropout=0.3")
    train(recipe, tmp_path / "parted", "training.steps=20", resume=True)
    first, second = (weights_of(load(tmp_path / name, "cpu").model) for name in ("whole", "parted"))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_what_was_decided_is_said(tmp_path: Path) -> None:
    prepared = prepare(Recipe.read(str(write_sentences(tmp_path)), ["data.max_length=5"]), tmp_path / "run")
    decided = [row for name, row in prepared.task.rows() if name == "decided"]
    assert any(row.startswith("read in pieces: longer than 5 tokens: ") for row in decided)
    n_words = sum(len(words) for words in sentences(200, seed=0))
    batches = [prepared.task.batch(0, i) for i in range(prepared.task.n_batches(0))]
    assert sum(batch.n_targets for batch in batches) == n_words  # nothing is dropped
    assert max(batch.layout.longest for batch in batches) == 5
    inspected = [row.what for row in prepared.task.inspect()]
    assert {"tag O", "tag BEFORE", "sentences, words"} <= set(inspected)


def test_case_and_punctuation_are_restored(restorer: Run) -> None:
    stripped = [" ".join(strip(line)[0]) for line in TEXT]
    assert [answer.text for answer in restorer.tag(stripped)] == TEXT
    assert [
        answer.text for answer in restorer.tag([line.upper() + "!!" for line in TEXT])
    ] == TEXT  # what is given goes
    found = {metric.name: metric.value for metric in restorer.measure().metrics}
    assert found["micro F1"] == 100 > found["unigram baseline: micro F1"] > 0
    assert found["F1 of lower"] == 100


def test_files_can_be_evaluated(restorer: Run, tmp_path: Path) -> None:
    path = tmp_path / "other.txt"
    path.write_text("I ran.\n\nI saw me.\n", encoding="utf-8")
    what, metrics = restorer.measure([path])[:2]
    assert what == str(path) and metrics[0].signature.startswith("n:5|")


def test_mistakes_are_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="metric must be one of f1, accuracy, loss, got 'bleu'"):
        TaggingConfig(metric="bleu")
    with pytest.raises(ConfigError, match="neutral = 'O' is not one of the tags: A, B"):
        TaggingConfig(tags=("A", "B"), neutral="O")
    with pytest.raises(ConfigError, match="tags must not list anything twice"):
        TaggingConfig(tags=("A", "A"))
    with pytest.raises(ConfigError, match="dropout must be at least 0 and below 1"):
        RestorationConfig(dropout=1.0)
    recipe = write_sentences(tmp_path, tokenizer="bpe")
    with pytest.raises(ConfigError, match=r"set tokenizer\.dropout = 0"):
        prepare(Recipe.read(str(recipe), ["tokenizer.dropout=0.1"]), tmp_path / "dropout")
    (tmp_path / "valid.txt").write_text("bee X\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"valid\.txt:1 has the tag 'X', which training does not have"):
        prepare(Recipe.read(str(recipe)), tmp_path / "strange")
