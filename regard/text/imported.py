"""The tokenizer of another tool: any tokenizer.json, with the file beside it that says what its special tokens do."""

import json
import re
from collections.abc import Callable, Mapping, Sequence

import tokenizers

from regard.config import Settings
from regard.errors import DataError
from regard.text.bpe import LETTERS, to_bytes
from regard.text.unicode import well_formed
from regard.text.vocabulary import HIDDEN, TOKENIZER_FILE, Vocabulary, added_token, from_json, parse
from regard.text.words import SPECIAL

IMPORTED = "imported"  # the kind
ROLE_FILES = ("special_tokens_map.json", "tokenizer_config.json")  # where both say something, the second is right

# Our name of a special token → what transformers calls its role; the first that is there.  A text begins with what
# ends the one before it where nothing else is meant to (GPT-2).
ROLES = {
    "<pad>": ("pad_token", "eos_token", "sep_token"),
    "<s>": ("bos_token", "cls_token", "eos_token"),
    "</s>": ("eos_token", "sep_token"),
    "<unk>": ("unk_token",),
    "<mask>": ("mask_token",),
}
TARGET_FILE = "target_tokenizer.json"  # how a text of the target language is cut, into the same ids (Marian)
KNOWN_TOKENS = "known_tokens"  # in tokenizer_config.json: so many ids are those of a model, what follows is unknown
BESIDE = (*ROLE_FILES, TARGET_FILE)  # what may lie beside a tokenizer.json
FURTHER = ("additional_special_tokens", "extra_special_tokens")
SENTINEL = re.compile(r"<extra_id_(\d+)>")  # of T5; ours are called <extra_0>, <extra_1>, …
FALLBACK = re.compile(r"<0x([0-9A-F]{2})>")  # a byte as SentencePiece writes it


class ImportedVocabulary(Vocabulary):
    """Special tokens cannot be typed here either: in `inner` they have names that no text contains.

    Ids may have gaps, and a model's table more rows than there are ids; such an id has no text.
    """

    kind = IMPORTED

    def __init__(self, settings: Settings, config: Settings, files: Mapping[str, str]) -> None:
        """`settings` of tokenizer.json, and the `config` beside it, which says the roles; both come from `files`."""
        self.content = {name: files[name] for name in (TOKENIZER_FILE, *BESIDE) if name in files}
        self.names = names_of(settings)
        self.size = max(self.names) + 1
        self.renamed = {}
        ids = {name: n for n, name in self.names.items()}
        named = {role: content(config[role]) for roles in ROLES.values() for role in roles if config.get(role)}
        known = {role: ids[name] for role, name in named.items() if name in ids}
        # Our names for special tokens: of the roles that are there, the first counts.
        ours = {name: known[role] for name, roles in ROLES.items() for role in reversed(roles) if role in known}
        further = [content(token) for key in FURTHER for token in listed(config.get(key))]
        self.hidden = {token["id"] for token in settings["added_tokens"] if token["special"]}
        self.hidden |= {*known.values(), *(ids[name] for name in further if name in ids)}
        own = {self.names[n]: n for n in sorted(self.hidden)}
        sentinels = [(SENTINEL.fullmatch(name), n) for name, n in own.items()]
        self.special = own | {f"<extra_{match[1]}>": n for match, n in sentinels if match} | ours
        self.pad_id, self.start_id, self.end_id = (self.role(name) for name in SPECIAL[:3])
        unknown = unknown_of(settings["model"])
        # Nothing is unknown where every byte has a token; other BPE drops what it does not know.
        if unknown is None and settings["model"]["type"] != "BPE" and not settings["model"].get("byte_fallback"):
            raise DataError("it has no unknown token; copy it again")
        self.unknown_id = ours.get("<unk>", -1) if unknown is None else unknown  # -1: nothing is unknown
        mask = [token for token in settings["added_tokens"] if token["id"] == ours.get("<mask>")]
        self.mask_takes_space = any(token["lstrip"] for token in mask)
        self.adds_start = puts_first(self.start_id, settings, config)
        self.inner = from_json(json.dumps(hide(settings, self.hidden, self.names)))
        self.inner.encode_special_tokens = True
        spell = speller(settings)
        as_written = {token["id"] for token in settings["added_tokens"]}
        self.spelling = {n: name.encode() if n in as_written else spell(name) for n, name in self.names.items()}
        self.spelling |= dict.fromkeys(self.hidden, b"")

    def role(self, name: str) -> int:
        if name not in self.special:
            hint = f"{' or '.join(ROLE_FILES)} should name one of: {', '.join(ROLES[name])}"
            raise DataError(f"no file beside it says which of its tokens is {name}; {hint}")
        return self.special[name]

    def files(self) -> dict[str, str]:
        return self.content

    def decode(self, ids: Sequence[int]) -> str:
        wrong = [n for n in ids if n < 0]
        if wrong:
            raise DataError(f"{wrong[0]} is not an id of this tokenizer (0 to {self.size - 1})")
        names = [self.names[n] for n in ids if n in self.names and n not in self.hidden]
        return str(self.inner.decoder.decode(names)) if self.inner.decoder else " ".join(names)

    def token(self, n: int) -> str:
        if n in self.spelling and n not in self.hidden:
            return self.spelling[n].decode("utf-8", "backslashreplace")
        return self.names.get(n, f"<no token {n}>")

    def lost(self, text: str) -> list[str]:
        """Words that come back otherwise, say in small letters; or all of the text, where only its spaces do."""

        def back(part: str) -> str:
            return self.decode(self.ids(self.cut(part)))

        text = well_formed(text)
        if back(text) == text:
            return []
        return [word for word in text.split() if back(word).strip() != word] or [text]


class SharedVocabulary(ImportedVocabulary):
    """The pieces are those of one list, the ids those of another, in which they are looked up by their text (Marian:
    a SentencePiece model for each language, one vocabulary for both).  What the first does not know, the second may."""

    def __init__(self, settings: Settings, config: Settings, files: Mapping[str, str]) -> None:
        super().__init__(settings, config, files)
        self.size = config[KNOWN_TOKENS]
        listed = {n: name for n, name in self.names.items() if n < self.size and n not in self.hidden}
        self.by_name = {name: n for n, name in listed.items()}
        self.is_listed = set(listed)
        if TARGET_FILE in files:
            self.of_targets = self.read_targets(files, config)

    def read_targets(self, files: Mapping[str, str], config: Settings) -> "SharedVocabulary":
        beside = {name: files[name] for name in ROLE_FILES if name in files}
        beside[TOKENIZER_FILE] = files[TARGET_FILE]
        targets = SharedVocabulary(json.loads(from_json(files[TARGET_FILE]).to_str()), config, beside)
        if [targets.names.get(n) for n in range(self.size)] != [self.names.get(n) for n in range(self.size)]:
            raise DataError(f"{TARGET_FILE} has other tokens than {TOKENIZER_FILE}; import the model again")
        return targets

    def ids(self, encoding: tokenizers.Encoding) -> list[int]:
        pieces = zip(encoding.ids, encoding.tokens, strict=True)
        return [n if n in self.is_listed else self.by_name.get(piece, self.unknown_id) for n, piece in pieces]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        encodings = self.inner.encode_batch(self.as_texts(texts), add_special_tokens=False)  # with the pieces' text
        return [self.ids(encoding) for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        return super().decode(ids).strip(" ")


def imported(tokenizer: tokenizers.Tokenizer, files: Mapping[str, str]) -> ImportedVocabulary:
    config = {key: value for name in ROLE_FILES if name in files for key, value in parse(files[name], name).items()}
    if not tokenizer.get_vocab_size():
        raise DataError("it has no tokens; copy it again")
    kind = SharedVocabulary if isinstance(config.get(KNOWN_TOKENS), int) else ImportedVocabulary
    return kind(json.loads(tokenizer.to_str()), config, files)


def puts_first(start_id: int, settings: Settings, config: Settings) -> bool:
    """Whether a tokenizer begins every text with its start token: by its last step, or, if it has none (that of a GGUF
    file, say), because its settings ask for it."""
    last = settings["post_processor"]
    if last is None:
        return config.get("add_bos_token") is True
    return any(first_of(step) == start_id for step in last.get("processors", [last]))


def first_of(step: Settings) -> int | None:
    """The token that a last step of a tokenizer puts before a text; None: it puts none."""
    if step["type"] in ("BertProcessing", "RobertaProcessing"):
        return int(step["cls"][1])
    first = step["single"][:1] if step["type"] == "TemplateProcessing" else []
    known = [step["special_tokens"].get(piece["SpecialToken"]["id"]) for piece in first if "SpecialToken" in piece]
    ids = [n for token in known if token for n in token["ids"]]
    return int(ids[0]) if ids else None


def content(token: object) -> str:
    """Older files have the token, newer ones its settings."""
    return str(token.get("content", "")) if isinstance(token, dict) else str(token)


def listed(tokens: object) -> list[object]:
    """Older files have a list, some newer ones give each token a name."""
    return list(tokens.values()) if isinstance(tokens, dict) else tokens if isinstance(tokens, list) else []


def names_of(settings: Settings) -> dict[int, str]:
    """The token of every id."""
    vocab = settings["model"]["vocab"]
    of_model = vocab.items() if isinstance(vocab, dict) else ((piece, n) for n, (piece, _) in enumerate(vocab))
    names = {n: name.removeprefix(HIDDEN) for name, n in of_model}
    return names | {token["id"]: token["content"] for token in settings["added_tokens"]}


def hide(settings: Settings, hidden: set[int], names: Mapping[int, str]) -> Settings:
    """The settings with other names for the special tokens, and without what would add tokens to a text or cut it."""
    new = {names[n]: HIDDEN + names[n] for n in hidden}
    model = settings["model"]
    if isinstance(model["vocab"], dict):
        vocab: object = {new.get(name, name): n for name, n in model["vocab"].items()}
    else:
        vocab = [[new.get(piece, piece), score] for piece, score in model["vocab"]]
    model = model | {"vocab": vocab}
    if model.get("unk_token") in new:
        model["unk_token"] = new[model["unk_token"]]
    plain = [token for token in settings["added_tokens"] if token["id"] not in hidden]
    special = [added_token(n, new[names[n]]) for n in hidden]
    added = sorted([*plain, *special], key=lambda token: int(token["id"]))
    silent = {"truncation": None, "padding": None, "post_processor": None}
    return settings | silent | {"model": model, "added_tokens": added}


def unknown_of(model: Settings) -> int | None:
    if "unk_id" in model:
        return None if model["unk_id"] is None else int(model["unk_id"])
    vocab: dict[str, int] = model["vocab"]
    return vocab.get(model.get("unk_token") or "")


def speller(settings: Settings) -> Callable[[str], bytes]:
    """How the name of a token is read as text: by what puts the pieces together again."""
    decoder = settings["decoder"] or {}
    kinds = {part["type"] for part in decoder.get("decoders", [decoder]) if "type" in part}
    if "ByteLevel" in kinds:
        return lambda name: to_bytes(name) if LETTERS.keys() >= set(name) else name.encode()
    if "WordPiece" in kinds:
        prefix = decoder.get("prefix", "##")
        return lambda name: name.removeprefix(prefix).encode() if name.startswith(prefix) else f" {name}".encode()
    return spell_piece


def spell_piece(name: str) -> bytes:
    byte = FALLBACK.fullmatch(name)
    return bytes.fromhex(byte[1]) if byte else name.replace("▁", " ").encode()
