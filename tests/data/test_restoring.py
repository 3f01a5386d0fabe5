"""Taking case and punctuation from a text and giving them back."""

import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batching.restoring import CASES, MARKS, TAGS, restore, strip, stripped
from regard.data.files.plain import PlainText
from regard.data.notes import Notes

WIKITEXT = Path(__file__).parents[3] / "shared" / "data" / "wikitext2" / "wiki.test.raw.xz"

words = st.from_regex(r"[a-zäéñ]{2,6}(-[a-z]{1,3}|'s|[0-9])?", fullmatch=True)
written = st.tuples(words, st.sampled_from(list(CASES)), st.sampled_from(MARKS)).map(
    lambda parts: CASES[parts[1]](parts[0]) + parts[2]
)


@given(st.lists(written, min_size=1), st.sampled_from([" ", "  ", "\t", " \u00a0"]))
def test_what_was_taken_gives_the_text_back_with_single_spaces(pieces: list[str], space: str) -> None:
    found, tags = strip(space.join(pieces))
    assert restore(found, tags) == " ".join(pieces)
    assert all(word == word.lower() for word in found) and set(tags) <= set(TAGS)


@given(st.text(alphabet=st.characters(max_codepoint=0x7F)))
def test_a_restored_text_is_what_it_was_restored_to(text: str) -> None:
    """Whatever is lost (brackets, capitals inside a word), is lost once."""
    found = strip(text)
    assert strip(restore(*found)) == found


@pytest.mark.parametrize(
    ("text", "restored"),
    [
        ("Hello, NASA is here.", "Hello, NASA is here."),
        (" the red @-@ tipped claw weighs 1 @,@ 000 t ( 3 @.@ 1 in ) . ", "the red-tipped claw weighs 1,000 t 3.1 in."),
        ("The lobster 's claw didn 't hurt ; it ' ll heal", "The lobster's claw didn't hurt; it ll heal"),
        ('" It works ! " he said ... "Really?!"', "It works! he said. Really?"),
        ("I own an iPhone by McDonald", "I own an iphone by Mcdonald"),
        ("= = Life cycle = =", "Life cycle"),
        (", . !", ""),
        ("", ""),
    ],
)
def test_what_counts_and_what_is_lost(text: str, restored: str) -> None:
    assert restore(*strip(text)) == restored


def test_a_tag_says_case_and_mark() -> None:
    assert strip("Hello, NASA is here. A B!") == (
        ["hello", "nasa", "is", "here", "a", "b"],
        ["Capital,", "UPPER", "lower", "lower.", "Capital", "Capital!"],
    )
    assert len(TAGS) == len(set(TAGS)) == 21


def test_lines_without_a_word_are_counted() -> None:
    text = PlainText(["", "One.", " = ", "two"], ["a:1", "a:2", "a:3", "a:4"], Notes())
    found = stripped(text)
    assert found.words == [["one"], ["two"]] and found.tags == [["Capital."], ["lower"]]
    assert found.places == ["a:2", "a:4"]
    assert found.notes.rows() == ["line without a word skipped: 2 (first at a:1)"]


@pytest.mark.skipif(not WIKITEXT.is_file(), reason="WikiText-2 is not here")
def test_wikitext_reads_as_people_write() -> None:
    lines = lzma.decompress(WIKITEXT.read_bytes()).decode().split("\n")[:400]
    for line in lines:
        found = strip(line)
        assert strip(restore(*found)) == found
        assert not any("@" in word for word in found[0])
