"""Many texts into one array: id for id what `encode_batch` gives, whatever the texts are made of."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text import Tokenizer, TokenizerConfig
from regard.text import table as tables

ODD = [
    *(
        "It didn't  cross.",
        "",
        " ",
        "  ",
        "a  ",
        "a \n",
        "\n\n x",
        "\t\tb",
        "''s'''re",
        "x\0y",
        "\0",
        "\x1c!\x1d",
        "\x85 a",
    ),
    *(
        "naïve Größe",
        "日本語の日本 一二三",
        "½ Ⅳ ²",
        "👩‍👩‍👧 ok",
        "\u0378 unassigned",
        "\ud800 half",
        "e\u0301",
        "\u2003x\u3000",
    ),
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(
        [*ODD, "the lectures on the turtles don't cross the street"] * 3, TokenizerConfig(vocab_size=400)
    )


def agree(tokenizer: Tokenizer, *batches: list[str]) -> None:
    encode = tokenizer.encoder()
    for texts in batches:
        ids, lengths = encode(texts)
        expected = tokenizer.encode_batch(texts)
        assert lengths.tolist() == [len(row) for row in expected]
        assert ids.tolist() == [n for row in expected for n in row]


def test_odd_texts_alone_together_and_again(tokenizer: Tokenizer) -> None:
    agree(tokenizer, [], *([text] for text in ODD), ODD, ODD[::-1], ODD)


def test_a_tokenizer_without_merges_looks_up_bytes_and_learns_from_no_text() -> None:
    as_bytes = TokenizerConfig(vocab_size=260)
    tokenizer = Tokenizer.train(ODD, as_bytes)
    assert not tokenizer.pairs.merges
    agree(tokenizer, [], *([text] for text in ODD), ODD, ["</s>"])
    lines = iter(["abc" * 100] * 3000)
    assert Tokenizer.train(lines, as_bytes).to_json() == tokenizer.to_json()
    assert next(lines)  # most were not asked for


@given(batches=st.lists(st.lists(st.text()), max_size=3))
def test_any_text(tokenizer: Tokenizer, batches: list[list[str]]) -> None:
    agree(tokenizer, *batches)


@given(texts=st.lists(st.text("ab' \t\n\0.1²é\x1c\u2003'st", max_size=8), max_size=8))
def test_any_order_of_spaces_and_quotes(tokenizer: Tokenizer, texts: list[str]) -> None:
    agree(tokenizer, texts)


def test_every_character_is_of_the_kind_that_the_library_takes_it_for(tokenizer: Tokenizer) -> None:
    """Every tenth of the first 65,536, and all up to 0x3100, each beside a letter, a digit, a mark and spaces."""
    numbers = [*range(1, 0x3100), *range(0x3100, 0xD800, 10), *range(0xE000, 0x10000, 10)]
    assert any(unicodedata.category(chr(n)) == "Cn" for n in numbers)
    agree(tokenizer, [f"a{chr(n)}a 1{chr(n)}1 !{chr(n)}! {chr(n)}  {chr(n)}" for n in numbers])


def test_a_table_that_is_full_begins_anew(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_WORDS", 5)
    agree(tokenizer, *[["one two three", "four five six seven", "one two"]] * 3)


@pytest.mark.parametrize("kind", ["words", "spaces", "characters"])
def test_other_kinds(kind: str) -> None:
    agree(Tokenizer.train(["we cross the street", "<s> é"], TokenizerConfig(kind=kind)), ["we cross", "", "é <s> 日"])


def test_words_are_worked_out_once(tokenizer: Tokenizer) -> None:
    asked: list[str] = []

    def encode(texts: list[str]) -> list[list[int]]:
        asked.extend(texts)
        return tokenizer.encode_batch(texts)

    table = tables.WordTable(encode)
    table.encode(["the turtles", "the lectures"])
    n_asked = len(asked)
    ids, lengths = table.encode(["the lectures turtles" for _ in range(100)])
    assert len(asked) == n_asked and np.all(lengths == lengths[0]) and len(ids) == lengths.sum()
