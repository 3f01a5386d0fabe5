"""Text to ids and back.  A tokenizer is one tokenizer.json, which every tool of the field can read."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from regard.choose import choose
from regard.errors import ConfigError, DataError, RunError
from regard.text.bpe import LETTERS, BytePairs, to_bytes
from regard.text.dropout import Dropout
from regard.text.kinds import KINDS
from regard.text.special import END, PAD, SPECIAL, START, UNKNOWN, check_names
from regard.text.unicode import lone_surrogates, well_formed

FILE = "tokenizer.json"


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """`vocab_size` counts the special tokens too.  `dropout` is the chance to leave out a merge (BPE-dropout, in
    training only).  A pair (bpe), a word or a character that occurs fewer than `min_count` times gets no token.
    `extra` names further special tokens, such as "<mask>"; they follow the four that are always there."""

    kind: str = "bpe"
    vocab_size: int = 8000
    dropout: float = 0.0
    min_count: int = 1
    extra: tuple[str, ...] = ()

    @property
    def special(self) -> list[str]:
        return [*SPECIAL, *self.extra]

    def __post_init__(self) -> None:
        check_names(self.extra)
        smallest = len(self.special) + choose(KINDS, self.kind, "kind of tokenizer").n_needed
        if self.vocab_size < smallest:
            others = "256 bytes" if self.kind == "bpe" else "at least one more"
            parts = f"{len(self.special)} special tokens and {others}"
            raise ConfigError(f"vocab_size must be at least {smallest} ({parts}), got {self.vocab_size}")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout must be at least 0 and below 1, got {self.dropout}")
        if self.dropout and self.kind != "bpe":
            raise ConfigError(f"dropout leaves out merges, and only kind 'bpe' has any; this one is {self.kind!r}")
        if self.min_count < 1:
            raise ConfigError(f"min_count must be at least 1, got {self.min_count}")


class Tokenizer:
    """ids = encode(text), text = decode(ids).

    Kind "bpe" gives back any Unicode text exactly; the others give back what their vocabulary holds ("spaces" with one
    space between words), and `losses` lists the rest.  Strings that are not Unicode text are mended first (see
    `well_formed`).
    """

    pad_id, start_id, end_id, unknown_id = PAD, START, END, UNKNOWN

    def __init__(self, kind: str, tokenizer: tokenizers.Tokenizer) -> None:
        self.kind = kind
        self.special = special_tokens(tokenizer)
        self.renamed = KINDS[kind].renamed(self.special)
        self.inner = tokenizer
        self.inner.encode_special_tokens = True  # "</s>" in a text is text; tokenizer.json does not keep this
        self.vocab_size: int = tokenizer.get_vocab_size()
        in_bytes = to_bytes if kind == "bpe" else str.encode
        vocabulary = tokenizer.get_vocab()
        names = sorted(vocabulary, key=vocabulary.__getitem__)
        self.spelling = {n: in_bytes(name) for n, name in enumerate(names) if n >= len(self.special)}
        for name, other in self.renamed.items():
            if other in vocabulary:
                self.spelling[vocabulary[other]] = name.encode()
        self.spelling |= dict.fromkeys(range(len(self.special)), b"") | {UNKNOWN: KINDS[kind].unknown.encode()}
        self.dropouts: dict[float, Dropout] = {}

    @classmethod
    def train(cls, lines: Iterable[str], config: TokenizerConfig) -> "Tokenizer":
        lines = [well_formed(line) for line in lines]
        if not any(lines):
            raise DataError(f"a tokenizer is learnt from text, and these {len(lines)} lines are empty")
        kind = KINDS[config.kind]
        tokenizer = kind.blank(config.special)
        tokenizer.train_from_iterator(lines, kind.trainer(config.vocab_size, config.min_count, config.special))
        if tokenizer.get_vocab_size() == len(config.special):
            raise ConfigError(f"no piece of the text occurs min_count = {config.min_count} times; lower min_count")
        return cls(config.kind, tokenizer)

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """From a tokenizer.json, or from a folder (a run) that holds one."""
        path = Path(path)
        if path.is_dir():
            path = path / FILE
        if not path.is_file():
            raise RunError(f"no tokenizer at {path}; name a run folder or a {FILE}")
        try:
            return cls.from_json(path.read_bytes().decode())
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not UTF-8 text: {error}") from None
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        try:
            tokenizer = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the library raises nothing more specific
            raise DataError(f"this is not a whole {FILE} ({error}); copy or train it again") from None
        vocabulary = tokenizer.get_vocab()
        if sorted(vocabulary.values()) != list(range(len(vocabulary))):
            raise DataError("its ids are not 0, 1, 2, … without a gap; copy or train it again")
        special, parts = special_tokens(tokenizer), without_vocabulary(tokenizer)
        first = [tokenizer.id_to_token(n) for n in range(len(special))]
        if first != special or special[: len(SPECIAL)] != list(SPECIAL):
            raise DataError(f"its first tokens are not {', '.join(SPECIAL)}; it was made by another tool")
        kind = next((name for name in KINDS if without_vocabulary(untrained(name, special)) == parts), None)
        if kind is None:
            raise DataError(f"it cuts text in none of our ways ({', '.join(KINDS)}); it was made by another tool")
        if kind == "bpe" and not (
            vocabulary.keys() >= LETTERS.keys() == set("".join(vocabulary.keys() - set(special)))
        ):
            raise DataError("its tokens are not made of the 256 bytes; copy or train it again")
        return cls(kind, tokenizer)

    def to_json(self) -> str:
        return str(self.inner.to_str(pretty=True))

    def save(self, path: str | Path) -> None:
        beside = Path(f"{path}.part")
        beside.write_text(self.to_json(), encoding="utf-8")
        os.replace(beside, path)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer.from_json, (self.to_json(),)

    def encode(self, text: str) -> list[int]:
        """No special tokens are added, and none come from the text."""
        return list(self.inner.encode(self.as_text(text)).ids)

    def as_text(self, text: str) -> str:
        """Unicode text in which nothing reads as a special token, as long as before, so that places stay (those of the
        library's own replacement, in tokenizer.json for other tools, do not)."""
        text = well_formed(text)
        for name, other in self.renamed.items():
            text = text.replace(name, other)
        return text

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self.inner.encode_batch_fast([self.as_text(text) for text in texts])]

    def encode_places(self, texts: Iterable[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """For each text its ids, and from which character to behind which one of `well_formed(text)` each stands."""
        encodings = self.inner.encode_batch([self.as_text(text) for text in texts], add_special_tokens=False)
        return [(encoding.ids, encoding.offsets) for encoding in encodings]

    def sample(self, text: str, key: int, rate: float) -> list[int]:
        """`encode` with BPE-dropout: the same text, key and rate give the same ids, another key other ids."""
        if rate not in self.dropouts:
            self.dropouts[rate] = Dropout(self.pairs, rate)
        return self.dropouts[rate].encode(well_formed(text), key)

    def decode(self, ids: Iterable[int]) -> str:
        """Special tokens are left out; an unknown word or character, or bytes that are no character, become U+FFFD."""
        try:
            pieces = [self.spelling[n] for n in ids]
        except KeyError as error:
            raise DataError(f"{error} is not an id of this tokenizer (0 to {self.vocab_size - 1})") from None
        between = KINDS[self.kind].between.encode()
        return between.join([piece for piece in pieces if piece] if between else pieces).decode("utf-8", "replace")

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        return [self.decode(ids) for ids in batch]

    def losses(self, text: str) -> list[str]:
        """The pieces of the text that `decode(encode(text))` does not give back; [] when it gives back all."""
        offsets = self.inner.encode(self.as_text(text)).offsets
        read_back_otherwise = [other for other in self.renamed.values() if other in text]
        spaces = self.lost_space(well_formed(text), offsets)
        return self.unknown(text) + spaces + read_back_otherwise + lone_surrogates(text)

    def unknown(self, text: str) -> list[str]:
        """The pieces of the text that the vocabulary does not hold."""
        mended, encoding = well_formed(text), self.inner.encode(self.as_text(text))
        places = zip(encoding.ids, encoding.offsets, strict=True)
        return [mended[start:end] for n, (start, end) in places if n == UNKNOWN]

    def lost_space(self, text: str, offsets: list[tuple[int, int]]) -> list[str]:
        """What lies between pieces, where the pieces do not hold all of the text, and is not what `decode` writes."""
        between = KINDS[self.kind].between
        if not between:
            return []
        ends, starts = [0, *(end for _, end in offsets)], [*(start for start, _ in offsets), len(text)]
        gaps = [text[end:start] for end, start in zip(ends, starts, strict=True)]
        return [gap for i, gap in enumerate(gaps) if gap != (between if 0 < i < len(gaps) - 1 else "")]

    def token(self, n: int) -> str:
        r"""A token as a reader sees it: " tired", "</s>"; bytes that are no character as "\xe2"."""
        if 0 <= n < len(self.special):
            return self.special[n]
        return self.spelling[n].decode("utf-8", "backslashreplace")

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self.token(n) for n in ids]

    def special_id(self, name: str) -> int:
        """The id of a special token: of one of the four, or of one of `TokenizerConfig.extra`."""
        if name not in self.special:
            known = ", ".join(self.special)
            raise ConfigError(
                f'this tokenizer has no special token {name!r}, only {known}; train one with extra = ["{name}"]'
            )
        return self.special.index(name)

    def lookup(self, text: str) -> list[int]:
        """The ids of the tokens that read so, or so with a space before."""
        return self.by_text.get(text, []) + self.by_text.get(" " + text, [])

    @cached_property
    def by_text(self) -> dict[str, list[int]]:
        table: dict[str, list[int]] = {}
        for n in range(self.vocab_size):
            table.setdefault(self.token(n), []).append(n)
        return table

    @cached_property
    def pairs(self) -> BytePairs:
        """The merges, for whoever wants to see or to leave out some of them."""
        if self.kind != "bpe":
            raise ConfigError(f"a tokenizer of kind {self.kind!r} has no merges; kind 'bpe' has")
        model = json.loads(self.to_json())["model"]
        merges = [(model["vocab"][left], model["vocab"][right]) for left, right in model["merges"]]
        names, n_special = [name.encode() for name in self.special], len(self.special)
        spelt = [self.spelling[n] for n in range(n_special, self.vocab_size)]
        return BytePairs(names + spelt, merges, n_special)


def untrained(kind: str, special: list[str]) -> tokenizers.Tokenizer:
    tokenizer = KINDS[kind].blank(special)
    tokenizer.add_special_tokens(special)
    return tokenizer


def special_tokens(tokenizer: tokenizers.Tokenizer) -> list[str]:
    added = tokenizer.get_added_tokens_decoder()
    return [added[n].content for n in sorted(added)]


def without_vocabulary(tokenizer: tokenizers.Tokenizer) -> dict[str, Any]:
    """How a tokenizer.json cuts and joins, without what it learnt."""
    settings: dict[str, Any] = json.loads(tokenizer.to_str())
    settings["model"] = {k: v for k, v in settings["model"].items() if k not in ("vocab", "merges")}
    return settings
