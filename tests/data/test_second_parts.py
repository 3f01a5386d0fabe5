"""Second parts of next-sentence prediction: their first token does not tell where they come from."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from regard.data.batching.large_passages import LargePassages
from regard.data.batching.passages import Passages, within_text
from regard.data.files.plain import PlainText
from regard.tasks.pretraining.batches import FOLLOWS, OTHER, MaskedPassages
from regard.text import Tokenizer, TokenizerConfig

NAMES, VERBS = (
    ("Cats", "Dogs", "It's clear that cows", "Owls", "Hens", "Foxes"),
    ("like", "fear", "don't see", "chase"),
)


def sentences(i: int) -> str:
    """Some, perhaps one alone."""
    return " ".join(f"{NAMES[(i + k) % 6]} {VERBS[(i // 6 + k) % 4]} {NAMES[k].lower()}." for k in range(1 + i % 4))


def heading(i: int) -> str:
    """Without an end of a sentence."""
    return " ".join((*NAMES[:5][i % 3 :], *VERBS))


CORPORA = {
    "sentences": [sentences(i) for i in range(80)],
    "with headings": [heading(i) if i % 2 else sentences(i) for i in range(80)],
    "after a space": [f" {heading(i) if i % 2 else sentences(i)}" for i in range(80)],
}
KINDS = {"bpe": 330, "characters": 100}  # the sizes; the other kinds know no spaces, or have tokens that are words


@cache
def tokenizer_of(kind: str) -> Tokenizer:
    lines = [line for lines in CORPORA.values() for line in lines]
    return Tokenizer.train(lines, TokenizerConfig(kind=kind, vocab_size=KINDS[kind], extra=("<mask>",)))


def passages(folder: Path, lines: list[str], kind: str, window: int, is_large: bool) -> MaskedPassages:
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    text, tokenizer = PlainText.read(("text.txt",), str(folder)), tokenizer_of(kind)
    arguments = text, "lines", window - 3, tokenizer, folder / "cache"
    corpus = LargePassages(*arguments, 1) if is_large else Passages(*arguments)
    return MaskedPassages(corpus, tokenizer, 0.15, nsp=True)


Pair = tuple[list[int], list[int], int, str]  # the tokens of a and of b, whether b follows a, the line of a


def pairs(made: MaskedPassages, windows: np.ndarray, draw: int) -> Iterator[Pair]:
    """What there was before words were masked."""
    batch = made.batch(windows, 1, draw)
    assert batch.follows is not None
    tokens = batch.tokens.clone()
    tokens[batch.places] = batch.labels
    rows = tokens.split(batch.layout.lengths.tolist())
    for row, follows, place in zip(rows, batch.follows.tolist(), batch.lines, strict=True):
        ids = row.tolist()
        end = ids.index(made.end)
        assert ids[0] == made.start and ids[-1] == made.end and ids.count(made.end) == 2
        yield ids[1:end], ids[end + 1 : -1], follows, made.corpus.text.lines[int(place.split(":")[1]) - 1]


@pytest.mark.parametrize("window", [16, 64])
@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lines", CORPORA.values(), ids=CORPORA)
def test_second_parts_begin_alike_and_are_the_text(
    tmp_path: Path, lines: list[str], kind: str, is_large: bool, window: int
) -> None:
    made, tokenizer = passages(tmp_path, lines, kind, window, is_large), tokenizer_of(kind)
    begins_with_space: dict[int, list[bool]] = {FOLLOWS: [], OTHER: []}
    for draw in range(3):
        for windows in made.corpus.in_order(made.n_fixed, 500):
            starts, stops = made.corpus.spans(windows)
            for (a, b, follows, line), most in zip(pairs(made, windows, draw), stops - starts, strict=True):
                first, second = tokenizer.decode(a), tokenizer.decode(b)
                assert a and b and len(a) + len(b) <= most <= window - 3
                assert first in line and (first + second in line if follows == FOLLOWS else line != second.strip())
                assert any(second in f" {other}" for other in lines)
                begins_with_space[follows].append(second.startswith(" "))
    shares = {follows: np.mean(answers) for follows, answers in begins_with_space.items()}
    assert min(map(len, begins_with_space.values())) > 100
    assert shares == {FOLLOWS: 1, OTHER: 1}


@pytest.mark.parametrize("is_large", [False, True])
def test_a_pair_is_the_same_alone_and_in_a_batch(tmp_path: Path, is_large: bool) -> None:
    made = passages(tmp_path, CORPORA["with headings"], "bpe", 24, is_large)
    for windows in made.corpus.in_order(made.n_fixed, 500):
        alone = [next(pairs(made, windows[i : i + 1], 2)) for i in range(len(windows))]
        assert alone == list(pairs(made, windows, 2))


def test_a_window_without_a_sentence_is_cut_before_a_word(tmp_path: Path) -> None:
    tokenizer = tokenizer_of("bpe")
    for is_large in (False, True):
        made = passages(tmp_path, ["Owls chasedogs fear", "Xyzzyxyzzy"], "bpe", 64, is_large)
        windows = np.concatenate(list(made.corpus.in_order(3, 500)))
        starts, stops = made.corpus.spans(windows)
        seconds = set()
        for chance in np.linspace(0, 0.99, 20):
            cuts = made.corpus.cuts(windows, np.full(2, chance))
            assert (starts < cuts).all() and (cuts < stops).all()
            seconds.add(tokenizer.decode(made.corpus.ids[cuts[0] : stops[0]]))
        assert seconds == {" chasedogs fear", " fear"}


TEXTS = st.text("aeChst'.\",3\n-é ", min_size=1, max_size=60)


@given(text=TEXTS, kind=st.sampled_from(sorted(KINDS)))
def test_within_a_text_is_after_a_space(text: str, kind: str) -> None:
    tokenizer = tokenizer_of(kind)
    ids = tokenizer.encode(text)
    assume(tokenizer.unknown_id not in ids and max(map(len, text.split()), default=0) < 16)
    if text[0].isspace() or (len(text.split()) == 1 and not text.isascii()):
        assert within_text(ids, tokenizer) in (ids, tokenizer.encode(" " + text))
    else:
        assert within_text(ids, tokenizer) == tokenizer.encode(" " + text)
    assert within_text(within_text(ids, tokenizer), tokenizer) == within_text(ids, tokenizer)


@pytest.mark.parametrize("text", ["吾輩は猫である。名前はまだ無い。" * n for n in (1, 9)])
def test_a_script_without_spaces_gets_none(text: str) -> None:
    ids = tokenizer_of("bpe").encode(text)
    assert within_text(ids, tokenizer_of("bpe")) == ids


def test_no_text_is_no_text() -> None:
    assert within_text([], tokenizer_of("bpe")) == []


def test_words_without_their_space_stay(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(CORPORA["sentences"], TokenizerConfig(kind="spaces", vocab_size=30))
    for text in ("Cats like nothing", "nothing", "Dogs"):
        assert within_text(tokenizer.encode(text), tokenizer) == tokenizer.encode(text)


@pytest.mark.parametrize("family", ["bert-uncased", "llama", "t5", "xlnet"])
def test_a_tokenizer_that_puts_a_space_before_every_text_changes_nothing(family: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.text.test_imported import FAMILIES

    FAMILIES[family]().save_pretrained(tmp_path)
    tokenizer = Tokenizer.load(tmp_path)
    for text in ("It tastes great.", "it", "'tis", "日本語", "\u2603 snow", "3.14 is a number"):
        assert within_text(tokenizer.encode(text), tokenizer) == tokenizer.encode(text)
