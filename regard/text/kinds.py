"""The kinds of tokenizers: each is a cut of the text into pieces and a way to choose the pieces that get an id."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.text.special import SPECIAL, UNKNOWN
from regard.text.words import CUT


@dataclass(frozen=True)
class Kind:
    """`unknown` is what `decode` writes for a piece that the vocabulary does not hold."""

    model: Callable[[], models.Model]
    cut: pre_tokenizers.PreTokenizer
    decoder: decoders.Decoder
    trainer: Callable[[int, int], trainers.Trainer]  # of vocab_size and min_count
    smallest: int  # vocab_size
    unknown: str
    between: str = ""  # what `decode` writes between two pieces
    renamed: dict[str, str] = field(default_factory=dict)  # words of a text that would read as special tokens

    def blank(self) -> Tokenizer:
        """Training adds the special tokens: were they here before, training would find them in the text."""
        tokenizer = Tokenizer(self.model())
        tokenizer.pre_tokenizer = self.cut
        tokenizer.decoder = self.decoder
        if self.renamed:
            renaming = [normalizers.Replace(before, after) for before, after in self.renamed.items()]
            tokenizer.normalizer = normalizers.Sequence(renaming)
        return tokenizer


def learn_merges(vocab_size: int, min_count: int) -> trainers.Trainer:
    return trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_count,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )


def keep_frequent(vocab_size: int, min_count: int) -> trainers.Trainer:
    return trainers.WordLevelTrainer(
        vocab_size=vocab_size, min_frequency=min_count, special_tokens=list(SPECIAL), show_progress=False
    )


def word_list() -> models.Model:
    return models.WordLevel({}, unk_token=SPECIAL[UNKNOWN])


RENAMED = {name: f"‹{name[1:-1]}›" for name in SPECIAL}

# For other tools.  The library's only way to write a space between words is WordPiece's: it leaves out the space before
# a piece that begins with its prefix, and no word begins with a space.
JOINED = decoders.Sequence(
    [decoders.WordPiece(prefix=" ", cleanup=False)] + [decoders.Replace(other, name) for name, other in RENAMED.items()]
)

KINDS = {
    "bpe": Kind(
        model=models.BPE,
        cut=pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        decoder=decoders.ByteLevel(),
        trainer=learn_merges,
        smallest=len(SPECIAL) + 256,  # every byte has a token, so nothing is unknown
        unknown="",
    ),
    "words": Kind(
        model=word_list,
        cut=CUT,
        decoder=decoders.Fuse(),
        trainer=keep_frequent,
        smallest=len(SPECIAL) + 1,
        unknown=" \ufffd",  # a word brings its space along
    ),
    "spaces": Kind(
        model=word_list,
        cut=pre_tokenizers.Split(Regex(r"\S+"), behavior="removed", invert=True),  # as they stand between white space
        decoder=JOINED,
        trainer=keep_frequent,
        smallest=len(SPECIAL) + 1,
        unknown="\ufffd",
        between=" ",
        renamed=RENAMED,
    ),
    "characters": Kind(
        model=word_list,
        cut=pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated"),
        decoder=decoders.Fuse(),
        trainer=keep_frequent,
        smallest=len(SPECIAL) + 1,
        unknown="\ufffd",
    ),
}
