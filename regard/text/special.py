"""The four special tokens, the first ids of every vocabulary; a recipe may name more, such as "<mask>", which follow.

No text that a user types becomes one of them.
"""

import re

from regard.errors import ConfigError

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
PAD, START, END, UNKNOWN = range(len(SPECIAL))

# With a letter or digit next to its brackets: no cut of a text into words leaves such a name whole.
NAME = re.compile(r"<[a-z0-9][\w-]*>", re.ASCII | re.IGNORECASE)


def check_names(extra: tuple[str, ...]) -> None:
    for place, name in enumerate(extra):
        if not NAME.fullmatch(name):
            raise ConfigError(f'a special token is written like "<mask>" or "<to-fr>", got {name!r}')
        if name in SPECIAL or name in extra[:place]:
            raise ConfigError(f"the special token {name!r} is named twice; {', '.join(SPECIAL)} are always there")
