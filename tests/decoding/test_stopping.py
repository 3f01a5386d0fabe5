"""Stop strings and streams: nothing that is shown is taken back, and both say what the search says."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_model import END, START, TableModel

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine, generate
from regard.decoding.forced import likeliest
from regard.decoding.stopping import Stops, pieces
from regard.errors import RegardError

BYTES = st.lists(st.binary(min_size=1, max_size=3), max_size=12)
SPELLING = {2: "a", 3: "b", 4: "ab", 5: " "}
PROMPTS = [[5, 4, 3, 2], [3], [2, 2, 5], [4, 4]]


def spell(tokens: Iterable[int]) -> str:
    return "".join(SPELLING.get(token, "") for token in tokens)


@given(parts=BYTES, strings=st.lists(st.text("aé ", min_size=1, max_size=3), max_size=3))
def test_pieces_make_the_text_before_the_stop(parts: list[bytes], strings: list[str]) -> None:
    stops = Stops(strings, lambda ids: b"".join(parts[i] for i in ids).decode("utf-8", "replace"))
    shown = list(pieces(range(len(parts)), stops))
    assert "".join(shown) == stops.cut(b"".join(parts).decode("utf-8", "replace"))
    assert all(shown)


@st.composite
def crossing(draw: st.DrawFn) -> tuple[list[bytes], str]:
    """A text in parts of a few bytes, and a stop string that lies across a border of two parts."""
    text = draw(st.text("aé ", min_size=4, max_size=12))
    begin = draw(st.integers(0, len(text) - 2))
    end = draw(st.integers(begin + 2, min(begin + 4, len(text))))
    first, last = len(text[:begin].encode()), len(text[:end].encode())
    border = draw(st.integers(first + 1, last - 1))
    others = draw(st.sets(st.integers(1, len(text.encode()))))
    places = sorted({0, border, len(text.encode()), *others})
    return [text.encode()[a:b] for a, b in pairwise(places)], text[begin:end]


@given(case=crossing())
def test_a_stop_across_a_border_of_tokens_ends_the_text_there(case: tuple[list[bytes], str]) -> None:
    parts, string = case
    stops = Stops([string], lambda ids: b"".join(parts[i] for i in ids).decode("utf-8", "replace"))
    text = b"".join(parts).decode()
    assert "".join(pieces(range(len(parts)), stops)) == text[: text.index(string)]
    last = next(i for i in range(len(parts)) if string.encode() in b"".join(parts[: i + 1]))
    assert stops.reached(list(range(last + 1))) and not stops.reached(list(range(last)))


@given(text=st.text("aé€😀b", max_size=8), cuts=st.lists(st.integers(1, 3), min_size=40, max_size=40))
def test_no_piece_ends_within_a_character(text: str, cuts: list[int]) -> None:
    data = text.encode()
    places = [0, *(sum(cuts[: i + 1]) for i in range(len(cuts)))]
    parts = [data[a:b] for a, b in pairwise(places) if a < len(data)]
    fed: list[int] = []

    def feed() -> Iterator[int]:
        for i in range(len(parts)):
            fed.append(i)
            yield i

    shown = ""
    for piece in pieces(feed(), Stops((), lambda ids: b"".join(parts[i] for i in ids).decode(errors="replace"))):
        shown += piece
        assert shown == b"".join(parts[i] for i in fed).decode(errors="ignore")  # all whole characters, at once
    assert shown == text


@pytest.mark.sampled("every architecture or strategy takes its own searches; one shows that the way holds")
@pytest.mark.parametrize("sample", [False, True])
@pytest.mark.parametrize("string", ["ba", "b ", "aab", "  "])
def test_a_stopped_text_is_the_beginning_of_the_whole(string: str, sample: bool) -> None:
    model = TableModel(seed=5, end_bias=-4.0)
    config = DecodingConfig(sample=sample, n_best=3 if sample else 1, length_ratio=0.0, extra_length=40)
    stops = Stops([string], spell)
    free = generate(model, PROMPTS, config, START, END)
    stopped = generate(model, PROMPTS, config, START, END, stops=stops)
    n_shorter = 0
    for before, after in zip(free, stopped, strict=True):
        for h in after:
            text = spell(h.tokens)
            assert any(h.tokens == whole.tokens[: len(h.tokens)] for whole in before)
            if string in text:
                n_shorter += 1
                assert h.finished and not stops.reached(h.tokens[:-1])  # its last token completed the stop string
                places = likeliest(model, [PROMPTS[stopped.index(after)]], [h.tokens], 1, START, END)[0]
                assert h.log_prob == pytest.approx(sum(place.log_prob for place in places), abs=1e-4)
    assert n_shorter


@pytest.mark.parametrize("strings", [[], ["ba"]])
@pytest.mark.parametrize("sample", [False, True])
def test_a_stream_says_what_the_search_finds(sample: bool, strings: list[str]) -> None:
    model = TableModel(seed=5, end_bias=-1.0)
    config = DecodingConfig(sample=sample, repetition_penalty=1.1)
    stops = Stops(strings, spell)
    found = generate(model, PROMPTS, config, START, END, stops=stops if strings else None)
    for prompt, (best,) in zip(PROMPTS, found, strict=True):
        assert list(Engine(model).stream(prompt, config, START, END, stops if strings else None)) == best.tokens


def test_the_likeliest_tokens_of_each_place_come_first_in_order() -> None:
    model = TableModel(seed=3, end_bias=-1.0)
    best = [hypotheses[0].tokens for hypotheses in generate(model, PROMPTS, DecodingConfig(), START, END)]
    assert len({len(tokens) for tokens in best}) > 1
    for tokens, places in zip(best, likeliest(model, PROMPTS, best, 3, START, END), strict=True):
        assert [place.token for place in places] == tokens
        for place in places:
            values = [log_prob for _, log_prob in place.best]
            assert len(values) == 3 and values == sorted(values, reverse=True)
            assert place.best[0] == (place.token, pytest.approx(place.log_prob))  # greedy took the likeliest


def test_what_cannot_stop_or_stream_says_so() -> None:
    model, stops = TableModel(), Stops(["a"], spell)
    with pytest.raises(RegardError, match="must not be empty"):
        Stops(["a", ""], spell)
    with pytest.raises(RegardError, match="need beam = 1"):
        generate(model, PROMPTS, DecodingConfig(beam=2), START, END, stops=stops)
    with pytest.raises(RegardError, match="one text at a time"):
        list(Engine(model).stream([3], DecodingConfig(sample=True, n_best=2), START, END, stops))


def test_a_stop_string_that_is_not_utf8_is_refused_and_halves_that_belong_together_are_joined() -> None:
    with pytest.raises(RegardError, match=r"the stop string 'a\\udcff' is not UTF-8"):
        Stops(["fine", "a\udcff"], str)
    assert Stops(["\ud83d\ude00"], str).strings == ("\U0001f600",)
