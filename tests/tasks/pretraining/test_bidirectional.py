"""What both language models of ELMo read: text of plain files and of tables, each window from both ends."""

from pathlib import Path

import pytest
import torch

from regard.data.config import DataConfig
from regard.data.files.plain import PlainText
from regard.decoding.config import DecodingConfig
from regard.errors import ConfigError
from regard.models.elmo import BiLM, BiLMConfig
from regard.tasks.pretraining.orders import Bidirectional, BidirectionalConfig
from regard.tasks.setup import Setup
from regard.text.tokenizer import Tokenizer, TokenizerConfig


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    (tmp_path / "plain.txt").write_text("a b c\n\nb c\n", encoding="utf-8")
    (tmp_path / "reviews.tsv").write_text("0\tc b a\n1\tb b\n", encoding="utf-8")
    return DataConfig(root=str(tmp_path), train=("plain.txt", "reviews.tsv"), columns=("2",), batch_tokens=6)


def task_of(data: DataConfig, tmp_path: Path, kind: str = "spaces", **settings) -> Bidirectional:
    tokenizer = Tokenizer.train(Bidirectional.texts(data), TokenizerConfig(kind=kind, vocab_size=270))
    setup = Setup(
        data=data, tokenizer=tokenizer, dropout=0.0, cache=tmp_path / "cache", seed=0, decoding=DecodingConfig()
    )
    return Bidirectional.make(BidirectionalConfig(**settings), setup)


def test_lines_come_from_plain_files_and_from_columns_of_tables(data):
    text = PlainText.read(data.train, data.root, data.columns)
    assert text.lines == ["a b c", "", "b c", "c b a", "b b"]
    assert text.places == ["plain.txt:1", "plain.txt:2", "plain.txt:3", "reviews.tsv:1", "reviews.tsv:2"]
    whole = PlainText.read(data.train, data.root)  # no columns named: a table is a text like any other
    assert whole.lines[3:] == ["0\tc b a", "1\tb b"]


@pytest.mark.parametrize(("unit", "kind"), [("lines", "spaces"), ("stream", "bpe"), ("text", "characters")])
def test_the_loss_of_an_epoch_is_that_of_the_whole_text(data, tmp_path, unit, kind):
    """Each window is a text of its own, so the sum does not depend on how they are batched."""
    task = task_of(data, tmp_path, kind, unit=unit, window=3)
    torch.manual_seed(0)
    model = BiLM(BiLMConfig(vocab_size=task.tokenizer.vocab_size, d_model=4)).eval()
    batches = [task.batch(0, i) for i in range(task.n_batches(0))]
    assert len(batches) > 1
    with torch.no_grad():
        total = sum(float(task.loss(model, batch)) for batch in batches)
        task.valid = task.train
        assert task.validate(model)["loss"] == pytest.approx(total / sum(batch.n_targets for batch in batches))


def test_nothing_is_carried_and_nothing_written(data, tmp_path):
    task = task_of(data, tmp_path)
    assert task.tensors() == {} and task.samples(None) == []


@pytest.mark.parametrize(
    ("settings", "words"), [({"unit": "words"}, "unit"), ({"window": 0}, "window"), ({"metric": "bleu"}, "metric")]
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(ConfigError, match=f"{words} must be"):
        BidirectionalConfig(**settings)
