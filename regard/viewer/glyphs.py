"""Which characters a picture can show.  matplotlib warns of letters that its fonts lack; we draw a box instead."""

from collections.abc import Sequence
from functools import cache

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

# matplotlib always brings the first; the others add scripts where the machine has them.
FAMILIES = (
    "DejaVu Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "WenQuanYi Zen Hei",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Sans Symbols2",
)
BOX = "□"


@cache
def fonts() -> dict[str, FT2Font]:
    """The families of our list that are installed, in its order: the very files that matplotlib will draw with."""
    installed = set(font_manager.get_font_names())
    return {name: font_manager.get_font(font_manager.findfont(name)) for name in FAMILIES if name in installed}


@cache
def has(character: str) -> bool:
    return any(font.get_char_index(ord(character)) for font in fonts().values())


def drawable(label: str) -> str:
    """The label with a box for every character that no installed font of the list has."""
    return "".join(character if has(character) else BOX for character in label)


def families() -> Sequence[str]:
    return list(fonts())
