"""The rungs, oldest first: each is a [model] table and a learning rate; all else they share, in one recipe."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from regard.config import Settings
from regard.ladder.data import pairs_table, text_table


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
)

LADDERS = {"language": LANGUAGE, "translation": TRANSLATION}
