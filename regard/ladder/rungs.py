"""The rungs, oldest first: each is a [model] table and a learning rate; all else they share, in one recipe.

Their text is the demo's sentences, or the user's files, divided once for all rungs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from regard.config import Settings
from regard.data.corpora.grammar import generate
from regard.data.files.reading import read_examples
from regard.data.files.splits import places
from regard.errors import ConfigError, RunError
from regard.runs.durable import write_file

KEPT_BACK = 0.05  # of the user's text for validation, and as much for the test
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Rung:
    title: str
    model: Settings = field(default_factory=dict)  # the [model] table; empty: that of the ladder's recipe
    learning_rate: float | None = None  # None: that of the ladder's recipe, where any is needed


@dataclass(frozen=True)
class Ladder:
    data_table: Callable[[list[Path], Path], Settings]  # [data] of the user's files, made in a folder
    recipe: str  # the shipped recipe of all rungs; by itself, that of the last one
    rungs: dict[str, Rung]
    figures: dict[str, str]  # what is measured, by its name in a run's figures, as the table heads it
    higher_is_better: bool = False  # of the first of them


def text_table(files: list[Path], folder: Path) -> Settings:
    """The [data] table of language models: one text, of which the end is kept back, or one file for each part."""
    if not files:
        return grammar_table(folder, ("en",))
    named = [str(file.resolve()) for file in files]
    if len(named) == 1:
        return {"root": ".", "train": named, "valid": [], "test": [], "valid_share": KEPT_BACK, "test_share": KEPT_BACK}
    if len(named) == len(PARTS):
        return {"root": ".", **{part: [name] for part, name in zip(PARTS, named, strict=True)}}
    raise ConfigError(f"--data takes one text, or three: train, valid and test; got {len(files)}")


def pairs_table(files: list[Path], folder: Path) -> Settings:
    """The [data] table of translators.  Pairs with the same source are never on both sides of a division."""
    if not files:
        return grammar_table(folder, ("en", "fr"))
    if len(files) != 2:
        raise ConfigError(f"--data takes two files, the source and the target lines; got {len(files)}")
    columns = read_examples(tuple(map(str, files)), (), ".").columns
    folder.mkdir(parents=True, exist_ok=True)
    lines: dict[str, list[int]] = {part: [] for part in PARTS}
    for i, place in enumerate(places(columns[0], seed=0)):
        lines["test" if place < KEPT_BACK else "valid" if place < 2 * KEPT_BACK else "train"].append(i)
    for part, chosen in lines.items():
        if not chosen:
            raise ConfigError(f"{len(columns[0]):,} pairs are too few to divide: nothing is left for {part}")
        for side, column in zip(("source", "target"), columns, strict=True):
            put("".join(column[i] + "\n" for i in chosen), folder / f"{part}.{side}")
    return {"root": str(folder.resolve()), **{part: [f"{part}.source", f"{part}.target"] for part in PARTS}}


def put(text: str, path: Path) -> None:
    """Write a part, once; what another ladder of this folder was trained on is not overwritten."""
    if not path.is_file():
        write_file(path, text.encode())
    elif path.read_bytes() != text.encode():
        raise RunError(f"{path} holds lines of another ladder, which are left as they are; choose a folder with --out")


def grammar_table(folder: Path, languages: tuple[str, ...]) -> Settings:
    """The demo's sentences: those of the test say what no training sentence says."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in generate().files():
        put(text, folder / name)
    names = {"train": "train", "valid": "valid", "test": "held-out"}
    files = {part: [f"{name}.{language}" for language in languages] for part, name in names.items()}
    return {"root": str(folder.resolve()), **files}


SMALL = {"d_model": 128, "dropout": 0.1}
WIDE_START = SMALL | {"embedding_range": 1.0}  # embeddings as recurrent nets need them to begin


def recurrent(cell: str, d_hidden: int, learning_rate: float) -> Rung:
    model = {"architecture": "recurrent", "cell": cell, "d_hidden": d_hidden, "d_last": 128, **WIDE_START}
    return Rung(cell.upper(), model, learning_rate)


# Rungs trained by gradients have about 0.8 million weights each besides the embeddings, which are the output table.
LANGUAGE = Ladder(
    data_table=text_table,
    recipe="ladder",
    rungs={
        "n-gram": Rung("n-gram", {"architecture": "markov", "kind": "chain", "order": 4}),
        "skips": Rung("skips", {"architecture": "markov", "kind": "skips", "reach": 8}),
        "masked": Rung("masked skips", {"architecture": "markov", "kind": "masked", "reach": 8}),
        "rnn": recurrent("rnn", d_hidden=768, learning_rate=0.001),
        "lstm": recurrent("lstm", d_hidden=320, learning_rate=0.004),
        "gru": recurrent("gru", d_hidden=384, learning_rate=0.003),
        "convolution": Rung(
            "convolution",
            {"architecture": "convolutional", "d_model": 128, "n_layers": 8, "max_length": 512},
            learning_rate=0.002,
        ),
        "attention": Rung(
            "RNN + attention",
            {"architecture": "attentive", "cell": "lstm", "d_hidden": 272, "max_length": 512, **WIDE_START},
            learning_rate=0.004,
        ),
        "transformer": Rung("Transformer"),
    },
    figures={"bits_per_byte": "bits/byte", "accuracy": "% right"},
)

# About 0.9 million weights each besides the embeddings.
TRANSLATION = Ladder(
    data_table=pairs_table,
    recipe="ladder-translation",
    rungs={
        "rnn": Rung(
            "encoder-decoder RNN",
            {"architecture": "seq2seq", "score": "none", "d_hidden": 192, **SMALL},
            learning_rate=0.003,
        ),
        "attention": Rung(
            "RNN + attention",
            {"architecture": "seq2seq", "score": "additive", "d_hidden": 176, **SMALL},
            learning_rate=0.003,
        ),
        "transformer": Rung("Transformer"),
    },
    figures={"BLEU": "BLEU", "exact match": "% exact"},
    higher_is_better=True,
)

LADDERS = {"language": LANGUAGE, "translation": TRANSLATION}
