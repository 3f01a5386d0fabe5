"""The kinds of tokenizers: each is a cut of the text into pieces and a way to choose the pieces that get an id."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.text.special import SPECIAL, UNKNOWN
from regard.text.words import CUT


@dataclass(frozen=True)
class TokenizerKind:
    """`unknown` is what `decode` writes for a piece that the vocabulary does not hold."""

    model: Callable[[], models.Model]
    cut: pre_tokenizers.PreTokenizer
    decoder: decoders.Decoder
    trainer: Callable[[int, int, list[str]], trainers.Trainer]  # of vocab_size, min_count and the special tokens
    n_needed: int  # the tokens that vocab_size must have room for besides the special ones
    unknown: str
    between: str = ""  # what `decode` writes between two pieces
    renames: bool = False  # whether a word of a text may read as a special token does, and gets another name

    def renamed(self, special: Sequence[str]) -> dict[str, str]:
        """The other names are as long as the old ones, so that places in the text stay."""
        return {name: f"‹{name[1:-1]}›" for name in special} if self.renames else {}

    def blank(self, special: Sequence[str]) -> Tokenizer:
        """Training adds the special tokens: were they here before, training would find them in the text."""
        tokenizer = Tokenizer(self.model())
        tokenizer.pre_tokenizer = self.cut
        tokenizer.decoder = self.decoder
        if renamed := self.renamed(special):
            there = [normalizers.Replace(name, other) for name, other in renamed.items()]
            back = [decoders.Replace(other, name) for name, other in renamed.items()]
            tokenizer.normalizer = normalizers.Sequence(there)
            tokenizer.decoder = decoders.Sequence([self.decoder, *back])
        return tokenizer


def learn_merges(vocab_size: int, min_count: int, special: list[str]) -> trainers.Trainer:
    return trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_count,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )


def keep_frequent(vocab_size: int, min_count: int, special: list[str]) -> trainers.Trainer:
    return trainers.WordLevelTrainer(
        vocab_size=vocab_size, min_frequency=min_count, special_tokens=special, show_progress=False
    )


def word_list() -> models.Model:
    return models.WordLevel({}, unk_token=SPECIAL[UNKNOWN])


# For other tools.  The library's only way to write a space between words is WordPiece's: it leaves out the space before
# a piece that begins with its prefix, and no word begins with a space.
JOINED = decoders.WordPiece(prefix=" ", cleanup=False)

KINDS = {
    "bpe": TokenizerKind(
        model=models.BPE,
        cut=pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        decoder=decoders.ByteLevel(),
        trainer=learn_merges,
        n_needed=256,  # every byte has a token, so nothing is unknown
        unknown="",
    ),
    "words": TokenizerKind(
        model=word_list,
        cut=CUT,
        decoder=decoders.Fuse(),
        trainer=keep_frequent,
        n_needed=1,
        unknown=" \ufffd",  # a word brings its space along
    ),
    "spaces": TokenizerKind(
        model=word_list,
        cut=pre_tokenizers.Split(Regex(r"\S+"), behavior="removed", invert=True),  # as they stand between white space
        decoder=JOINED,
        trainer=keep_frequent,
        n_needed=1,
        unknown="\ufffd",
        between=" ",
        renames=True,
    ),
    "characters": TokenizerKind(
        model=word_list,
        cut=pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated"),
        decoder=decoders.Fuse(),
        trainer=keep_frequent,
        n_needed=1,
        unknown="\ufffd",
    ),
}
