import io

import numpy as np
from rich.console import Console

from regard.viewer import terminal
from regard.viewer.capture import Capture
from regard.viewer.map_set import Map


def printed(map: Map, width: int = 100, colour: bool = False) -> str:
    stream = io.StringIO()
    system = "truecolor" if colour else None
    terminal.show(map, Console(file=stream, width=width, color_system=system, force_terminal=colour))
    return stream.getvalue()


def test_squares_are_plain_text_when_piped(capture: Capture) -> None:
    text = printed(capture.pick("encoder", 1, 0))
    assert "\x1b" not in text and "█" in text
    row = next(line for line in text.splitlines() if line.strip().startswith("it "))
    assert "animal" in row  # the word it looks at most stands at the end of its row
    assert row.index("█") == len("because") + 2 + 2  # after the names, two columns a word: the second word


def test_every_row_and_heading_fits_the_width(capture: Capture) -> None:
    for width in (20, 34, 40, 60, 100):
        text = printed(capture.pick("encoder", 1, 0), width)
        assert all(len(line) <= width for line in text.splitlines()), text


def test_headings_are_the_words_written_downwards() -> None:
    lines = terminal.headings(["cat", "a", "猫"])
    assert ["".join(line[i * 2] for line in lines if len(line) > i * 2).strip() for i in range(2)] == ["cat", "a"]
    assert lines[-1].rstrip() == "t a 猫"
    assert terminal.stacked("e\u0301t") == ["e\u0301", "t"]


def test_too_many_words_become_a_list(capture: Capture) -> None:
    text = printed(capture.pick("encoder", 1, 0), width=30)
    assert "█" not in text
    assert next(line for line in text.splitlines() if line.strip().startswith("it ")).split()[1] == "animal"


def test_markup_and_escapes_in_tokens_stay_text() -> None:
    words = ["[bold]x[/bold]", "\x1b[31mred", "[/]"]
    text = printed(Map(kind="self", layer=0, head=0, queries=words, keys=words, weights=np.eye(3)), colour=True)
    assert "[bold]x[/bold]" in text and "\\x1b[31mred" in text and "\x1b[31mred" not in text


def test_a_word_that_looks_at_nothing_says_so() -> None:
    weights = np.array([[0.0, 0.0], [0.001, 0.002]])
    blind = Map(kind="self", layer=0, head=0, queries=["a", "b"], keys=["c", "d"], weights=weights)
    stream = io.StringIO()
    terminal.show_strongest(blind, Console(file=stream, width=40))
    assert [line.split() for line in stream.getvalue().splitlines()] == [["a", "nothing"], ["b", "d", "<1%"]]
    assert "nothing" in printed(blind)
