"""What a tokenizer is made of: its tokens with their spelling, and what is done to a text before and after."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import tokenizers

from regard.config import Settings
from regard.errors import ConfigError, DataError
from regard.text.bpe import BytePairs
from regard.text.table import FlatTokens, flattened
from regard.text.unicode import all_well_formed, well_formed

TOKENIZER_FILE = "tokenizer.json"
WITH_PREFIX = re.compile(r'"continuing_subword_prefix"\s*:\s*"[^"]')
HIDDEN = "\uffff "  # before a name that no text shall become: spaces begin a piece, or are written otherwise


class Vocabulary(ABC):
    """`inner` cuts a text into tokens; `special` are the tokens that no text becomes, by all names that they go by;
    `spelling` is the text of each token in bytes, b"" of a special one; `renamed` are parts of a text that `inner`
    would read as special tokens, and what they are called instead."""

    kind: str
    inner: tokenizers.Tokenizer
    size: int  # every id is smaller
    special: dict[str, int]
    pad_id: int
    start_id: int
    end_id: int
    unknown_id: int
    spelling: dict[int, bytes]
    renamed: dict[str, str]
    mask_takes_space: bool | None = None  # of another tool: whether <mask> takes the space before it; None: one of ours
    adds_start: bool | None = None  # of another tool: whether it puts <s> before every text; None: one of ours
    of_targets: "Vocabulary | None" = None  # what cuts a text that a translator writes, into the same ids; None: this

    def as_text(self, text: str) -> str:
        """Unicode text as `inner` shall read it, as long as the well-formed one, so that places stay.  (Those of the
        library's own replacement, in tokenizer.json for other tools, do not.)"""
        text = well_formed(text)
        for name, other in self.renamed.items():
            text = text.replace(name, other)
        return text

    def cut(self, text: str) -> tokenizers.Encoding:
        return self.inner.encode(self.as_text(text), add_special_tokens=False)

    def ids(self, encoding: tokenizers.Encoding) -> list[int]:
        """Of the pieces that `inner` found."""
        return list(encoding.ids)

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """The fast way of the library finds ids only, without their places."""
        encodings = self.inner.encode_batch_fast(self.as_texts(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def encoder(self) -> Callable[[list[str]], FlatTokens]:
        """The same into one array, for a whole data set: what it remembers, it remembers between calls."""
        return lambda texts: flattened(self.encode_batch(texts))

    def as_texts(self, texts: list[str]) -> list[str]:
        return [self.as_text(text) for text in texts] if self.renamed else all_well_formed(texts)

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str: ...

    @abstractmethod
    def lost(self, text: str) -> list[str]:
        """What of a text, besides unknown pieces and what is not Unicode, does not come back."""

    @abstractmethod
    def files(self) -> dict[str, str]:
        """What a folder must hold to have this vocabulary: file name → content."""

    @abstractmethod
    def token(self, n: int) -> str:
        r"""A token as a reader sees it: " tired", "</s>"; bytes that are not a character as "\xe2"."""

    @property
    def pairs(self) -> BytePairs:
        """The merges, for whoever wants to see or to skip some of them."""
        raise ConfigError(f"a tokenizer of kind {self.kind!r} has no merges to skip; only kind 'bpe' has them")


def added_token(n: int, name: str, is_special: bool = True) -> dict[str, object]:
    """As tokenizer.json lists it."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": n, "content": name, **flags, "special": is_special}


def from_json(text: str) -> tokenizers.Tokenizer:
    if WITH_PREFIX.search(text):
        check_prefix(parse(text, TOKENIZER_FILE).get("model"))
    try:
        return tokenizers.Tokenizer.from_str(text)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library raises nothing more specific, and panics at what it did not expect
        raise DataError(f"this is not a whole {TOKENIZER_FILE} ({error}); copy or train it again") from None


def check_prefix(model: object) -> None:
    """The library takes the prefix off the right half of a merge without a look, and ends the process if it cannot."""
    if not isinstance(model, dict) or not isinstance(model.get("merges"), list):
        return  # no BPE
    prefix = str(model.get("continuing_subword_prefix") or "")
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
    if not all(isinstance(pair, list) and pair and str(pair[-1]).startswith(prefix) for pair in pairs):
        raise DataError(f"the prefix {prefix!r} does not begin the right half of every merge; copy it again")


def parse(text: str, name: str) -> Settings:
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name} is not JSON ({error}); copy it again") from None
    if not isinstance(settings, dict):
        raise DataError(f"{name} must hold an object, got {type(settings).__name__}")
    return settings
