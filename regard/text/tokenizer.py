"""Text to ids and back.  A tokenizer is one tokenizer.json, which every tool of the field can read."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from regard.checks import at_least, at_most, share
from regard.choose import choose
from regard.errors import ConfigError, DataError, RunError
from regard.text import dropout
from regard.text.bpe import BytePairs
from regard.text.foreign import read_foreign, read_gguf
from regard.text.imported import BESIDE, IMPORTED, imported
from regard.text.learned import KINDS, LearnedVocabulary
from regard.text.table import FlatTokens
from regard.text.unicode import lone_surrogates, well_formed
from regard.text.vocabulary import TOKENIZER_FILE, Vocabulary, from_json
from regard.text.words import NAME, SPECIAL


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How a text is cut, and how many tokens are learned."""

    # `bpe` (byte-level, gives back any text), `words` (with their space), `spaces` (what stands between white space,
    # for texts that are already cut into words) or `characters`; `imported` in a run that has another tool's tokenizer
    kind: str = "bpe"
    vocab_size: int = 8000  # including the special tokens; a small text may give fewer, and the model takes that number
    # BPE-dropout: the chance to leave out a merge in training, so that a word is cut differently each epoch (Provilkov
    # et al. 2020); needs `bpe` and a task that may cut a text anew: not running text, masked words, tags, answers, chat
    dropout: float = 0.0
    min_count: int = 1  # a pair (bpe), a word or a character that occurs less often gets no token
    # further special tokens, such as `["<mask>"]`: ids 4, 5, …, after <pad>, <s>, </s> and <unk>; no text becomes one
    extra: tuple[str, ...] = ()

    @property
    def special(self) -> list[str]:
        return [*SPECIAL, *self.extra]

    def __post_init__(self) -> None:
        for place, name in enumerate(self.extra):
            if not NAME.fullmatch(name):
                raise ConfigError(f'a special token is written like "<mask>" or "<to-fr>", got {name!r}')
            if name in SPECIAL or name in self.extra[:place]:
                raise ConfigError(f"the special token {name!r} is named twice; {', '.join(SPECIAL)} are always there")
        share(self, "dropout")
        at_least(self, 1, "min_count")
        at_most(self, 2**31 - 1, "vocab_size", "min_count")
        n_needed = {kind: entry.n_needed for kind, entry in KINDS.items()} | {IMPORTED: 0}
        smallest = len(self.special) + choose(n_needed, self.kind, "kind of tokenizer")
        if self.kind != IMPORTED and self.vocab_size < smallest:
            others = "256 bytes" if self.kind == "bpe" else "at least one more"
            parts = f"{len(self.special)} special tokens and {others}"
            raise ConfigError(f"vocab_size must be at least {smallest} ({parts}), got {self.vocab_size}")
        if self.dropout and self.kind != "bpe":
            raise ConfigError(f"dropout skips merges, and only kind 'bpe' has merges; got {self.kind!r}")


class Tokenizer:
    """ids = encode(text), text = decode(ids).

    Kind "bpe" gives back any Unicode text exactly; the others give back what their vocabulary holds ("spaces" with one
    space between words), and `losses` lists the rest.  Strings that are not Unicode text are repaired first (see
    `well_formed`).
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.kind = vocabulary.kind
        self.vocab_size = vocabulary.size
        self.pad_id, self.start_id, self.end_id = vocabulary.pad_id, vocabulary.start_id, vocabulary.end_id
        self.unknown_id, self.adds_start = vocabulary.unknown_id, vocabulary.adds_start
        self.special = list(vocabulary.special)
        self.spelling = vocabulary.spelling

    @classmethod
    def train(cls, lines: Iterable[str], config: TokenizerConfig) -> "Tokenizer":
        if config.kind == IMPORTED:
            raise ConfigError("an imported tokenizer cannot be trained; train with --from the run that it came with")
        return cls(LearnedVocabulary.learn(lines, config.kind, config.vocab_size, config.min_count, config.special))

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """From a tokenizer.json, a GGUF file, or a folder: a run, or what another tool wrote, which may have other
        files instead (see foreign.py)."""
        path = Path(path)
        if path.is_dir() and not (path / TOKENIZER_FILE).is_file() and (files := read_foreign(path)):
            return cls.from_files(files)
        if path.is_dir():
            path = path / TOKENIZER_FILE
        if not path.is_file():
            raise RunError(f"no tokenizer at {path}; name a run folder or a {TOKENIZER_FILE}")
        with path.open("rb") as file:
            is_gguf = file.read(4) == b"GGUF"
        if is_gguf:
            return cls.from_files(read_gguf(path))
        beside = [path.parent / name for name in BESIDE]
        try:
            files = {file.name: file.read_bytes().decode() for file in beside if file.is_file()}
            return cls.from_files({TOKENIZER_FILE: path.read_bytes().decode(), **files})
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not UTF-8 text: {error}") from None
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        return cls.from_files({TOKENIZER_FILE: text})

    @classmethod
    def from_files(cls, files: dict[str, str]) -> "Tokenizer":
        """File name → content.  Without a file that says which tokens begin and end a text it must be one of ours."""
        tokenizer = from_json(files[TOKENIZER_FILE])
        try:
            return cls(LearnedVocabulary.read(tokenizer))
        except DataError:
            if len(files) == 1:
                raise
        return cls(imported(tokenizer, files))

    def to_json(self) -> str:
        return self.vocabulary.files()[TOKENIZER_FILE]

    def save(self, path: str | Path) -> None:
        """As `path`; what an imported one needs besides is written into the same folder."""
        for name, content in self.vocabulary.files().items():
            file = Path(path) if name == TOKENIZER_FILE else Path(path).parent / name
            beside = Path(f"{file}.part")
            beside.write_text(content, encoding="utf-8")
            os.replace(beside, file)

    def __reduce__(self) -> tuple[Callable[[dict[str, str]], "Tokenizer"], tuple[dict[str, str]]]:
        return Tokenizer.from_files, (self.vocabulary.files(),)

    def encode(self, text: str) -> list[int]:
        """No special tokens are added, and none come from the text."""
        return self.vocabulary.ids(self.vocabulary.cut(text))

    @cached_property
    def of_targets(self) -> "Tokenizer":
        """What cuts a text that a translator writes into the same ids: this one, but for some imported translators."""
        return self if self.vocabulary.of_targets is None else Tokenizer(self.vocabulary.of_targets)

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        return self.vocabulary.encode_batch(list(texts))

    def encoder(self) -> Callable[[list[str]], FlatTokens]:
        """`encode_batch` into one array, for a whole data set: the ids of all texts, and how many each has."""
        return self.vocabulary.encoder()

    def encode_places(self, texts: Iterable[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """For each text its ids, and the characters [start, end) of `well_formed(text)` that each stands for."""
        ready = [self.vocabulary.as_text(text) for text in texts]
        encodings = self.vocabulary.inner.encode_batch(ready, add_special_tokens=False)
        return [(self.vocabulary.ids(encoding), encoding.offsets) for encoding in encodings]

    def sample(self, text: str, key: int, rate: float) -> list[int]:
        """`encode` with BPE-dropout: the same text, key and rate give the same ids, another key other ids."""
        return dropout.sample(self.pairs, rate, well_formed(text), key)

    def decode(self, ids: Iterable[int]) -> str:
        """Special tokens are skipped; unknown words and characters, and bytes that are none, become U+FFFD."""
        return self.vocabulary.decode(list(ids))

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        return [self.decode(ids) for ids in batch]

    def losses(self, text: str) -> list[str]:
        """The pieces of the text that `decode(encode(text))` does not give back; [] when it gives back all."""
        return self.unknown(text) + self.vocabulary.lost(text) + lone_surrogates(text)

    def unknown(self, text: str) -> list[str]:
        """The pieces of the text that the vocabulary does not hold."""
        repaired, encoding = well_formed(text), self.vocabulary.cut(text)
        places = zip(self.vocabulary.ids(encoding), encoding.offsets, strict=True)
        return [repaired[start:end] for n, (start, end) in places if n == self.unknown_id]

    def token(self, n: int) -> str:
        r"""A token as a reader sees it: " tired", "</s>"; bytes that are not a character as "\xe2"."""
        return self.vocabulary.token(n)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self.token(n) for n in ids]

    def special_id(self, name: str) -> int:
        """The id of a special token.  Those of an imported tokenizer go by their own names and, as far as they do the
        same, by ours: BERT's [MASK] is also "<mask>"."""
        if name not in self.vocabulary.special:
            hint = f'only {", ".join(self.special)}; train one with extra = ["{name}"]'
            raise ConfigError(f"this tokenizer has no special token {name!r}, {hint}")
        return self.vocabulary.special[name]

    def lookup(self, text: str) -> list[int]:
        """The ids of the tokens that read so, or so with a space before."""
        return self.by_text.get(text, []) + self.by_text.get(" " + text, [])

    @cached_property
    def by_text(self) -> dict[str, list[int]]:
        table: dict[str, list[int]] = {}
        for n in sorted(self.spelling):
            table.setdefault(self.token(n), []).append(n)
        return table

    @property
    def pairs(self) -> BytePairs:
        """The merges, for whoever wants to see or to skip some of them."""
        return self.vocabulary.pairs
