"""Texts are tokenized once, into files that are mapped into memory and found again by their content."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data.cached import is_unharmed, save_array, write_whole
from regard.errors import RunError
from regard.text.tokenizer import Tokenizer

CHUNK = 10_000  # texts tokenized at a time
FILES = ("ids.npy", "offsets.npy")


@dataclass(frozen=True)
class TokenShard:
    """Ragged token ids: text i is ids[offsets[i] : offsets[i + 1]]."""

    ids: np.ndarray  # uint16, or uint32 for a vocabulary of more than 65,536
    offsets: np.ndarray  # int64, one more than there are texts

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> np.ndarray:
        if not 0 <= i < len(self):
            raise IndexError(f"text {i} of a shard of {len(self)}")
        return self.ids[self.offsets[i] : self.offsets[i + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)


def shard(texts: Sequence[str], tokenizer: Tokenizer, cache: Path | None) -> TokenShard:
    """The tokens of `texts`: from `cache` if they are there unharmed, otherwise made and left there (None: nowhere).
    The content of the tokenizer's file, together with the texts, names the shard."""
    if cache is None:
        return tokenize(texts, tokenizer)
    folder = cache / content_key(texts, tokenizer.to_json())
    unharmed = open_shard(folder)
    if unharmed is not None:
        return unharmed
    made = tokenize(texts, tokenizer)
    try:
        write_shard(made, folder)
    except OSError as error:
        hint = "the texts are untouched; free some space or set data.cache to another folder"
        raise RunError(f"the token cache {cache} cannot be written ({error.strerror}); {hint}") from None
    return open_shard(folder) or made


def content_key(texts: Sequence[str], tokenizer_json: str) -> str:
    """A name for the pair (texts, tokenizer) that no other pair has."""
    key = hashlib.blake2b(digest_size=16)
    for text in (tokenizer_json, *texts):
        data = text.encode("utf-8", "surrogatepass")
        key.update(f"{len(data)}:".encode() + data)
    return key.hexdigest()


def tokenize(texts: Sequence[str], tokenizer: Tokenizer) -> TokenShard:
    kind = np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32
    pieces = [np.empty(0, kind)]
    for start in range(0, len(texts), CHUNK):
        chunk = tokenizer.encode_batch(list(texts[start : start + CHUNK]))
        pieces += [np.array(ids, kind) for ids in chunk]
    return TokenShard(np.concatenate(pieces), np.cumsum([len(piece) for piece in pieces], dtype=np.int64))


def write_shard(made: TokenShard, folder: Path) -> None:
    def write(beside: Path) -> None:
        for name, array in zip(FILES, (made.ids, made.offsets), strict=True):
            save_array(beside / name, array)

    write_whole(folder, FILES, write)


def open_shard(folder: Path) -> TokenShard | None:
    """The shard in `folder`, or None when it is missing, incomplete or not what was written."""
    if not is_unharmed(folder, FILES):
        return None
    ids, offsets = (np.load(folder / name, mmap_mode="r") for name in FILES)
    return TokenShard(ids, offsets)
