"""Folders of other tools without a tokenizer.json: what they have instead, made into one.

Everything here gives the files that `Tokenizer.from_files` takes: tokenizer.json, and tokenizer_config.json with the
roles of the special tokens.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.text.imported import KNOWN_TOKENS
from regard.text.sentencepieces import CONTROL, NORMAL, UNKNOWN, UNUSED, SentencePieces, as_tokenizer
from regard.text.vocabulary import HIDDEN, TOKENIZER_FILE, parse
from regard.text.words import PATTERN

CONFIG_FILE = "tokenizer_config.json"
MOST_SENTINELS = 10_000  # of T5; an untrusted file could ask for any number
Settings = dict[str, Any]

# The usual names of the special tokens, where no file names them.
NAMES = {
    "bos_token": ("<s>", "<|endoftext|>"),
    "eos_token": ("</s>", "<|endoftext|>"),
    "unk_token": ("<unk>", "[UNK]", "<|endoftext|>"),
    "pad_token": ("<pad>", "[PAD]"),
    "cls_token": ("[CLS]", "<cls>"),
    "sep_token": ("[SEP]", "<sep>"),
    "mask_token": ("<mask>", "[MASK]"),
}

QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA_3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
# How byte-level BPE cuts a text into words before it joins letters: first by all but the last, then by the last.
CUTS = {"gpt2": (PATTERN,), "smollm": (r"\p{N}", PATTERN), "qwen2": (QWEN,), "llama-bpe": (LLAMA_3,)}


def read_foreign(folder: Path) -> dict[str, str] | None:
    """The files of a tokenizer, if the folder has what it takes."""
    for needed, make in SOURCES.items():
        if all((folder / name).is_file() for name in needed):
            said = read_settings(folder, "special_tokens_map.json") | read_settings(folder, CONFIG_FILE)
            model_type = str(read_settings(folder, "config.json").get("model_type", ""))
            try:
                return make(folder, model_type, said)
            except (DataError, UnicodeDecodeError) as error:
                raise DataError(f"{', '.join(str(folder / name) for name in needed)}: {error}") from None
    return None


def read_settings(folder: Path, name: str) -> Settings:
    path = folder / name
    return parse(path.read_bytes().decode("utf-8", "replace"), str(path)) if path.is_file() else {}


def as_files(settings: Settings, names: Sequence[str], said: Mapping[str, Any]) -> dict[str, str]:
    usual = {role: next((name for name in choices if name in names), None) for role, choices in NAMES.items()}
    roles = {role: name for role, name in usual.items() if name is not None} | dict(said)
    files = {TOKENIZER_FILE: settings, CONFIG_FILE: roles}
    return {name: json.dumps(content, ensure_ascii=False) for name, content in files.items()}


def sentence_pieces(data: bytes, model_type: str, said: Mapping[str, Any]) -> dict[str, str]:
    """T5's sentinels and XLNet's way with quotes and accents are not in the model."""
    pieces = SentencePieces.read(data)
    n_sentinels = said.get("extra_ids", 100) if model_type == "t5" else 0
    if type(n_sentinels) is not int or not 0 <= n_sentinels <= MOST_SENTINELS:
        raise DataError(f"extra_ids must be a whole number from 0 to {MOST_SENTINELS:,}, got {str(n_sentinels)[:40]}")
    sentinels = [f"<extra_id_{n}>" for n in reversed(range(n_sentinels))]
    settings = as_tokenizer(pieces, sentinels)
    if model_type == "xlnet":
        quotes = [{"type": "Replace", "pattern": {"String": quote}, "content": '"'} for quote in ("``", "''")]
        plain = [*quotes, {"type": "NFKD"}, {"type": "StripAccents"}]
        settings["normalizer"]["normalizers"] = plain + settings["normalizer"]["normalizers"]
        said = {"additional_special_tokens": ["<eop>", "<eod>"]} | dict(said)
    usual = {"add_bos_token": True} if model_type == "llama" else {}  # what transformers does where nothing is said
    return as_files(settings, [name for name, _, _ in pieces.pieces], usual | dict(said))


def shared_vocabulary(data: bytes, vocabulary: Sequence[str], said: Mapping[str, Any]) -> dict[str, str]:
    """The pieces that a SentencePiece model finds, with the ids of another list (Marian, CTranslate2): a piece that is
    not in the list is unknown; what the model does not know is still read where the list has it (see
    `SharedVocabulary`)."""
    source = SentencePieces.read(data)
    pieces = {name: (score, kind) for name, score, kind in source.pieces}
    listed = set(vocabulary)
    if len(listed) < len(vocabulary):
        raise DataError("a piece stands twice in the vocabulary; copy it again")
    if "<unk>" not in listed or "</s>" not in listed:
        raise DataError("the vocabulary has no <unk> or no </s>; copy it again")
    special = {"<unk>": (0.0, UNKNOWN), "<s>": (0.0, CONTROL), "</s>": (0.0, CONTROL), "<pad>": (0.0, CONTROL)}
    found = pieces | special
    known = [(name, *found[name]) if name in found else (HIDDEN + name, 0.0, UNUSED) for name in vocabulary]
    beyond = [(name, score, kind) for name, (score, kind) in pieces.items() if name not in listed and kind == NORMAL]
    settings = as_tokenizer(replace(source, pieces=known + beyond), [])
    return as_files(settings, vocabulary, {**said, KNOWN_TOKENS: len(vocabulary)})


def marian(folder: Path, model_type: str, said: Settings) -> dict[str, str]:
    ids = read_settings(folder, "vocab.json")
    if not all(type(n) is int for n in ids.values()) or sorted(ids.values()) != list(range(len(ids))):
        raise DataError("the ids of vocab.json are not 0, 1, 2, … without a gap; copy it again")
    return shared_vocabulary((folder / "source.spm").read_bytes(), sorted(ids, key=ids.__getitem__), said)


def ctranslate2(vocabulary: str) -> Callable[[Path, str, Settings], dict[str, str]]:
    """A list of all pieces by their ids; the model that finds them may lie in the folder above, as Argos packs it."""
    return lambda folder, model_type, said: shared_vocabulary(
        (folder / "sentencepiece.model").read_bytes(), read_words(folder / vocabulary), said
    )


def read_words(path: Path) -> list[str]:
    try:
        words = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON that can be used: {error}") from None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise DataError(f"{path} must be a list of words")
    return words


def merges(folder: Path, model_type: str, said: Settings) -> dict[str, str]:
    """GPT-2's own form: the ids of the tokens, and the merges, one a line."""
    lines = (folder / "merges.txt").read_bytes().decode().split("\n")
    pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    cut = CUTS.get(model_type, CUTS["gpt2"])
    vocab = read_settings(folder, "vocab.json")
    return as_files(byte_level(vocab, pairs, cut, bool(said.get("add_prefix_space"))), list(vocab), said)


def byte_level(vocab: Settings, pairs: Sequence[Sequence[str]], cut: Sequence[str], prefix: bool) -> Settings:
    patterns = cut if cut != CUTS["gpt2"] else ()  # which ByteLevel has itself
    splits = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in patterns
    ]
    letters = {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": not splits}
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "NFC"} if cut == CUTS["qwen2"] else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, letters]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocab, "merges": [list(pair) for pair in pairs]},
    }


def word_pieces(folder: Path, model_type: str, said: Settings) -> dict[str, str]:
    """BERT's own form: one token a line."""
    names = (folder / "vocab.txt").read_bytes().decode().removesuffix("\n").split("\n")
    settings = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": said.get("tokenize_chinese_chars", True),
            "strip_accents": said.get("strip_accents"),
            "lowercase": said.get("do_lower_case", True),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {name: n for n, name in enumerate(names)},
        },
    }
    return as_files(settings, names, said)


def one_file(name: str) -> Callable[[Path, str, Settings], dict[str, str]]:
    return lambda folder, model_type, said: sentence_pieces((folder / name).read_bytes(), model_type, said)


SOURCES: dict[tuple[str, ...], Callable[[Path, str, Settings], dict[str, str]]] = {
    ("source.spm", "target.spm", "vocab.json"): marian,
    ("sentencepiece.model", "shared_vocabulary.json"): ctranslate2("shared_vocabulary.json"),
    ("sentencepiece.model", "model/shared_vocabulary.json"): ctranslate2("model/shared_vocabulary.json"),
    ("spiece.model",): one_file("spiece.model"),
    ("tokenizer.model",): one_file("tokenizer.model"),
    ("vocab.json", "merges.txt"): merges,
    ("vocab.txt",): word_pieces,
}
