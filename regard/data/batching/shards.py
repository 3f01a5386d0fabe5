"""Texts are tokenized once, into files that are mapped into memory and found again by their content."""

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np

from regard.data.batching.parts import PART, join_parts, write_parts
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

    def take(self, texts: np.ndarray) -> "TokenShard":
        """Those at these places."""
        ids = [self.ids[:0], *(self[int(i)] for i in texts)]
        return TokenShard(np.concatenate(ids), np.cumsum([0, *map(len, ids[1:])], dtype=np.int64))


def shard(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    cache: Path | None,
    *,
    processes: int = 1,
    digest: str = "",
    closing: int | None = None,
) -> TokenShard:
    """The tokens of `texts`: from `cache` if they are there unharmed, otherwise made and left there (None: nowhere).

    The content of the tokenizer's file, together with the texts, or with a `digest` that says which they are, names the
    shard.  Many texts are tokenized part by part.  `closing` is a token that follows every text.
    """
    if cache is None:
        return closed(tokenize(texts, tokenizer), closing)
    names = [tokenizer.to_json(), *([] if closing is None else [f"closed by {closing}"])]
    key = content_key([digest] if digest else texts, "".join(names))
    folder = cache / key
    unharmed = open_shard(folder)
    if unharmed is not None:
        return unharmed
    try:
        if len(texts) <= PART:
            made = closed(tokenize(texts, tokenizer), closing)
            write_shard(made, folder)
            return open_shard(folder) or made
        parts = cache / f"parts-{key}"
        n_parts = write_parts(texts, tokenizer, parts, processes)
        write_whole(folder, FILES, partial(join_parts, parts, n_parts, id_type(tokenizer), closing))
        shutil.rmtree(parts, ignore_errors=True)
    except OSError as error:
        hint = "the texts are untouched; free some space or set data.cache to another folder"
        raise RunError(f"the token cache {cache} cannot be written ({error.strerror}); {hint}") from None
    return open_shard(folder) or closed(tokenize(texts, tokenizer), closing)


def closed(made: TokenShard, closing: int | None) -> TokenShard:
    if closing is None:
        return made
    return TokenShard(np.insert(made.ids, made.offsets[1:], closing), made.offsets + np.arange(len(made.offsets)))


def content_key(texts: Iterable[str], tokenizer_json: str) -> str:
    """A name for the pair (texts, tokenizer) that no other pair has."""
    key = hashlib.blake2b(digest_size=16)
    for chunk in chain([[tokenizer_json]], in_chunks(texts)):
        key.update(np.fromiter(map(len, chunk), np.int64, len(chunk)).tobytes())
        key.update("".join(chunk).encode("utf-8", "surrogatepass"))
    return key.hexdigest()


def in_chunks(texts: Iterable[str], n: int = CHUNK) -> Iterator[list[str]]:
    remaining = iter(texts)
    while chunk := list(islice(remaining, n)):
        yield chunk


def tokenize(texts: Iterable[str], tokenizer: Tokenizer) -> TokenShard:
    kind, encode = id_type(tokenizer), tokenizer.encoder()
    ids, lengths = [np.empty(0, kind)], [np.zeros(1, np.int64)]
    for chunk in in_chunks(texts):
        more, n_each = encode(chunk)
        ids.append(more.astype(kind))
        lengths.append(n_each)
    return TokenShard(np.concatenate(ids), np.cumsum(np.concatenate(lengths)))


def id_type(tokenizer: Tokenizer) -> type[np.unsignedinteger]:
    return np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32


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
