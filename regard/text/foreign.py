"""Folders of other tools without a tokenizer.json, and GGUF files (llama.cpp): what they have instead, made into one.

Everything here gives the files that `Tokenizer.from_files` takes: tokenizer.json, and tokenizer_config.json with the
roles of the special tokens; of a translator with two SentencePiece models also target_tokenizer.json.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from regard.choose import choose
from regard.config import Settings
from regard.errors import DataError, need
from regard.text.imported import KNOWN_TOKENS, SENTINEL, TARGET_FILE
from regard.text.sentencepieces import (
    CONTROL,
    NORMAL,
    UNIGRAM,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    SentencePieces,
    as_tokenizer,
)
from regard.text.vocabulary import HIDDEN, TOKENIZER_FILE, added_token, parse
from regard.text.words import PATTERN

CONFIG_FILE = "tokenizer_config.json"
LACKING = 0.1  # of the listed pieces: a SentencePiece model that lacks more knows one of two languages
MOST_SENTINELS = 10_000  # of T5; an untrusted file could ask for any number

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

GGUF_PREFIX = "tokenizer.ggml."  # of what a GGUF file says about its tokenizer
GGUF_ROLES = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
    "sep_token": "seperator_token_id",  # as it is spelled there
    "cls_token": "cls_token_id",
    "mask_token": "mask_token_id",
}
# What llama.cpp calls the ways to cut a text into words.
GGUF_CUTS = {"gpt-2": "gpt2", "smollm": "smollm", "qwen2": "qwen2", "llama-bpe": "llama-bpe", "llama3": "llama-bpe"}


def read_foreign(folder: Path) -> dict[str, str] | None:
    """The files of a tokenizer, if the folder has what it takes."""
    for names, make in SOURCES.items():
        files = [folder / name for name in names]
        if all(file.is_file() for file in files):
            config = read_settings(folder / "special_tokens_map.json") | read_settings(folder / CONFIG_FILE)
            model_type = str(read_settings(folder / "config.json").get("model_type", ""))
            try:
                return make(files, model_type, config)
            except (DataError, UnicodeDecodeError) as error:
                raise DataError(f"{', '.join(map(str, files))}: {error}") from None
    if (folder / "shared_vocabulary.json").is_file():
        raise DataError(
            f"{folder} has no tokenizer: copy source.spm and target.spm (Marian), spiece.model (T5) or tokenizer.json "
            "into it, as ct2-transformers-converter --copy_files does"
        )
    return None


def read_settings(path: Path) -> Settings:
    return parse(path.read_bytes().decode("utf-8", "replace"), str(path)) if path.is_file() else {}


def as_files(settings: Settings, names: Sequence[str], config: Settings) -> dict[str, str]:
    usual = {role: next((name for name in choices if name in names), None) for role, choices in NAMES.items()}
    roles = {role: name for role, name in usual.items() if name is not None} | dict(config)
    files = {TOKENIZER_FILE: settings, CONFIG_FILE: roles}
    return {name: json.dumps(content, ensure_ascii=False) for name, content in files.items()}


def sentence_pieces(files: list[Path], model_type: str, config: Settings) -> dict[str, str]:
    """T5's sentinels and XLNet's way with quotes and accents are not in the model."""
    pieces = SentencePieces.read(files[0].read_bytes())
    n_sentinels = config.get("extra_ids", 100) if model_type == "t5" else 0
    if type(n_sentinels) is not int or not 0 <= n_sentinels <= MOST_SENTINELS:
        raise DataError(f"extra_ids must be a whole number from 0 to {MOST_SENTINELS:,}, got {str(n_sentinels)[:40]}")
    sentinels = [f"<extra_id_{n}>" for n in reversed(range(n_sentinels))]
    settings = as_tokenizer(pieces, sentinels)
    if model_type == "xlnet":
        quotes = [{"type": "Replace", "pattern": {"String": quote}, "content": '"'} for quote in ("``", "''")]
        plain = [*quotes, {"type": "NFKD"}, {"type": "StripAccents"}]
        settings["normalizer"]["normalizers"] = plain + settings["normalizer"]["normalizers"]
        config = {"additional_special_tokens": ["<eop>", "<eod>"]} | config
    usual = {"add_bos_token": True} if model_type == "llama" else {}  # what transformers does where nothing is fields
    return as_files(settings, [name for name, _, _ in pieces.pieces], usual | config)


def shared_vocabulary(models: Sequence[Path], vocabulary: Sequence[str], config: Settings) -> dict[str, str]:
    """One list of pieces for two languages (Marian, CTranslate2), with the SentencePiece model of the source and, if it
    is there, that of the target."""
    listed = set(vocabulary)
    if len(listed) < len(vocabulary):
        raise DataError("a piece stands twice in the vocabulary; copy it again")
    if "<unk>" not in listed or "</s>" not in listed:
        raise DataError("the vocabulary has no <unk> or no </s>; copy it again")
    source, *others = [SentencePieces.read(model.read_bytes()) for model in models]
    files = as_files(listed_pieces(source, vocabulary), vocabulary, {**config, KNOWN_TOKENS: len(vocabulary)})
    lacking = listed - {name for name, _, _ in source.pieces}
    if not others and len(lacking) > LACKING * len(vocabulary):
        others = [by_frequency(source, vocabulary)]
    for target in others:
        if target != source:
            files[TARGET_FILE] = json.dumps(listed_pieces(target, vocabulary), ensure_ascii=False)
    return files


def by_frequency(like: SentencePieces, vocabulary: Sequence[str]) -> SentencePieces:
    """A model in place of one that is missing.  The list begins with the most frequent pieces, and the frequency of the
    n-th is about proportional to 1/n (Zipf): the list itself says how likely a piece is."""
    total = math.log(sum(1 / n for n in range(1, len(vocabulary) + 1)))
    pieces = [(name, -math.log(n) - total, NORMAL) for n, name in enumerate(vocabulary, start=1)]
    return replace(like, pieces=pieces, model=UNIGRAM)


def listed_pieces(model: SentencePieces, vocabulary: Sequence[str]) -> Settings:
    """The pieces that a SentencePiece model finds, with the ids of another list: a piece that is not in the list is
    unknown; what the model does not know is still read where the list has it (see `SharedVocabulary`)."""
    pieces = {name: (score, kind) for name, score, kind in model.pieces}
    known = pieces | {"<unk>": (0.0, UNKNOWN)} | dict.fromkeys(("<s>", "</s>", "<pad>"), (0.0, CONTROL))
    first = [(name, *known[name]) if name in known else (HIDDEN + name, 0.0, UNUSED) for name in vocabulary]
    listed = set(vocabulary)
    beyond = [(name, score, kind) for name, (score, kind) in pieces.items() if name not in listed and kind == NORMAL]
    return as_tokenizer(replace(model, pieces=first + beyond), [])


def marian(files: list[Path], model_type: str, config: Settings) -> dict[str, str]:
    *models, vocabulary = files
    ids = read_settings(vocabulary)
    if not all(type(n) is int for n in ids.values()) or sorted(ids.values()) != list(range(len(ids))):
        raise DataError("the ids of vocab.json are not 0, 1, 2, … without a gap; copy it again")
    return shared_vocabulary(models, sorted(ids, key=ids.__getitem__), config)


def ctranslate2(files: list[Path], model_type: str, config: Settings) -> dict[str, str]:
    """A list of all pieces by their ids; the model that finds them may lie in the folder above, as Argos packs it."""
    *models, vocabulary = files
    return shared_vocabulary(models, read_words(vocabulary), config)


def converted_t5(files: list[Path], model_type: str, config: Settings) -> dict[str, str]:
    """T5 as CTranslate2's converter leaves it: the vocabulary tells how many sentinels follow the pieces.  Rows without
    a token have names of sentinels there, too."""
    source, vocabulary = files
    names, words = [name for name, _, _ in SentencePieces.read(source.read_bytes()).pieces], read_words(vocabulary)
    if words[: len(names)] != names:
        return ctranslate2(files, model_type, config)
    n_sentinels = len({word for word in words[len(names) :] if SENTINEL.fullmatch(word)})
    return sentence_pieces([source], "t5", {**config, "extra_ids": n_sentinels})


def read_words(path: Path) -> list[str]:
    try:
        words = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON that can be used: {error}") from None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise DataError(f"{path} must be a list of words")
    return words


def merges(files: list[Path], model_type: str, config: Settings) -> dict[str, str]:
    """GPT-2's own form: the ids of the tokens, and the merges, one a line."""
    vocab, lines = read_settings(files[0]), files[1].read_bytes().decode().split("\n")
    pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    cut = CUTS.get(model_type, CUTS["gpt2"])
    return as_files(byte_level(vocab, pairs, cut, bool(config.get("add_prefix_space"))), list(vocab), config)


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


def word_pieces(files: list[Path], model_type: str, config: Settings) -> dict[str, str]:
    """BERT's own form: one token a line."""
    names = files[0].read_bytes().decode().removesuffix("\n").split("\n")
    settings = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": config.get("tokenize_chinese_chars", True),
            "strip_accents": config.get("strip_accents"),
            "lowercase": config.get("do_lower_case", True),
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
    return as_files(settings, names, config)


SOURCES: dict[tuple[str, ...], Callable[[list[Path], str, Settings], dict[str, str]]] = {
    ("source.spm", "target.spm", "vocab.json"): marian,
    ("sentencepiece.model", "shared_vocabulary.json"): ctranslate2,
    ("sentencepiece.model", "model/shared_vocabulary.json"): ctranslate2,
    ("source.spm", "target.spm", "shared_vocabulary.json"): ctranslate2,
    ("source.spm", "shared_vocabulary.json"): ctranslate2,
    ("spiece.model", "shared_vocabulary.json"): converted_t5,
    ("spiece.model",): sentence_pieces,
    ("tokenizer.model",): sentence_pieces,
    ("vocab.json", "merges.txt"): merges,
    ("vocab.txt",): word_pieces,
}


def read_gguf(path: Path) -> dict[str, str]:
    """The files of its tokenizer, for `Tokenizer.from_files`."""
    library = need("gguf")
    try:
        stored = library.GGUFReader(path).fields
        fields = {name: field.contents() for name, field in stored.items() if name.startswith("tokenizer.")}
    except (ValueError, KeyError, IndexError, OSError) as error:
        raise DataError(f"{path} is not a whole GGUF file ({error}); copy it again") from None
    return gguf_tokenizer(fields)


def gguf_tokenizer(fields: Settings) -> dict[str, str]:
    """`fields` are the settings of the file that begin with "tokenizer."."""
    settings = {name.removeprefix(GGUF_PREFIX): value for name, value in fields.items()}
    for needed in ("model", "tokens", "token_type"):
        if needed not in settings:
            raise DataError(f"the GGUF file has no {GGUF_PREFIX}{needed}, so no tokenizer that can be read")
    names, types = settings["tokens"], settings["token_type"]
    if len(names) != len(types) or len(set(names)) != len(names):
        raise DataError("the tokens of the GGUF file are not each one with one type; copy it again")
    made = choose(GGUF_MODELS, settings["model"], f"{GGUF_PREFIX}model")(settings, names, types)
    ids = {role: settings[key] for role, key in GGUF_ROLES.items() if key in settings}
    roles = {role: names[n] for role, n in ids.items() if 0 <= n < len(names)}
    more = {"chat_template": fields["tokenizer.chat_template"]} if "tokenizer.chat_template" in fields else {}
    more["add_bos_token"] = bool(settings.get("add_bos_token", settings["model"] == "llama"))  # as llama.cpp has it
    return as_files(made, [], roles | more)


def merged(settings: Settings, names: Sequence[str], types: Sequence[int]) -> Settings:
    """Byte-level BPE, as in GPT-2."""
    cut = CUTS[choose(GGUF_CUTS, settings.get("pre", "gpt-2"), f"{GGUF_PREFIX}pre")]
    pairs = [pair.split(" ") for pair in settings.get("merges", [])]
    made = byte_level({name: n for n, name in enumerate(names)}, pairs, cut, bool(settings.get("add_space_prefix")))
    made["added_tokens"] = [
        added_token(n, name, is_special=kind == CONTROL)
        for n, (name, kind) in enumerate(zip(names, types, strict=True))
        if kind in (CONTROL, USER_DEFINED)
    ]
    return made


def scored(settings: Settings, names: Sequence[str], types: Sequence[int]) -> Settings:
    return as_tokenizer(SentencePieces.of_gguf(settings, names, types), [])


GGUF_MODELS = {"gpt2": merged, "llama": scored, "t5": scored}
