"""The tokenizer inside a GGUF file (llama.cpp): its tokens, merges and scores are settings of the file."""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.choose import choose
from regard.errors import DataError, RegardError
from regard.text.foreign import CUTS, as_files, byte_level
from regard.text.sentencepieces import BPE, BYTE, CONTROL, UNIGRAM, USER_DEFINED, SentencePieces, as_tokenizer
from regard.text.vocabulary import added_token

PREFIX = "tokenizer.ggml."
ROLES = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
    "sep_token": "seperator_token_id",  # as it is spelled there
    "cls_token": "cls_token_id",
    "mask_token": "mask_token_id",
}
# What llama.cpp calls the ways to cut a text into words.
PRE = {"gpt-2": "gpt2", "smollm": "smollm", "qwen2": "qwen2", "llama-bpe": "llama-bpe", "llama3": "llama-bpe"}


def is_gguf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"GGUF"


def read_gguf(path: Path) -> dict[str, str]:
    """The files of its tokenizer, for `Tokenizer.from_files`."""
    try:
        gguf = importlib.import_module("gguf")
    except ImportError:
        raise RegardError("gguf is not installed, and this needs it: pip install 'regard[exchange]'") from None
    try:
        fields = gguf.GGUFReader(path).fields
        said = {name: field.contents() for name, field in fields.items() if name.startswith("tokenizer.")}
    except (ValueError, KeyError, IndexError, OSError) as error:
        raise DataError(f"{path} is not a whole GGUF file ({error}); copy it again") from None
    return gguf_tokenizer(said)


def gguf_tokenizer(said: Mapping[str, Any]) -> dict[str, str]:
    """`said` are the settings of the file that begin with "tokenizer."."""
    settings = {name.removeprefix(PREFIX): value for name, value in said.items()}
    for needed in ("model", "tokens", "token_type"):
        if needed not in settings:
            raise DataError(f"the GGUF file has no {PREFIX}{needed}, so no tokenizer that can be read")
    names, types = settings["tokens"], settings["token_type"]
    if len(names) != len(types) or len(set(names)) != len(names):
        raise DataError("the tokens of the GGUF file are not each one with one type; copy it again")
    made = choose(MODELS, settings["model"], f"{PREFIX}model")(settings, names, types)
    ids = {role: settings[key] for role, key in ROLES.items() if key in settings}
    roles = {role: names[n] for role, n in ids.items() if 0 <= n < len(names)}
    more = {"chat_template": said["tokenizer.chat_template"]} if "tokenizer.chat_template" in said else {}
    more["add_bos_token"] = bool(settings.get("add_bos_token", settings["model"] == "llama"))  # as llama.cpp has it
    return as_files(made, [], roles | more)


def merged(settings: Mapping[str, Any], names: Sequence[str], types: Sequence[int]) -> dict[str, Any]:
    """Byte-level BPE, as in GPT-2."""
    cut = CUTS[choose(PRE, settings.get("pre", "gpt-2"), f"{PREFIX}pre")]
    pairs = [pair.split(" ") for pair in settings.get("merges", [])]
    made = byte_level({name: n for n, name in enumerate(names)}, pairs, cut, bool(settings.get("add_space_prefix")))
    made["added_tokens"] = [
        added_token(n, name, is_special=kind == CONTROL)
        for n, (name, kind) in enumerate(zip(names, types, strict=True))
        if kind in (CONTROL, USER_DEFINED)
    ]
    return made


def scored(settings: Mapping[str, Any], names: Sequence[str], types: Sequence[int]) -> dict[str, Any]:
    """SentencePiece; the types of the tokens are its own."""
    scores = settings.get("scores", [])
    if len(scores) != len(names):
        raise DataError(f"the GGUF file has {len(names)} tokens and {len(scores)} scores; copy it again")
    pieces = SentencePieces(
        pieces=[(name, float(score), int(kind)) for name, score, kind in zip(names, scores, types, strict=True)],
        model=UNIGRAM if settings["model"] == "t5" else BPE,
        byte_fallback=BYTE in types,
        normalization="",
        charsmap=bytes(settings.get("precompiled_charsmap", [])),
        add_dummy_prefix=bool(settings.get("add_space_prefix", True)),
        remove_extra_whitespaces=bool(settings.get("remove_extra_whitespaces", False)),
    )
    return as_tokenizer(pieces, [])


MODELS = {"gpt2": merged, "llama": scored, "t5": scored}
