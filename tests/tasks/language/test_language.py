"""The task of language modelling: what an epoch learns from, what a validation counts, what is carried."""

import math

import numpy as np
import pytest
import torch
from small_language import TRAIN, VALID, make, setup

from regard.decoding.engine import Engine
from regard.errors import ConfigError
from regard.models.convolutional import Convolutional, ConvolutionalConfig
from regard.models.heads import LanguageModel
from regard.models.markov import Markov, MarkovConfig
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.stack import Stack, StackConfig
from regard.nn.layout import Ragged
from regard.processes import ALONE, Sharing, sharing
from regard.tasks.language.batches import accuracy, carried_nats, total_nats
from regard.tasks.language.task import Language, LanguageConfig
from regard.tasks.setup import Use
from regard.text.words import END, START

WAYS = [
    {"unit": "lines"},
    {"unit": "stream"},
    {"unit": "text"},
    {"unit": "stream", "carry": True},
    {"unit": "text", "carry": True},
]


class Noting:
    """A model that notes what it is asked to predict; -log P of a label is its id + 1."""

    device = torch.device("cpu")

    def __init__(self):
        self.seen = []

    def nats(self, tokens, labels, layout, smoothing=0.0):
        self.seen += labels.tolist()
        return (labels + 1).sum()

    def carried_nats(self, tokens, labels, layout, state, smoothing=0.0):
        return self.nats(tokens, labels, layout), self

    def guesses(self, tokens, layout):
        return tokens

    def select(self, rows):
        pass


def lstm(vocab_size):
    torch.manual_seed(0)
    return LanguageModel(Recurrent(RecurrentConfig(vocab_size=vocab_size, d_model=8, d_hidden=8))).eval()


def chain(task, **settings):
    model = Markov(MarkovConfig(vocab_size=task.tokenizer.vocab_size, **settings))
    model.count(task.sequences())
    return model


@pytest.mark.sampled("every case is a training of its own", cases=3)
@pytest.mark.parametrize("kind", ["characters", "spaces"])
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("window", [1, 5, 7, 1000])
def test_a_validation_predicts_every_token_once(tmp_path, way, kind, window):
    task = make(tmp_path, kind, window=window, **way)
    model = Noting()
    values = task.validate(model)
    expected = task.valid.tokens[1:]
    assert sorted(model.seen) == sorted(expected.tolist())
    nats = int((expected + 1).sum())
    n_words = len(VALID.split()) + 4
    assert values == pytest.approx(
        {
            "loss": nats / len(expected),
            "perplexity": math.exp(min(nats / len(expected), 700)),
            "word_perplexity": math.exp(min(nats / n_words, 700)),
            "bits_per_byte": nats / math.log(2) / len(VALID.encode()),
        }
    )


@pytest.mark.parametrize("epoch", [0, 1, 5])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_an_epoch_learns_from_every_token_but_a_few(tmp_path, way, epoch):
    task = make(tmp_path, **way)
    batches = [task.batch(epoch, i) for i in range(task.n_batches(epoch))]
    labels = np.concatenate([batch.labels.numpy() for batch in batches])
    all_labels = task.train.tokens[1:]
    n_lost = len(all_labels) - len(labels)
    is_whole = way["unit"] == "lines" or (epoch == 0 and "carry" not in way)
    assert n_lost == 0 if is_whole else 0 <= n_lost < 7 + 5  # before the first window, and below 5 columns
    assert not np.setdiff1d(labels, all_labels).size and max(batch.n_targets for batch in batches) <= 40
    assert [batch.begins for batch in batches] == [True] + [False] * (len(batches) - 1)
    for batch in batches:
        assert len(batch.lines) == batch.layout.n_sequences and batch.lines[0].startswith("train.txt:")
        follows = torch.ones(batch.n_targets, dtype=torch.bool)
        follows[batch.layout.offsets[:-1]] = False
        assert torch.equal(batch.tokens[follows], batch.labels[:-1][follows[1:]])  # one place further


def test_batches_of_one_epoch_are_not_those_of_the_next(tmp_path):
    for way in WAYS:
        task = make(tmp_path, **way)
        first, second = (
            [t for i in range(task.n_batches(e)) for t in task.batch(e, i).tokens.tolist()] for e in (0, 1)
        )
        assert first != second
        again = make(tmp_path, **way)
        assert [t for i in range(again.n_batches(1)) for t in again.batch(1, i).tokens.tolist()] == second


def test_lines_know_nothing_of_each_other(tmp_path):
    task = make(tmp_path, "spaces", unit="lines", window=4)
    the, cat, saw = task.tokenizer.encode("the cat saw")
    batches = [task.batch(0, i) for i in range(task.n_batches(0))]
    rows = [row for b in batches for row in zip(b.tokens.split(b.layout.lengths.tolist()), b.lines, strict=True)]
    assert {tuple(row.tolist()) for row, line in rows if line == "train.txt:1"} == {
        (START, the, cat, saw),
        tuple(task.tokenizer.encode("a bird")),  # the rest of a line that is longer than the window
    }
    assert all(END not in row for row, _ in rows)


def test_carried_columns_go_on_from_batch_to_batch(tmp_path):
    task = make(tmp_path, unit="text", carry=True)
    for before, after in zip(range(task.n_batches(2) - 1), range(1, task.n_batches(2)), strict=True):
        one, other = task.batch(2, before), task.batch(2, after)
        last = one.labels.view(one.layout.n_sequences, -1)[:, -1]
        assert torch.equal(other.tokens.view(other.layout.n_sequences, -1)[:, 0], last)


@pytest.mark.parametrize("n_parts", [1, 4])  # in which its columns are divided among processes
@pytest.mark.parametrize("n_columns", [1, 3, 10, 10_000])
def test_a_carried_text_in_one_column_is_the_text_in_one_piece(tmp_path, n_columns, n_parts):
    task = make(tmp_path, unit="text", carry=True)
    model, valid = lstm(task.tokenizer.vocab_size), task.valid
    whole = total_nats(model, valid, len(valid), len(valid))
    with sharing(Sharing(ALONE, n_parts)):
        found = carried_nats(model, valid, 7, n_columns)
    if n_columns == 1:
        assert found == pytest.approx(whole, rel=1e-6)
    n = min(n_columns, len(valid))  # columns begin anew, and what is below the last one goes on from it
    height = len(valid) // n
    pieces = [(i * height, (i + 1) * height if i < n - 1 else len(valid)) for i in range(n)]
    tokens = torch.from_numpy(np.concatenate([valid.tokens[a:b] for a, b in pieces]))
    labels = torch.from_numpy(np.concatenate([valid.tokens[a + 1 : b + 1] for a, b in pieces]))
    with torch.no_grad():
        expected = model.nats(tokens, labels, Ragged([b - a for a, b in pieces]))
    assert found == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("settings", [{"order": 2}, {"order": 4}, {"kind": "skips", "reach": 3}], ids=str)
def test_a_chain_carries_its_last_words(tmp_path, settings):
    task = make(tmp_path, unit="text", carry=True)
    model = chain(task, **settings)
    whole = total_nats(model, task.valid, len(task.valid), len(task.valid))
    assert carried_nats(model, task.valid, 7, 1) == pytest.approx(whole, rel=1e-6)
    assert total_nats(model, task.valid, 7, 40) != pytest.approx(whole, rel=1e-6)
    assert task.validate(model)["loss"] == pytest.approx(carried_nats(model, task.valid, 7, 10) / len(task.valid))


@pytest.mark.parametrize(("window", "context"), [(3, 2), (7, 2), (7, 6), (500, 400)])
def test_with_enough_context_windows_are_the_text_in_one_piece(tmp_path, window, context):
    task = make(tmp_path, unit="text", window=window, context=context)
    model = chain(task, order=2)  # which remembers two tokens
    whole = total_nats(model, task.valid, len(task.valid), len(task.valid))
    assert task.validate(model)["loss"] == pytest.approx(whole / len(task.valid), rel=1e-6)
    alone = accuracy(model, task.valid, len(task.valid), len(task.valid))
    assert accuracy(model, task.valid, window, 40, context) == pytest.approx(alone)


@pytest.mark.parametrize("context", [0, 1, 4])
def test_context_is_read_and_not_counted(tmp_path, context):
    task = make(tmp_path, unit="text", window=7, context=context)
    model, tokens = lstm(task.tokenizer.vocab_size), task.valid.tokens
    total, end = 0.0, 0
    while end < len(task.valid):
        start = max(end - context, 0) if end else 0
        stop = min(start + 7, len(task.valid))
        rows = model(torch.from_numpy(tokens[start:stop]), Ragged([stop - start]))
        log_probs = (rows @ model.output_table.T).log_softmax(-1)
        labels = torch.from_numpy(tokens[start + 1 : stop + 1])
        total -= log_probs.gather(1, labels[:, None])[end - start :].sum().item()
        end = stop
    assert task.validate(model)["loss"] == pytest.approx(total / len(task.valid), rel=1e-5)


def test_blanks_hide_what_is_read_by_chance_and_place_alone(tmp_path):
    plain, blank = make(tmp_path, unit="text"), make(tmp_path, unit="text", blank=0.4)
    hidden = 0
    for index in range(plain.n_batches(1)):
        one, other = plain.batch(1, index), blank.batch(1, index)
        assert torch.equal(one.labels, other.labels)
        changed = one.tokens != other.tokens
        assert (other.tokens[changed] == blank.tokenizer.unknown_id).all()
        assert torch.equal(other.tokens, blank.batch(1, index).tokens)
        hidden += int(changed.sum())
    assert 0.3 < hidden / len(plain.train) < 0.5
    assert not torch.equal(blank.batch(1, 0).tokens == 3, blank.batch(1, 1).tokens == 3)
    model = Noting()
    assert blank.validate(model) == plain.validate(model)


def test_a_model_that_counts_sees_whole_lines(tmp_path):
    lines = make(tmp_path, "spaces", unit="lines", window=2)
    [(tokens, lengths)] = lines.sequences()
    sentences = [[START, *lines.tokenizer.encode(line), END] for line in TRAIN.splitlines()]
    assert tokens.tolist() == [t for s in sentences for t in s] and lengths.tolist() == list(map(len, sentences))
    [(tokens, lengths)] = make(tmp_path, unit="text").sequences()
    assert len(tokens) == len(TRAIN) + 1 == lengths.sum()


@torch.no_grad()
def test_validation_leaves_the_carried_state_alone(tmp_path):
    task = make(tmp_path, unit="text", carry=True, sample_length=4)
    model = lstm(task.tokenizer.vocab_size)
    for i in range(2):
        task.loss(model, task.batch(0, i))
    before = {name: tensor.clone() for name, tensor in task.tensors().items()}
    task.validate(model)
    assert len(task.samples(model)) == 2
    assert before and all(torch.equal(task.tensors()[name], tensor) for name, tensor in before.items())
    expected = float(task.loss(model, task.batch(0, 2)))
    task.restore(before, model)
    assert float(task.loss(model, task.batch(0, 2))) == expected
    task.restore({}, model)
    assert task.tensors() == {} and float(task.loss(model, task.batch(0, 2))) != expected


def test_measures_of_a_test_text(tmp_path):
    for data, what in (
        ({"test": ("valid.txt",)}, "valid.txt"),
        ({}, "the validation text"),
        ({"valid": (), "valid_share": 0.2}, "the validation text"),
        ({"valid": (), "test_share": 0.3}, "30% of the text, held out"),
    ):
        parts = setup(tmp_path, **data)
        config = LanguageConfig(unit="text", window=7)
        model = Noting()
        of, metrics = Language(config, parts).measure(Use(model, Engine(model), parts.decoding))[:2]
        assert of == what and [metric.name for metric in metrics][:2] == ["loss", "perplexity"]
        kept = 1 - data.get("valid_share", 0) - data.get("test_share", 0)
        text = VALID if kept == 1 else TRAIN[int(kept * len(TRAIN)) :]
        ids = parts.tokenizer.encode(text)
        assert sorted(model.seen) == sorted(ids)
        doubled = sum(a == b for a, b in zip(parts.tokenizer.encode("\n" + text), ids, strict=False))
        assert metrics[4].name == "accuracy" and metrics[4].value == pytest.approx(100 * doubled / len(ids))
        assert f"n:{len(text)}|tok:characters|unit:text|window:7|unknown:" in metrics[0].signature
    with pytest.raises(ConfigError, match="names no test files"):
        Language(config, setup(tmp_path, valid=())).measure(Use(Noting(), Engine(Noting()), parts.decoding))


@torch.no_grad()
def test_a_text_shorter_than_everything(tmp_path):
    (tmp_path / "one.txt").write_text("t", encoding="utf-8")
    for way in WAYS:
        task = make(tmp_path, data={"train": ("one.txt",), "valid": ("one.txt",)}, window=64, **way)
        assert [task.n_batches(epoch) for epoch in range(3)] == [1, 1, 1] and task.batch(1, 0).n_targets >= 1
        model = lstm(task.tokenizer.vocab_size)
        assert math.isfinite(float(task.loss(model, task.batch(0, 0)))) and math.isfinite(task.validate(model)["loss"])
        assert task.small_batch(500).n_targets == len(task.train)


def test_mistakes_in_the_settings():
    for settings, message in (
        ({"unit": "page"}, "unit must be one of lines, stream, text, got 'page'"),
        ({"window": 0}, "window must be at least 1"),
        ({"unit": "lines", "carry": True}, "nothing is carried"),
        ({"smoothing": 1.0}, "smoothing must be at least 0 and below 1"),
        ({"shown": -1}, "shown must not be negative"),
        ({"context": 256}, "context must be below window = 256"),
        ({"context": 1, "unit": "lines"}, "0 for lines and where states are carried"),
        ({"context": 1, "carry": True}, "0 for lines and where states are carried"),
        ({"blank": 1.0}, "blank must be at least 0 and below 1"),
        ({"sample_length": 0}, "sample_length must be at least 1"),
        ({"metric": "bleu"}, "metric must be loss"),
    ):
        with pytest.raises(ConfigError, match=message):
            LanguageConfig(**settings)
    small = {"vocab_size": 9, "d_model": 8, "n_layers": 1, "max_length": 16}
    for reader in (Convolutional(ConvolutionalConfig(**small)), Stack(StackConfig(n_heads=2, d_ff=8, **small))):
        with pytest.raises(ConfigError, match="carry = true needs a model whose state goes on"):
            LanguageConfig(carry=True, window=8).build(reader)
        with pytest.raises(ConfigError, match=r"a window of 17 tokens does not fit model.max_length = 16"):
            LanguageConfig(window=17).build(reader)
        LanguageConfig(window=16).build(reader)
