"""Attention in the terminal: a shaded square per pair of words; the shades are characters, so pipes keep them."""

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from regard.viewer.kinds import KINDS
from regard.viewer.map_set import Map, visible

SHADES = " ·░▒▓█"
COLOR = "#5b84e8"  # seen on black and on white
CELL = 2  # columns of a square
NUMBER = 12  # columns of a number
MOST_LETTERS = 14  # of a word above its column


def show(map: Map, console: Console) -> None:
    """The map as squares where the keys fit the width, else each word with the words it looks at most."""
    console.print(Text(map.name, style="bold"))
    console.print(Text(KINDS[map.kind].meaning, style="dim"))
    console.print()
    kind, width = KINDS[map.kind], console.width - name_width(map) - 2
    room = width - CELL * len(map.keys)
    if kind.in_numbers and NUMBER * len(map.keys) <= width:
        show_numbers(map, console)
    elif room >= 0 and not kind.is_signed:
        show_squares(map, console, room)
    else:
        show_strongest(map, console, n=5)


def show_squares(map: Map, console: Console, room: int) -> None:
    margin = " " * (name_width(map) + 2)
    for letters in headings([visible(key) for key in map.keys]):
        console.print(Text((margin + letters).rstrip(), no_wrap=True))
    top = float(map.weights.max()) or 1.0
    for query, (best,) in enumerate(map.strongest()):
        line = name(map, query)
        for weight in map.weights[query]:
            shade = min(int(weight / top * len(SHADES)), len(SHADES) - 1)
            line.append(SHADES[shade] * CELL, style=COLOR)
        strongest = float(map.weights[query, best])
        note = f"  {visible(map.keys[best])} {share(strongest)}" if strongest else "  nothing"
        if cell_len(note) <= room:
            line.append(note, style="dim")
        line.rstrip()
        console.print(line, no_wrap=True, crop=True)
    console.print()
    console.print(Text(f"{SHADES[1]} little   {SHADES[-1]} {top:.0%}, the strongest weight here", style="dim"))


def show_numbers(map: Map, console: Console) -> None:
    """A column of numbers for each key."""
    sign = "+" if KINDS[map.kind].is_signed else ""
    headings = (Text(visible(key)) for key in map.keys)
    line = Text(" " * (name_width(map) + 2))
    for heading in headings:
        heading.truncate(NUMBER - 2, overflow="ellipsis")
        line.append(" " * (NUMBER - heading.cell_len)).append(heading)
    console.print(line, no_wrap=True)
    for query in range(len(map.queries)):
        line = name(map, query)
        for weight in map.weights[query]:
            line.append(f"{weight:{sign}{NUMBER}.3f}", style=COLOR if weight > 0 else "dim")
        console.print(line, no_wrap=True)


def show_strongest(map: Map, console: Console, n: int = 3) -> None:
    """A row per query word: the n keys that it looks at most, with their shares."""
    for query, keys in enumerate(map.strongest(n)):
        line = name(map, query)
        for place, key in enumerate(keys):
            weight = float(map.weights[query, key])
            figure = f"{weight:+.3f}" if KINDS[map.kind].is_signed else share(weight)
            entry = f"{visible(map.keys[key])} {figure}" if weight else "nothing"
            full = line.cell_len + cell_len(entry) + 3 > console.width
            if place > 0 and (full or abs(weight) < 0.005):
                break
            line.append(entry + "   ", style="bold" if place == 0 else "dim")
        line.rstrip()
        console.print(line, overflow="fold")


def share(weight: float) -> str:
    return "<1%" if 0 < weight < 0.005 else f"{weight:.0%}"


def headings(words: list[str]) -> list[str]:
    """The words written downwards, one above each column, ending on the same line."""
    columns = []
    for word in words:
        letters = stacked(word)
        if len(letters) > MOST_LETTERS:
            letters = [*letters[: MOST_LETTERS - 1], "…"]
        columns.append(letters)
    height = max(len(letters) for letters in columns)
    columns = [[""] * (height - len(letters)) + letters for letters in columns]
    return ["".join(letter + " " * (CELL - cell_len(letter)) for letter in row) for row in zip(*columns, strict=True)]


def stacked(word: str) -> list[str]:
    """The word's letters; a mark that takes no room stays with its letter."""
    letters: list[str] = []
    for character in word:
        if letters and cell_len(character) == 0:
            letters[-1] += character
        else:
            letters.append(character)
    return letters


def name(map: Map, query: int) -> Text:
    width = name_width(map)
    text = Text(visible(map.queries[query]))
    text.truncate(width, overflow="ellipsis")
    return Text(" " * (width - text.cell_len)) + text + "  "


def name_width(map: Map) -> int:
    return min(20, max(cell_len(visible(query)) for query in map.queries))
