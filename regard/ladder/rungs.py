"""The rungs, oldest first: each is a [model] table and a learning rate; all else they share, in one recipe."""

from dataclasses import dataclass, field

from regard.config import Settings


@dataclass(frozen=True)
class Rung:
    title: str
    model: Settings = field(default_factory=dict)  # the [model] table; empty: that of the ladder's recipe
    learning_rate: float | None = None  # None: that of the ladder's recipe, where any is needed


@dataclass(frozen=True)
class Ladder:
    recipe: str  # the shipped recipe of all rungs; by itself, that of the last one
    rungs: dict[str, Rung]
    figures: dict[str, str]  # what is measured, by its name in a run's figures, as the table heads it


# Those that learn by gradients have about 0.8 million weights each besides the embeddings, which are the output table.
LANGUAGE = Ladder(
    recipe="ladder",
    rungs={
        "n-gram": Rung("n-gram", {"architecture": "markov", "kind": "chain", "order": 4}),
        "skips": Rung("skips", {"architecture": "markov", "kind": "skips", "reach": 8}),
        "masked": Rung("masked skips", {"architecture": "markov", "kind": "masked", "reach": 8}),
        "rnn": Rung(
            "RNN",
            {
                "architecture": "recurrent",
                "cell": "rnn",
                "d_model": 128,
                "d_hidden": 768,
                "d_last": 128,
                "dropout": 0.1,
                "embedding_range": 1.0,
            },
            learning_rate=0.001,
        ),
        "lstm": Rung(
            "LSTM",
            {
                "architecture": "recurrent",
                "cell": "lstm",
                "d_model": 128,
                "d_hidden": 320,
                "d_last": 128,
                "dropout": 0.1,
                "embedding_range": 1.0,
            },
            learning_rate=0.004,
        ),
        "gru": Rung(
            "GRU",
            {
                "architecture": "recurrent",
                "cell": "gru",
                "d_model": 128,
                "d_hidden": 384,
                "d_last": 128,
                "dropout": 0.1,
                "embedding_range": 1.0,
            },
            learning_rate=0.003,
        ),
        "convolution": Rung(
            "convolution",
            {"architecture": "convolutional", "d_model": 128, "n_layers": 8, "max_length": 512},
            learning_rate=0.002,
        ),
        "attention": Rung(
            "RNN + attention",
            {
                "architecture": "attentive",
                "cell": "lstm",
                "d_model": 128,
                "d_hidden": 272,
                "dropout": 0.1,
                "embedding_range": 1.0,
                "max_length": 512,
            },
            learning_rate=0.004,
        ),
        "transformer": Rung("Transformer"),
    },
    figures={"bits_per_byte": "bits/byte", "accuracy": "% right"},
)

# About 0.9 million weights each besides the embeddings.
TRANSLATION = Ladder(
    recipe="ladder-translation",
    rungs={
        "rnn": Rung(
            "encoder-decoder RNN",
            {"architecture": "seq2seq", "score": "none", "d_model": 128, "d_hidden": 192, "dropout": 0.1},
            learning_rate=0.003,
        ),
        "attention": Rung(
            "RNN + attention",
            {"architecture": "seq2seq", "score": "additive", "d_model": 128, "d_hidden": 176, "dropout": 0.1},
            learning_rate=0.003,
        ),
        "transformer": Rung("Transformer"),
    },
    figures={"BLEU": "BLEU", "exact match": "% exact"},
)

LADDERS = {"language": LANGUAGE, "translation": TRANSLATION}
