"""Stop strings: a text ends before the first of them, also where one lies across the border of two tokens."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from regard.errors import RegardError
from regard.text.unicode import lone_surrogates, well_formed

SLACK = 16  # tokens looked at beyond those that a stop string can have: some decode to nothing
HALF = "\ufffd"  # what bytes that are no whole character decode to


class Stops:
    """`decode` turns token ids into text."""

    def __init__(self, strings: Sequence[str], decode: Callable[[Iterable[int]], str]) -> None:
        if not all(strings):
            raise RegardError("a stop string must not be empty: every text would end at once")
        for string in strings:
            if lone_surrogates(string):
                raise RegardError(f"the stop string {string!r} is not UTF-8, so no text contains it; write it as UTF-8")
        self.strings, self.decode = tuple(map(well_formed, strings)), decode
        longest = max((len(string.encode()) for string in self.strings), default=0)
        self.n_tokens = longest + SLACK  # a token has at least a byte, so no more than these can make one

    def reached(self, tokens: list[int], before: Sequence[int] = ()) -> bool:
        """Whether the last of these tokens completes a stop string.  `before` stands before them and is not looked at:
        only after other text does a token show the space that it begins with."""
        text = self.decode([*before, *tokens[-self.n_tokens :]])
        return self.place(text[len(self.decode(before)) :]) >= 0

    def place(self, text: str) -> int:
        """Where the first stop string begins; -1: nowhere."""
        return min((place for place in map(text.find, self.strings) if place >= 0), default=-1)

    def cut(self, text: str) -> str:
        place = self.place(text)
        return text if place < 0 else text[:place]

    def settled(self, text: str) -> int:
        """How many of the characters stay whatever comes next: the rest may become a stop string, or a character."""
        text = self.cut(text.rstrip(HALF))
        begun = (n for string in self.strings for n in range(len(string) - 1, 0, -1) if text.endswith(string[:n]))
        return len(text) - max(begun, default=0)


class TextPieces(Iterator[str]):
    """A text in pieces, as it is written, and what happened to its prompt."""

    def __init__(self, tokens: Iterable[int], stops: Stops, notes: Sequence[str] = ()) -> None:
        self.notes = tuple(notes)
        self.pieces = pieces(tokens, stops)

    def __next__(self) -> str:
        return next(self.pieces)


def pieces(tokens: Iterable[int], stops: Stops) -> Iterator[str]:
    """The text of tokens that come one by one, each piece as soon as nothing can change it."""
    written: list[int] = []
    shown = 0
    for token in tokens:
        written.append(token)
        text = stops.decode(written)
        end = stops.settled(text)
        if end > shown:
            yield text[shown:end]
            shown = end
    rest = stops.cut(stops.decode(written))[shown:]
    if rest:
        yield rest
