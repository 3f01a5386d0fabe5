from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.config import DataConfig
from regard.data.files.pairs import pair_parts, read_pairs
from regard.errors import ConfigError
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.framing import Frame
from regard.tasks.setup import Setup
from regard.tasks.translation.batches import PairSet, make_batch
from regard.tasks.translation.framed import pair_loss
from regard.tasks.translation.task import Translation, TranslationConfig
from regard.text.tokenizer import Tokenizer, TokenizerConfig

FRAME = Frame(start=1, end=2)
ENGLISH = ["the animal", "", "the street was wide", "it was too tired to cross the street", "a b c d e f g h " * 9]
FRENCH = ["l'animal", "rien", "la rue était large", "il était trop fatigué pour traverser la rue", "a b"]


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    (tmp_path / "t.en").write_text("\n".join(ENGLISH) + "\n")
    (tmp_path / "t.fr").write_text("\n".join(FRENCH) + "\n")
    files = ("t.en", "t.fr")
    return DataConfig(root=str(tmp_path), train=files, valid=files, max_length=40, batch_tokens=60)


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.train(ENGLISH + FRENCH, TokenizerConfig(vocab_size=300))


def pair_set(data: DataConfig, tokenizer: Tokenizer, folder: Path, dropout: float = 0.0) -> PairSet:
    examples = read_pairs(data.train, data.columns, data.root)
    setup = Setup(data=data, tokenizer=tokenizer, dropout=dropout, cache=folder / "cache")
    return PairSet(examples, setup, FRAME)


def test_the_decoder_reads_what_it_should_write_one_step_later():
    batch = make_batch([np.array([5, 6]), np.array([7])], [np.array([8]), np.array([9, 10])], ["", ""], Frame(1, 2))
    assert batch.source.tolist() == [5, 6, 2, 7, 2] and batch.source_layout.lengths.tolist() == [3, 2]
    assert batch.target.tolist() == [1, 8, 1, 9, 10] and batch.labels.tolist() == [8, 2, 9, 10, 2]
    assert (batch.n_targets, batch.n_tokens) == (5, 10)


def test_a_source_may_begin_with_a_token_and_a_target_with_another():
    frame = TranslationConfig(source_start=3, target_start=2).frame(Tokenizer.train(["a"], TokenizerConfig()))
    batch = make_batch([np.array([5, 6]), np.array([7])], [np.array([8]), np.array([9])], ["", ""], frame)
    assert batch.source.tolist() == [3, 5, 6, 2, 3, 7, 2] and batch.source_layout.lengths.tolist() == [4, 3]
    assert batch.target.tolist() == [2, 8, 2, 9] and batch.labels.tolist() == [8, 2, 9, 2]
    assert frame.source([5, 6]) == [3, 5, 6, 2]


def test_what_cannot_be_used_is_dropped_and_counted(data, tokenizer, tmp_path):
    pairs = pair_set(data, tokenizer, tmp_path)
    assert pairs.kept.tolist() == [0, 2, 3]
    assert pairs.notes.rows() == [
        "dropped: t.en is empty: 1 (first at t.en:2)",
        "dropped: t.en is longer than 40 tokens: 1 (first at t.en:5)",
    ]
    batch = pairs.batch(np.array([1, 0]))
    assert batch.lines == ["t.en:3", "t.en:1"]
    assert tokenizer.decode(batch.source[: batch.source_layout.lengths[0]].tolist()) == ENGLISH[2]


def test_dropout_cuts_other_tokens_of_the_same_text_by_epoch_alone(data, tokenizer, tmp_path):
    pairs = pair_set(data, tokenizer, tmp_path, dropout=0.5)
    drawn = [pairs.batch(np.array([0, 2]), epoch) for epoch in (0, 1, 0)]
    texts = {tokenizer.decode(batch.source.tolist()) for batch in drawn}
    assert texts == {ENGLISH[0] + ENGLISH[3]}
    assert drawn[0].source.tolist() == drawn[2].source.tolist() != drawn[1].source.tolist()


def test_dropout_cuts_no_text_into_more_tokens_than_fit(data, tokenizer, tmp_path):
    longest = max(len(ids) for text in (ENGLISH[0], FRENCH[0]) for ids in [tokenizer.encode(text)])
    pairs = pair_set(replace(data, max_length=longest), tokenizer, tmp_path, dropout=0.9)
    assert 0 in pairs.kept
    for epoch in range(20):
        for column in pairs.columns(np.array([0]), epoch):
            assert max(len(ids) for ids in column) <= longest


def test_the_loss_of_a_batch_is_the_sum_over_its_pairs(data, tokenizer, tmp_path):
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=tokenizer.vocab_size, d_model=16, n_heads=2, n_layers=1, d_ff=32)
    model = Transformer(config).eval()
    pairs = pair_set(data, tokenizer, tmp_path)
    whole = pair_loss(model, pairs.batch(np.arange(3)), smoothing=0.1)
    parts = sum(pair_loss(model, pairs.batch(np.array([i])), smoothing=0.1) for i in range(3))
    torch.testing.assert_close(whole, parts)
    n_targets = pairs.batch(np.arange(3)).n_targets
    plain = pair_loss(model, pairs.batch(np.arange(3)), smoothing=0.0).item() / n_targets
    in_parts = Setup(data=replace(data, batch_tokens=20), tokenizer=tokenizer, cache=tmp_path / "cache")
    task = Translation.make(TranslationConfig(validation_lines=0), in_parts)
    assert task.validate(model) == {"loss": pytest.approx(plain, rel=1e-5)}


def test_one_column_is_no_pair(data, tokenizer, tmp_path):
    with pytest.raises(ConfigError, match="pairs need two files, source and target, or a table"):
        pair_set(replace(data, train=("t.en",)), tokenizer, tmp_path)


def test_held_out_pairs_share_no_text_with_others(tmp_path):
    """Neither a source nor a target is in two parts, also where they are repeated in several ways."""
    rng = np.random.default_rng(0)
    pairs = [(f"source {rng.integers(150)}", f"Target  {rng.integers(150)}") for _ in range(200)]
    (tmp_path / "t.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    data = DataConfig(root=str(tmp_path), train=("t.tsv",), columns=("1", "2"), valid_share=0.3, test_share=0.3)
    parts = pair_parts(data)
    found = [parts.train, parts.valid, parts.test]
    assert sorted(pair for part in found for pair in zip(*part.columns, strict=True)) == sorted(pairs)
    for column in (0, 1):
        texts = [{text.casefold() for text in part.columns[column]} for part in found]
        assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]
    again = pair_parts(data)
    assert again.test.columns == parts.test.columns and again.valid.columns == parts.valid.columns


@pytest.mark.parametrize("setting", ["shown", "validation_lines"])
def test_a_number_of_lines_is_not_negative(setting):
    with pytest.raises(ConfigError, match="must not be negative"):
        TranslationConfig(**{setting: -1})


def test_bleu_in_validation_counts_capitals(data, tokenizer, tmp_path):
    task = Translation.make(TranslationConfig(), Setup(data=data, tokenizer=tokenizer, cache=tmp_path / "cache"))
    references = task.valid.texts(1)
    model = Transformer(TransformerConfig(vocab_size=tokenizer.vocab_size, d_model=16, n_heads=2, n_layers=1, d_ff=16))
    bleu = {}
    for name, change in (("same", str), ("capitals", str.upper)):
        task.greedily = lambda model, lines, change=change: [change(text) for text in references[: len(lines)]]
        bleu[name] = task.figures(model, task.valid)["bleu"]
    assert bleu["same"] == pytest.approx(100)
    assert bleu["capitals"] < 50


def test_choosing_by_bleu_needs_validation_files(data, tokenizer, tmp_path):
    unvalidated = Setup(data=replace(data, valid=()), tokenizer=tokenizer)
    with pytest.raises(ConfigError, match=r"needs validation pairs: set data\.valid"):
        Translation.make(TranslationConfig(metric="bleu"), unvalidated)


def test_what_is_said_of_the_data_is_what_becomes_of_it(data, tokenizer, tmp_path):
    data = replace(data, test=data.train)
    task = Translation.make(TranslationConfig(), Setup(data=data, tokenizer=tokenizer))
    n_tokens = sum(len(tokenizer.encode(FRENCH[i])) for i in task.train.kept)
    assert ("training data", f"3 pairs, {n_tokens} target tokens") in task.rows()
    reasons = {"t.en is empty", "t.en is longer than 40 tokens"}
    rows = {part: {row.what for row in task.inspect() if row.part == part} for part in ("train", "valid", "test")}
    for part, split in (("train", task.train), ("valid", task.valid)):
        assert {f"dropped: {reason}" for reason in reasons} == set(split.notes.counts)
        assert {what for what in rows[part] if what.startswith(("dropped", "kept"))} == set(split.notes.counts)
    assert {f"kept, though: {reason}" for reason in reasons} <= rows["test"]
