from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_documents import make, setup
from torch.nn import functional as F

from regard.errors import ConfigError
from regard.models import ARCHITECTURES
from regard.models.masked import MaskedWords, rows_at
from regard.models.stack import Stack, StackConfig
from regard.tasks.pretraining.batches import MaskedBatch
from regard.tasks.pretraining.task import MaskedConfig, MaskedLanguage
from regard.tasks.table import TASKS
from regard.training.consistency import consistent_loss

END, START = 2, 1


def model(task: MaskedLanguage, **settings: Any) -> MaskedWords:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"d_model": 16, "n_heads": 2, "n_layers": 1, "d_ff": 32, "max_length": 32, "dropout": 0.0}
    sizes |= {"causal": False, "n_segments": 2, "scale_embedding": False, "embedding_norm": True, "pre_norm": False}
    reader = Stack(StackConfig(vocab_size=task.tokenizer.vocab_size, **sizes | settings))
    return task.config.build(reader)


def sequences(batch: MaskedBatch) -> list[list[int]]:
    """What was there before words were hidden."""
    tokens = batch.tokens.clone()
    tokens[batch.places] = batch.labels
    return [part.tolist() for part in tokens.split(batch.layout.lengths.tolist())]


def halves(ids: list[int]) -> tuple[list[int], list[int]]:
    assert ids[0] == START and ids[-1] == END and ids.count(END) == 2
    middle = ids.index(END)
    return ids[1:middle], ids[middle + 1 : -1]


def test_a_passage_is_a_text_between_its_marks(tmp_path: Path) -> None:
    task = make(tmp_path, nsp=False)
    batch = task.batch(0, 0)
    for ids, line in zip(sequences(batch), batch.lines, strict=True):
        assert ids[0] == START and ids[-1] == END and ids.count(END) == 1 and len(ids) <= 16
        assert task.tokenizer.decode(ids) in task.train.corpus.text.lines[int(line.split(":")[1]) - 1]
    assert batch.follows is None and batch.n_targets == len(batch.places)


def test_half_of_the_second_texts_follow_and_the_others_are_of_another_document(tmp_path: Path) -> None:
    task = make(tmp_path, nsp=True)
    answers = []
    for epoch in range(3):
        for index in range(task.n_batches(epoch)):
            batch = task.batch(epoch, index)
            assert batch.follows is not None
            for ids, line, other in zip(sequences(batch), batch.lines, batch.follows.tolist(), strict=True):
                whole = task.train.corpus.text.lines[int(line.split(":")[1]) - 1]
                first, second = map(task.tokenizer.decode, halves(ids))
                assert first and second and first in whole and len(ids) <= 16
                assert other or f"{first} {second}" in whole
                answers.append(other)
    assert np.mean(answers) == pytest.approx(0.5, abs=0.1) and len(answers) > 150


def test_the_lengths_do_not_tell_what_follows(tmp_path: Path) -> None:
    task = make(tmp_path, nsp=True)
    lengths: dict[int, list[int]] = {0: [], 1: []}
    for epoch in range(10):
        for index in range(task.n_batches(epoch)):
            batch = task.batch(epoch, index)
            assert batch.follows is not None
            for ids, other in zip(sequences(batch), batch.follows.tolist(), strict=True):
                lengths[other].append(len(ids))
    assert np.mean(lengths[0]) == pytest.approx(np.mean(lengths[1]), rel=0.08)


def test_dynamic_masks_differ_each_epoch_and_static_ones_come_again(tmp_path: Path) -> None:
    def hidden(task: MaskedLanguage, epoch: int) -> dict[str, list[int]]:
        found = {}
        for index in range(task.n_batches(epoch)):
            batch = task.batch(epoch, index)
            parts = batch.tokens.split(batch.layout.lengths.tolist())
            found |= {line: part.tolist() for line, part in zip(batch.lines, parts, strict=True)}
        return found

    dynamic, static = (make(tmp_path, nsp=True, masks=masks, window=40) for masks in ("dynamic", "static"))
    assert hidden(dynamic, 0) == hidden(static, 0)
    assert hidden(static, 10) == hidden(static, 0) != hidden(static, 1)
    assert hidden(dynamic, 10) != hidden(dynamic, 0)
    assert hidden(dynamic, 10) == hidden(make(tmp_path, nsp=True, window=40), 10)  # the same in another process


@torch.no_grad()
def test_the_loss_is_the_sum_of_two_means(tmp_path: Path) -> None:
    task = make(tmp_path, nsp=True)
    net, batch = model(task).eval(), task.batch(0, 0)
    assert batch.follows is not None
    rows = net(batch.tokens, batch.layout)
    hidden = net.norm(F.gelu(net.transform(rows[batch.places])))
    words = F.cross_entropy(hidden @ net.embedding.weight.T + net.output_bias, batch.labels)
    first = rows[batch.layout.offsets[:-1].long()]
    assert net.pooler is not None and net.to_next is not None
    follows = F.cross_entropy(net.to_next(torch.tanh(net.pooler(first))), batch.follows)
    assert float(task.loss(net, batch) / batch.n_targets) == pytest.approx(float(words + follows), abs=1e-5)
    plain = make(tmp_path, nsp=False)
    batch = plain.batch(0, 0)
    net = model(plain).eval()
    logits = net.word_logits(net(batch.tokens, batch.layout)[batch.places])
    expected = F.cross_entropy(logits, batch.labels, reduction="sum")
    assert float(plain.loss(net, batch)) == pytest.approx(float(expected), rel=1e-5)


def test_a_batch_is_learnt_by_heart(tmp_path: Path) -> None:
    task = make(tmp_path, nsp=True, masks="static")
    net, batch = model(task, d_model=32), task.small_batch(150)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(40):
        optimizer.zero_grad()
        loss = task.plain_loss(net, batch) / batch.n_targets
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.3
    with torch.no_grad():
        rows = net.eval()(batch.tokens, batch.layout)
    assert torch.equal(net.guesses(rows_at(rows, batch.places)), batch.labels)


def test_validation_hides_the_same_words_each_time(tmp_path: Path) -> None:
    task = make(tmp_path, nsp=True)
    net = model(task).eval()
    values = task.validate(net)
    assert values == task.validate(net)
    assert values.keys() == {"loss", "accuracy", "word_loss", "next_accuracy"}
    assert values["word_loss"] == pytest.approx(np.log(task.tokenizer.vocab_size), rel=0.1)  # nothing is learnt yet
    assert values["loss"] - values["word_loss"] == pytest.approx(np.log(2), rel=0.1)
    (shown, truth, guess), *_ = task.samples(net)
    assert shown.startswith("<s> ") and " <mask> " in shown and shown.endswith(" </s>")  # as many words as are told
    assert shown.count("<mask>") <= len(truth.split("|")) == len(guess.split("|"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"documents": "pages"}, "kind of documents"),
        ({"masks": "none"}, "kind of masks"),
        ({"window": 4}, "window must be at least 5"),
        ({"window": 3, "nsp": False}, "window must be at least 4"),
        ({"share": 0.0}, "share must be above 0"),
        ({"shown": -1}, "shown must not be negative"),
        ({"metric": "bleu"}, "metric must be one of loss, accuracy"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        MaskedConfig(**settings)  # type: ignore[arg-type]
    assert said in str(error.value)


def test_a_model_must_see_both_sides_and_a_window_must_fit(tmp_path: Path) -> None:
    task = make(tmp_path)
    with pytest.raises(ConfigError, match="predicted from both sides"):
        model(task, causal=True)
    with pytest.raises(ConfigError, match="a window of 16 tokens does not fit"):
        model(task, max_length=12)


@pytest.mark.sampled("every case is a training of its own", cases=3)
@pytest.mark.parametrize("architecture", [name for name, row in ARCHITECTURES.items() if row.module.role == "reader"])
@pytest.mark.parametrize("kind", ["masked", "replaced"])
def test_a_reader_that_cannot_predict_masked_words_is_refused_with_a_way_out(architecture: str, kind: str) -> None:
    task = TASKS[kind]
    made = ARCHITECTURES[architecture]
    with torch.device("meta"):  # their own sizes, without the weights
        reader = made.module(made.config(vocab_size=60))
    with pytest.raises(ConfigError, match=r"model\.architecture = 'stack' and model\.causal = false"):
        task.settings().build(reader)


def test_texts_with_masked_words_are_cut_into_tokens_in_one_way(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.dropout = 0"):
        MaskedLanguage.make(MaskedConfig(window=16), replace(setup(tmp_path), dropout=0.1))


def test_r_drop_without_dropout_is_the_loss_of_the_words(tmp_path: Path) -> None:
    task = make(tmp_path, nsp=False)
    words, batch = model(task), task.batch(0, 0)
    torch.testing.assert_close(consistent_loss(task, 1.0, words, batch), task.loss(words, batch))
