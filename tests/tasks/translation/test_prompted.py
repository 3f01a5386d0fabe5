"""Source, task and answer in one sequence: what is learnt, what fits, and what is cut."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.decoding.forced import score
from regard.errors import ConfigError
from regard.models.heads import LanguageModel
from regard.models.stack import Stack, StackConfig
from regard.tasks.setup import Setup
from regard.tasks.translation.task import Prompted, PromptedConfig, Translation, TranslationConfig
from regard.tasks.translation.use import translate
from regard.text.tokenizer import Tokenizer, TokenizerConfig

ENGLISH = ["the animal", "the street was wide", "it was too tired to cross", "a b c d e f g h " * 9]
FRENCH = ["l'animal", "la rue était large", "il était trop fatigué", "a b"]
TASK = PromptedConfig(token="<to-fr>", validation_lines=2, shown=1)


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    (tmp_path / "t.en").write_text("\n".join(ENGLISH) + "\n", encoding="utf-8")
    (tmp_path / "t.fr").write_text("\n".join(FRENCH) + "\n", encoding="utf-8")
    files = ("t.en", "t.fr")
    return Setup(
        data=DataConfig(root=str(tmp_path), train=files, valid=files, max_length=30, batch_tokens=90),
        tokenizer=Tokenizer.train(ENGLISH + FRENCH, TokenizerConfig(vocab_size=300, extra=("<to-fr>",))),
        dropout=0.0,
        cache=tmp_path,
        seed=0,
        decoding=DecodingConfig(length_ratio=0.0, extra_length=6),
    )


def gpt(setup: Setup, max_length: int = 80) -> LanguageModel:
    torch.manual_seed(0)
    size = {"d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 32, "dropout": 0.0}
    config = StackConfig(vocab_size=setup.tokenizer.vocab_size, max_length=max_length, **size)
    return TASK.build(Stack(config)).eval()


def test_the_answer_alone_is_learnt(setup: Setup) -> None:
    task, tokenizer = Prompted.make(TASK, setup), setup.tokenizer
    batch = task.collate(task.train, np.array([0, 1]))
    for i, (source, target) in enumerate(zip(ENGLISH[:2], FRENCH[:2], strict=True)):
        read = batch.tokens.split(batch.layout.lengths.tolist())[i].tolist()
        end = len(read) - len(tokenizer.encode(target))
        assert read[0] == tokenizer.start_id and read[end - 1] == tokenizer.special_id("<to-fr>")
        assert tokenizer.decode(read[1 : end - 1]) == source and tokenizer.decode(read[end:]) == target
        labels = batch.labels[batch.owners == i].tolist()
        assert labels == [*tokenizer.encode(target), tokenizer.end_id]
    assert batch.n_targets == len(batch.labels) < batch.n_tokens


def test_the_loss_is_the_score_of_the_answers(setup: Setup) -> None:
    task, model = Prompted.make(TASK, setup), gpt(setup)
    prompts = [task.frame.source(setup.tokenizer.encode(line)) for line in ENGLISH[:3]]
    targets = setup.tokenizer.encode_batch(FRENCH[:3])
    expected = -sum(map(sum, score(model, prompts, targets, setup.tokenizer.start_id, setup.tokenizer.end_id)))
    batch = task.collate(task.train, np.arange(3))
    assert task.plain_loss(model, batch).item() == pytest.approx(expected, rel=1e-5)
    assert task.validate(model)["loss"] == pytest.approx(expected / batch.n_targets, rel=1e-5)


@pytest.mark.slow  # a whole training
def test_what_was_learnt_by_heart_is_written(setup: Setup) -> None:
    """Training and decoding frame a source alike."""
    setup = replace(setup, decoding=DecodingConfig(length_ratio=1.0, extra_length=20))
    task, model = Prompted.make(TASK, setup), gpt(setup).train()
    batch = task.collate(task.train, np.arange(3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        loss = task.plain_loss(model, batch) / batch.n_targets
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05
    with torch.no_grad():
        assert task.greedily(model.eval(), ENGLISH[:3]) == FRENCH[:3]
        assert task.validate(model)["bleu"] == pytest.approx(100)


def test_batches_count_both_sides(setup: Setup) -> None:
    task = Prompted.make(TASK, setup)
    sizes = [task.batch(0, i).n_tokens for i in range(task.n_batches(0))]
    assert max(sizes) <= setup.data.batch_tokens and sum(sizes) == task.collate(task.train, np.arange(3)).n_tokens


@pytest.mark.parametrize("task", [TASK, TranslationConfig()], ids=["one sequence", "two"])
def test_a_long_source_is_dropped_or_cut(setup: Setup, task: PromptedConfig | TranslationConfig) -> None:
    kind = Prompted if isinstance(task, PromptedConfig) else Translation
    dropping, cutting = (kind.make(replace(task, long=long), setup).train for long in ("split", "cut"))
    assert len(dropping) == 3 and len(cutting) == 4
    assert cutting.notes.rows() == ["cut after 30 tokens: 1 (first at t.en:4)"]
    assert [len(ids) for ids in cutting.columns(np.arange(4))[0]][3] == 30
    answer = (
        len(setup.tokenizer.encode(FRENCH[3])) + 1 if kind is Prompted else 0
    )  # it shares a sequence with its source
    assert max(cutting.lengths) == 31 + answer


@pytest.mark.parametrize(
    ("long", "said"), [("split", "dropped: t.en is longer than 30 tokens"), ("cut", "cut after 30 tokens")]
)
def test_the_doctor_says_what_becomes_of_long_sources(setup: Setup, long: str, said: str) -> None:
    rows = Prompted.make(replace(TASK, long=long), setup).inspect()
    assert [row.what for row in rows if row.part == "train" and "30 tokens" in row.what] == [said]


def test_lines_are_split_or_cut_when_they_are_answered(setup: Setup) -> None:
    model, tokenizer = gpt(setup), setup.tokenizer
    lines = [ENGLISH[3], "", "the animal"]
    for long, note in (("split", "split into"), ("cut", "cut after 30 tokens")):
        frame = replace(TASK, long=long).frame(tokenizer)
        found = translate(Engine(model), tokenizer, lines, setup.decoding, 30, frame)
        assert any(note in one for one in found[0].notes)
        assert found[1].notes == ["empty"] and not any(note in one for one in found[2].notes)
        alone = translate(Engine(model), tokenizer, lines[2:], setup.decoding, 30, frame)
        assert alone[0].text == found[2].text


def test_what_does_not_fit_says_so(setup: Setup) -> None:
    task = Prompted.make(TASK, setup)
    with pytest.raises(ConfigError, match=r"tokens together, model\.max_length is 20"):
        task.loss(gpt(setup, max_length=20), task.collate(task.train, np.arange(3)))
    with pytest.raises(ConfigError, match="leaves no room for an answer"):
        task.room(gpt(setup, max_length=31))
    assert task.room(gpt(setup, max_length=40)) == 9
    for settings in (
        {"metric": "wer"},
        {"long": "drop"},
        {"smoothing": 1.0},
        {"metric": "rouge", "validation_lines": 0},
    ):
        with pytest.raises(ConfigError, match=next(iter(settings))):
            PromptedConfig(**settings)
