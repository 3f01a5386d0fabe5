"""A vocabulary that is learned here.  Each kind is a cut of the text into pieces and a way to choose the pieces that
get an id."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from typing import Self

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.config import Settings
from regard.errors import ConfigError, DataError
from regard.text.bpe import LETTERS, BytePairs, to_bytes
from regard.text.table import ByteTable, FlatTokens, WordTable
from regard.text.unicode import all_well_formed, well_formed
from regard.text.vocabulary import TOKENIZER_FILE, Vocabulary
from regard.text.words import CUT, END, PAD, SPECIAL, START, UNKNOWN, split

LONGEST_WORD = 1000  # characters; what merges are learned from a longer "word", its parts can teach, too
AT_ONCE = 1000  # lines that are looked at together
MAY_BE_LONG = re.compile(rf"\S{{{LONGEST_WORD}}}|\s{{{LONGEST_WORD}}}")

WORD_LIST = partial(models.WordLevel, {}, unk_token=SPECIAL[UNKNOWN])


@dataclass(frozen=True)
class TokenizerKind:
    """`unknown` is what `decode` writes for a piece that the vocabulary does not hold."""

    cut: pre_tokenizers.PreTokenizer
    decoder: decoders.Decoder
    unknown: str
    model: Callable[[], models.Model] = WORD_LIST
    trainer: Callable[..., trainers.Trainer] = trainers.WordLevelTrainer
    n_needed: int = 1  # the tokens that vocab_size must have room for besides the special ones
    between: str = ""  # what `decode` writes between two pieces
    renames: bool = False  # whether a word of a text may read as a special token does, and gets another name

    def renamed(self, special: Sequence[str]) -> dict[str, str]:
        """The other names are as long as the old ones, so that places in the text stay."""
        return {name: f"‹{name[1:-1]}›" for name in special} if self.renames else {}

    def blank(self, special: Sequence[str]) -> tokenizers.Tokenizer:
        """Training adds the special tokens: were they here before, training would find them in the text."""
        tokenizer = tokenizers.Tokenizer(self.model())
        tokenizer.pre_tokenizer = self.cut
        tokenizer.decoder = self.decoder
        if renamed := self.renamed(special):
            forth = [normalizers.Replace(name, other) for name, other in renamed.items()]
            back = [decoders.Replace(other, name) for name, other in renamed.items()]
            tokenizer.normalizer = normalizers.Sequence(forth)
            tokenizer.decoder = decoders.Sequence([self.decoder, *back])
        return tokenizer


# For other tools.  The library's only way to write a space between words is WordPiece's: it leaves out the space before
# a piece that begins with its prefix, and no word begins with a space.
JOINED = decoders.WordPiece(prefix=" ", cleanup=False)

KINDS = {
    "bpe": TokenizerKind(
        cut=pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        decoder=decoders.ByteLevel(),
        unknown="",
        model=models.BPE,
        trainer=partial(trainers.BpeTrainer, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
        n_needed=256,  # every byte has a token, so nothing is unknown
    ),
    "words": TokenizerKind(cut=CUT, decoder=decoders.Fuse(), unknown=" \ufffd"),  # a word brings its space along
    "spaces": TokenizerKind(
        cut=pre_tokenizers.Split(Regex(r"\S+"), behavior="removed", invert=True),  # as they stand between white space
        decoder=JOINED,
        unknown="\ufffd",
        between=" ",
        renames=True,
    ),
    "characters": TokenizerKind(
        cut=pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated"), decoder=decoders.Fuse(), unknown="\ufffd"
    ),
}


class LearnedVocabulary(Vocabulary):
    """The special tokens have the first ids: <pad>, <s>, </s>, <unk>, then those that the recipe named."""

    pad_id, start_id, end_id, unknown_id = PAD, START, END, UNKNOWN

    def __init__(self, kind: str, tokenizer: tokenizers.Tokenizer) -> None:
        self.kind = kind
        self.inner = tokenizer
        self.inner.encode_special_tokens = True  # "</s>" in a text is text; tokenizer.json does not keep this
        self.size = tokenizer.get_vocab_size()
        self.names = special_tokens(tokenizer)
        self.special = {name: n for n, name in enumerate(self.names)}
        self.renamed = KINDS[kind].renamed(self.names)
        in_bytes = to_bytes if kind == "bpe" else str.encode
        vocabulary = tokenizer.get_vocab()
        self.spelling = {n: in_bytes(name) for name, n in vocabulary.items() if n >= len(self.names)}
        for name, other in self.renamed.items():
            if other in vocabulary:
                self.spelling[vocabulary[other]] = name.encode()
        self.spelling |= dict.fromkeys(range(len(self.names)), b"") | {UNKNOWN: KINDS[kind].unknown.encode()}

    @classmethod
    def learn(cls, lines: Iterable[str], kind: str, vocab_size: int, min_count: int, special: list[str]) -> Self:
        """From lines that are read once, and not kept: the library remembers words and how often they occur."""
        tokenizer = KINDS[kind].blank(special)
        chunks = checked(lines, cuts_words=kind == "bpe")
        # A text yields no more tokens than it has bytes; the library takes memory for as many as it is told.
        first, n_bytes = [], 0
        for chunk in chunks:
            first.append(chunk)
            n_bytes += sum(len(line.encode()) for line in chunk)
            if n_bytes >= vocab_size:
                break
        if not n_bytes:
            raise DataError(f"a tokenizer is trained on text, and these {sum(map(len, first))} lines are empty")
        n_least = len(special) + KINDS[kind].n_needed
        vocab_size = min(vocab_size, n_least + n_bytes)
        if kind == "bpe" and vocab_size <= n_least:  # 256 bytes: there is no merge to learn from the rest
            chunks = iter(())
        settings = {"vocab_size": vocab_size, "min_frequency": min_count, "special_tokens": special}
        tokenizer.train_from_iterator(chain(first, chunks), KINDS[kind].trainer(**settings, show_progress=False))
        if tokenizer.get_vocab_size() == len(special):
            raise ConfigError(f"no piece of the text occurs min_count = {min_count} times; lower min_count")
        return cls(kind, tokenizer)

    def encoder(self) -> Callable[[list[str]], FlatTokens]:
        if self.kind != "bpe":
            return super().encoder()
        table = WordTable(self.encode_batch) if self.pairs.merges else ByteTable(self.pairs.byte_ids)
        return lambda texts: table.encode(self.as_texts(texts))

    @classmethod
    def read(cls, tokenizer: tokenizers.Tokenizer) -> Self:
        """Of a tokenizer.json, if one of our kinds made it."""
        vocabulary = tokenizer.get_vocab()
        if sorted(vocabulary.values()) != list(range(len(vocabulary))):
            raise DataError("its ids are not 0, 1, 2, … without a gap; copy or train it again")
        special, parts = special_tokens(tokenizer), without_vocabulary(tokenizer)
        first = [tokenizer.id_to_token(n) for n in range(len(special))]
        if first != special or special[: len(SPECIAL)] != list(SPECIAL):
            raise DataError(f"its first tokens are not {', '.join(SPECIAL)}; it was made by another tool")
        untrained = {kind: entry.blank(special) for kind, entry in KINDS.items()}
        for blank in untrained.values():
            blank.add_special_tokens(special)
        kind = next((kind for kind, blank in untrained.items() if without_vocabulary(blank) == parts), None)
        if kind is None:
            raise DataError(f"it cuts text in none of our ways ({', '.join(KINDS)}); it was made by another tool")
        letters = set("".join(vocabulary.keys() - set(special)))
        if kind == "bpe" and not vocabulary.keys() >= LETTERS.keys() == letters:
            raise DataError("its tokens are not made of the 256 bytes; copy or train it again")
        return cls(kind, tokenizer)

    def files(self) -> dict[str, str]:
        return {TOKENIZER_FILE: str(self.inner.to_str(pretty=True))}

    def token(self, n: int) -> str:
        return self.names[n] if n < len(self.names) else self.spelling[n].decode("utf-8", "backslashreplace")

    def decode(self, ids: Sequence[int]) -> str:
        try:
            pieces = [self.spelling[n] for n in ids]
        except KeyError as error:
            raise DataError(f"{error} is not an id of this tokenizer (0 to {self.size - 1})") from None
        between = KINDS[self.kind].between.encode()
        return between.join([piece for piece in pieces if piece] if between else pieces).decode("utf-8", "replace")

    def lost(self, text: str) -> list[str]:
        """What lies between pieces, where the pieces do not hold all of the text, and is not what `decode` writes; and
        what is read back as a special token."""
        read_back_otherwise = [other for other in self.renamed.values() if other in text]
        between = KINDS[self.kind].between
        if not between:
            return read_back_otherwise
        text, offsets = well_formed(text), self.cut(text).offsets
        ends, starts = [0, *(end for _, end in offsets)], [*(start for start, _ in offsets), len(text)]
        gaps = [text[end:start] for end, start in zip(ends, starts, strict=True)]
        lost_gaps = [gap for i, gap in enumerate(gaps) if gap != (between if 0 < i < len(gaps) - 1 else "")]
        return lost_gaps + read_back_otherwise

    @cached_property
    def pairs(self) -> BytePairs:
        if self.kind != "bpe":
            return super().pairs
        model = json.loads(self.inner.to_str())["model"]
        merges = [(model["vocab"][left], model["vocab"][right]) for left, right in model["merges"]]
        names = [name.encode() for name in self.names]
        spelled = [self.spelling[n] for n in range(len(names), self.size)]
        return BytePairs(names + spelled, merges, len(names))


def checked(lines: Iterable[str], cuts_words: bool) -> Iterator[list[str]]:
    """The lines as Unicode text, many at a time: a look at them together costs next to nothing."""
    remaining = iter(lines)
    while chunk := all_well_formed(list(islice(remaining, AT_ONCE))):
        has_room = cuts_words and max(map(len, chunk)) >= LONGEST_WORD  # for a long word
        yield list(without_long_words(chunk)) if has_room else chunk


def without_long_words(lines: Iterable[str]) -> Iterator[str]:
    """The lines, and in place of one with a very long word its words, the long ones in parts: each merge goes through
    all of a word that holds its pair, so that the time to learn from one word grows with the square of its length."""
    for line in lines:
        if MAY_BE_LONG.search(line) is None:
            yield line
        else:
            for word in split(line):
                yield from (word[start : start + LONGEST_WORD] for start in range(0, len(word), LONGEST_WORD))


def special_tokens(tokenizer: tokenizers.Tokenizer) -> list[str]:
    added = tokenizer.get_added_tokens_decoder()
    return [added[n].content for n in sorted(added)]


def without_vocabulary(tokenizer: tokenizers.Tokenizer) -> Settings:
    """How a tokenizer.json cuts and joins, without what it learned."""
    settings: Settings = json.loads(tokenizer.to_str())
    settings["model"] = {k: v for k, v in settings["model"].items() if k not in ("vocab", "merges")}
    return settings
