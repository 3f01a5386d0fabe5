"""ROUGE and the stemmer beneath it: equal to `rouge-score` and to `nltk`."""

import lzma
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.stem.porter import PorterStemmer
from rouge_score.rouge_scorer import RougeScorer

from regard.errors import DataError
from regard.evaluation.rouge import longest_common, rouge, stem, subsequence, words

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"
PAIRS = {
    "The police kill the gunman": "Police killed the gunman",  # Lin 2004, section 4.1: ROUGE-L
    "Re: Meeting on Monday, 3 o'clock!": "meetings monday 3 pm",
    "nothing in it": "",
    "": "an empty output",
    "É è … 😀": "only ascii letters count: e",
    "dying skies tied to flies": "die sky tie fly",
    "a a a b": "a b b b",
}
TEXTS = st.text("abcde -.A1", max_size=40)


def by_oracle(outputs: list[str], references: list[str], stemmed: bool) -> list[float]:
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=stemmed)
    scores = [scorer.score(reference, output) for output, reference in zip(outputs, references, strict=True)]
    return [100 * sum(s[kind].fmeasure for s in scores) / len(scores) for kind in ("rouge1", "rouge2", "rougeL")]


@pytest.mark.parametrize("stemmed", [False, True])
def test_worked_texts_have_the_oracles_scores(stemmed: bool) -> None:
    outputs, references = list(PAIRS), list(PAIRS.values())
    found = rouge(outputs, references, stemmed)
    assert [metric.name for metric in found] == ["ROUGE-1", "ROUGE-2", "ROUGE-L"]
    assert [metric.value for metric in found] == pytest.approx(by_oracle(outputs, references, stemmed))
    assert all(f"n:{len(PAIRS)}|" in metric.signature for metric in found)
    for metric in found:
        assert metric.interval is not None and metric.interval[0] < metric.value < metric.interval[1]


@given(outputs=st.lists(TEXTS, min_size=1, max_size=4), data=st.data())
def test_any_texts_have_the_oracles_scores(outputs: list[str], data: st.DataObject) -> None:
    references = data.draw(st.lists(TEXTS, min_size=len(outputs), max_size=len(outputs)))
    found = [metric.value for metric in rouge(outputs, references, stemmed=True)]
    assert found == pytest.approx(by_oracle(outputs, references, stemmed=True))


@given(a=st.lists(st.sampled_from("abc"), max_size=12), b=st.lists(st.sampled_from("abc"), max_size=12))
def test_the_longest_common_subsequence_is_the_tables(a: list[str], b: list[str]) -> None:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    assert longest_common(a, b) == table[-1][-1]


def test_the_papers_example() -> None:
    """Lin 2004: "police kill the gunman" and "the gunman kill police" share one bigram, but not in one order."""
    reference = words("police killed the gunman", stemmed=False)
    assert subsequence(words("police kill the gunman", stemmed=False), reference) == pytest.approx(3 / 4)
    assert subsequence(words("the gunman kill police", stemmed=False), reference) == pytest.approx(2 / 4)


@given(
    st.from_regex(r"[a-z]{1,6}(ational|izer|fulli|logi|alli|ing|ied|eed|ies|ement|ll|y|e|s|ed|ion)?", fullmatch=True)
)
def test_stems_are_nltks(word: str) -> None:
    assert stem(word) == PorterStemmer().stem(word)


@pytest.mark.slow  # a whole corpus
@pytest.mark.skipif(not DATA.is_dir(), reason="the data are not beside the checkout")
def test_stems_of_a_whole_corpus_are_nltks() -> None:
    text = lzma.decompress((DATA / "aeslc" / "dev.jsonl.xz").read_bytes()).decode().lower()
    oracle = PorterStemmer()
    found = set(re.findall("[a-z0-9]+", text))
    assert len(found) > 5_000
    assert [word for word in found if stem(word) != oracle.stem(word)] == []


def test_unequal_numbers_of_texts_say_so() -> None:
    with pytest.raises(DataError, match="each output needs its own"):
        rouge(["a"], [])
