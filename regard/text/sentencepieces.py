"""SentencePiece models (Kudo and Richardson, 2018) as tokenizer.json: the .model and .spm files, which are protobuf.

A text is normalized, its spaces are written "▁", and the pieces are found by their scores: those that together have
the highest (unigram), or by joining the neighbors that make the piece with the highest (BPE).
"""

import base64
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.config import Settings
from regard.errors import DataError
from regard.text.vocabulary import added_token

SPACE = "▁"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # types of pieces
UNIGRAM, BPE = 1, 2  # types of models
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # how protobuf writes a field


@dataclass(frozen=True)
class SentencePieces:
    """What of a SentencePiece model decides how it cuts a text."""

    pieces: list[tuple[str, float, int]]  # name, score, type
    model: int
    byte_fallback: bool
    normalization: str  # its name, such as "nmt_nfkc"
    charsmap: bytes  # the same, compiled
    add_dummy_prefix: bool  # a text begins with a space
    remove_extra_whitespaces: bool

    @classmethod
    def read(cls, data: bytes) -> "SentencePieces":
        """The fields of sentencepiece_model.proto by their numbers; what is missing has its default."""
        try:
            top = list(fields(data))
            trainer = dict(fields(b"".join(value for number, value in top if number == 2)))
            normalizer = dict(fields(b"".join(value for number, value in top if number == 3)))
            pieces = [dict(fields(value)) for number, value in top if number == 1]
            model = cls(
                pieces=[
                    (p[1].decode(), struct.unpack("<f", p.get(2, b"\0\0\0\0"))[0], p.get(3, NORMAL)) for p in pieces
                ],
                model=trainer.get(3, UNIGRAM),
                byte_fallback=bool(trainer.get(35, 0)),
                normalization=normalizer.get(1, b"").decode(),
                charsmap=normalizer.get(2, b""),
                add_dummy_prefix=bool(normalizer.get(3, 1)),
                remove_extra_whitespaces=bool(normalizer.get(4, 1)),
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, struct.error) as error:
            raise DataError(f"this is not a whole SentencePiece model ({error}); copy it again") from None
        if model.model not in (UNIGRAM, BPE):
            raise DataError(f"a SentencePiece model of type {model.model} is neither unigram (1) nor BPE (2)")
        if not any(kind == UNKNOWN for _, _, kind in model.pieces):
            raise DataError("this SentencePiece model has no unknown piece; copy it again")
        return model

    @classmethod
    def of_gguf(cls, settings: Settings, names: Sequence[str], types: Sequence[int]) -> "SentencePieces":
        """Of a GGUF file, where the types of the tokens are SentencePiece's own."""
        scores = settings.get("scores", [])
        if len(scores) != len(names):
            raise DataError(f"the GGUF file has {len(names)} tokens and {len(scores)} scores; copy it again")
        return cls(
            pieces=[(name, float(score), int(kind)) for name, score, kind in zip(names, scores, types, strict=True)],
            model=UNIGRAM if settings["model"] == "t5" else BPE,
            byte_fallback=BYTE in types,
            normalization="",
            charsmap=bytes(settings.get("precompiled_charsmap", [])),
            add_dummy_prefix=bool(settings.get("add_space_prefix", True)),
            remove_extra_whitespaces=bool(settings.get("remove_extra_whitespaces", False)),
        )


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of one protobuf message: number and value, an int or bytes (`Any`: the number tells which)."""
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        how = key & 7
        if how == VARINT:
            value, place = varint(data, place)
            yield key >> 3, value
            continue
        n = {FIXED64: 8, FIXED32: 4}.get(how)
        if n is None and how != BYTES:
            raise ValueError(f"a field of kind {how} at byte {place}")
        if n is None:
            n, place = varint(data, place)
        if place + n > len(data):
            raise ValueError(f"it ends within a field, at byte {place}")
        yield key >> 3, data[place : place + n]
        place += n


def varint(data: bytes, place: int) -> tuple[int, int]:
    """A number in groups of seven bits, and where it ends."""
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place
        if shift > 63:
            raise ValueError(f"a number that does not end, at byte {place}")


def as_tokenizer(pieces: SentencePieces, more: list[str]) -> Settings:
    """The settings of tokenizer.json.  `more` special tokens follow the pieces."""
    ids = {name: n for n, name in enumerate([*(name for name, _, _ in pieces.pieces), *more])}
    special = [name for name, _, kind in pieces.pieces if kind in (UNKNOWN, CONTROL)] + more
    back = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        *([{"type": "ByteFallback"}] if pieces.byte_fallback else []),
        {"type": "Fuse"},
        *([{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if pieces.add_dummy_prefix else []),
    ]
    return {
        "version": "1.0",
        "added_tokens": [added_token(ids[name], name) for name in special],
        "normalizer": {"type": "Sequence", "normalizers": normalizers(pieces)},
        "decoder": {"type": "Sequence", "decoders": back},
        "model": MODELS[pieces.model](pieces, more),
    }


def normalizers(pieces: SentencePieces) -> list[Mapping[str, object]]:
    """The `tokenizers` library reads the compiled normalization letter by letter, with all accents of a letter at once,
    and forgets those that it does not know together.  After NFKC, which most are made of, there is little to forget."""
    compiled = base64.b64encode(pieces.charsmap).decode()
    spaces = [("^ +| +$", ""), (" {2,}", " ")] if pieces.remove_extra_whitespaces else []
    return [
        *([{"type": "NFKC"}] if "nfkc" in pieces.normalization else []),
        *([{"type": "Precompiled", "precompiled_charsmap": compiled}] if compiled else []),
        *({"type": "Replace", "pattern": {"Regex": before}, "content": after} for before, after in spaces),
        *([{"type": "Prepend", "prepend": SPACE}] if pieces.add_dummy_prefix else []),
        {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
    ]


def unigram(pieces: SentencePieces, more: list[str]) -> dict[str, object]:
    """A piece that the user of the model defined always wins: its score is above that of all pieces it could be cut
    into."""
    best = max(score for _, score, kind in pieces.pieces if kind == NORMAL)
    scored = [(name, len(name) * best - 0.1 if kind == USER_DEFINED else score) for name, score, kind in pieces.pieces]
    return {
        "type": "Unigram",
        "unk_id": next(n for n, (_, _, kind) in enumerate(pieces.pieces) if kind == UNKNOWN),
        "vocab": [*scored, *((name, 0.0) for name in more)],
        "byte_fallback": pieces.byte_fallback,
    }


def byte_pairs(pieces: SentencePieces, more: list[str]) -> dict[str, object]:
    """SentencePiece knows no merges, only the score of what they make: the higher it is, the earlier."""
    ids = {name: n for n, (name, _, _) in enumerate(pieces.pieces)}
    normal = sorted((-score, ids[name], name) for name, score, kind in pieces.pieces if kind in (NORMAL, USER_DEFINED))
    mergeable = {name for _, _, name in normal}
    merges = [
        (name[:cut], name[cut:])
        for _, _, name in normal
        for cut in range(1, len(name))
        if name[:cut] in mergeable and name[cut:] in mergeable
    ]
    return {
        "type": "BPE",
        "unk_token": next(name for name, _, kind in pieces.pieces if kind == UNKNOWN),
        "fuse_unk": True,
        "byte_fallback": pieces.byte_fallback,
        "vocab": ids | {name: len(ids) + n for n, name in enumerate(more)},
        "merges": merges,
    }


MODELS = {UNIGRAM: unigram, BPE: byte_pairs}
