"""`Task.encode` is what training reads, so a text is used, looked at, embedded and exported as it was learned."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard.data.config import DataConfig
from regard.tasks.classification.label_words import LabelWords, LabelWordsConfig
from regard.tasks.classification.task import Classification, ClassificationConfig
from regard.tasks.language.task import Language, LanguageConfig
from regard.tasks.setup import Setup
from regard.tasks.tagging.task import Tagging, TaggingConfig
from regard.tasks.translation.task import Prompted, PromptedConfig, Translation, TranslationConfig
from regard.text.tokenizer import Tokenizer, TokenizerConfig

LINES = ["the animal was tired", "the street was wide", "a b c", "it did not cross"]
LABELS = ["no", "yes", "no", "yes"]


def of_sequences(batch: object) -> list[list[int]]:
    tokens, layout = batch.tokens, batch.layout  # type: ignore[attr-defined]
    return [part.tolist() for part in tokens.split(layout.lengths.tolist())]


def of_sources(batch: object) -> list[list[int]]:
    return [part.tolist() for part in batch.source.split(batch.source_layout.lengths.tolist())]  # type: ignore[attr-defined]


def up_to_answer(batch: object) -> list[list[int]]:
    """Of source, task and answer in one sequence, what is read before the answer."""
    return [read[: len(read) - 1] for read in of_sequences(batch)]  # the answer of these is one token and an end


CASES: dict[str, tuple[type, object, tuple[str, ...], Callable[[object], list[list[int]]]]] = {
    "classification": (Classification, ClassificationConfig(), ("t.tsv",), of_sequences),
    "framed": (Classification, ClassificationConfig(framed=True), ("t.tsv",), of_sequences),
    "label-words": (LabelWords, LabelWordsConfig(prefix="say: "), ("t.tsv",), of_sources),
    "translation": (Translation, TranslationConfig(source_start=1), ("t.tsv",), of_sources),
    "prompted": (Prompted, PromptedConfig(token="<to>"), ("t.tsv",), up_to_answer),
    "tagging": (Tagging, TaggingConfig(), ("t.tagged",), of_sequences),
    "framed tagging": (Tagging, TaggingConfig(framed=True), ("t.tagged",), of_sequences),
}


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    (tmp_path / "t.tsv").write_text("".join(f"{line}\t{label}\n" for line, label in zip(LINES, LABELS, strict=True)))
    tagged = ("".join(f"{word}\t{len(word) % 2}\n" for word in line.split()) for line in LINES)
    (tmp_path / "t.tagged").write_text("\n".join(tagged))
    (tmp_path / "t.txt").write_text("\n".join(LINES) + "\n")
    tokenizer = Tokenizer.train([*LINES, *LABELS], TokenizerConfig(kind="words", vocab_size=60, extra=("<to>",)))
    return Setup(data=DataConfig(root=str(tmp_path), train=("t.tsv",), columns=("1", "2")), tokenizer=tokenizer)


@pytest.mark.parametrize("name", CASES)
def test_training_reads_what_encode_gives(setup: Setup, name: str) -> None:

    kind, config, files, read = CASES[name]
    columns = ("1", "2") if files == ("t.tsv",) else ()
    task = kind.make(config, replace(setup, data=replace(setup.data, train=files, columns=columns)))  # type: ignore[attr-defined]
    batch = task.collate(task.train, np.arange(len(LINES)))
    assert read(batch) == [task.encode(line) for line in LINES]


def test_a_line_is_written_on_from_what_it_begins_with(setup: Setup) -> None:

    data = replace(setup.data, train=("t.txt",), columns=())
    task = Language.make(LanguageConfig(unit="lines"), replace(setup, data=data))
    batch = task.collate(task.train, task.train.line_windows(99))
    assert of_sequences(batch) == [task.encode(line) for line in LINES]
