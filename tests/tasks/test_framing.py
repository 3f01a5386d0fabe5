from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_reviews import train_reviews

from regard.data.config import DataConfig
from regard.data.files.labelled import labelled_parts, read_labelled
from regard.decoding.config import DecodingConfig
from regard.errors import ConfigError
from regard.runs.run import Run, load
from regard.tasks.classification.batches import Documents
from regard.tasks.classification.task import Classification, ClassificationConfig
from regard.tasks.framing import Framing
from regard.tasks.setup import Setup
from regard.text import Tokenizer, TokenizerConfig

TOKENIZER = Tokenizer.train(["a b c d e f g h"], TokenizerConfig(kind="spaces", vocab_size=20))
S, E = TOKENIZER.start_id, TOKENIZER.end_id


def joined(framing: Framing, line: str) -> str:
    (parts,) = framing.encode([line])
    names = {S: "<s>", E: "</s>"}
    return " ".join(names.get(i, TOKENIZER.token(i)) for i in framing.join(parts).tolist())


@pytest.mark.parametrize(
    ("framed", "n_texts", "keep", "line", "expected"),
    [
        (False, 1, "first", "a b c d e f g", "a b c d e f"),
        (False, 1, "last", "a b c d e f g", "b c d e f g"),
        (False, 1, "last", "a b", "a b"),
        (True, 1, "first", "a b c d e f g", "<s> a b c d </s>"),
        (True, 1, "last", "a b c d e f g", "<s> d e f g </s>"),
        (True, 1, "first", "", "<s> </s>"),
        (True, 1, "first", "a\tb", "<s> a b </s>"),
        (True, 2, "first", "a\tb", "<s> a </s> b </s>"),
        (True, 2, "first", "a b c d\tb", "<s> a b </s> b </s>"),  # of 6 tokens 3 are special
        (True, 2, "first", "a\tb c d e", "<s> a </s> b c </s>"),
        (True, 2, "last", "a\tb c d e", "<s> a </s> d e </s>"),
        (True, 2, "first", "a b c d\te f g h", "<s> a b </s> e </s>"),
        (True, 2, "first", "a", "<s> a </s> </s>"),
        (True, 2, "first", "\ta b c d", "<s> </s> a b c </s>"),
    ],
)
def test_texts_in_their_frame(framed: bool, n_texts: int, keep: str, line: str, expected: str) -> None:
    framing = Framing(TOKENIZER, framed, keep, 6, n_texts)
    assert joined(framing, line) == expected


def test_the_longer_text_of_a_pair_is_cut_first() -> None:
    """As taking one token after the other from the one that is longer."""
    framing = Framing(TOKENIZER, True, "first", 12, 2)
    for n_a in range(13):
        for n_b in range(13):
            a, b = n_a, n_b
            while a + b + 3 > 12:
                a, b = (a - 1, b) if a > b else (a, b - 1)
            ids = framing.join([np.full(n_a, 7), np.full(n_b, 8)]).tolist()
            assert (ids.count(7), ids.count(8)) == (a, b)
            assert framing.length([np.zeros(n_a), np.zeros(n_b)]) == n_a + n_b + 3
    assert framing.lengths([np.array([1, 5]), np.array([2, 9])]).tolist() == [6, 17]


def test_frames_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"two columns of texts are read as <s> a </s> b </s>: set task.framed"):
        Framing(TOKENIZER, False, "first", 10, 2)
    with pytest.raises(ConfigError, match="leaves no room beside 3 special tokens"):
        Framing(TOKENIZER, True, "first", 3, 2)


# Pairs.

SAME = (("cat", "meow"), ("dog", "woof"), ("cow", "moo"), ("owl", "hoot"))
RECIPE = """
[task]
kind = "classification"
framed = true
pooling = "first"
pooler = "tanh"

[data]
root = "{root}"
train = ["train.jsonl"]
test = ["train.jsonl"]
columns = ["question", "passage", "label"]
max_length = 16
batch_tokens = 200

[tokenizer]
kind = "spaces"
vocab_size = 40

[model]
architecture = "stack"
causal = false
n_segments = 2
d_model = 32
n_heads = 4
n_layers = 2
d_ff = 32
dropout = 0.0
max_length = 24

[training]
steps = {steps}
schedule = "constant"
learning_rate = 0.01
warmup = 5
save_every = 100
"""


def write_pairs(root: Path, steps: int) -> Path:
    """Whether an animal makes a sound."""
    lines = []
    for i, (animal, _) in enumerate(SAME):
        for j, (_, sound) in enumerate(SAME):
            label = "true" if i == j else "false"
            lines += [f'{{"question": "does a {animal} {sound}", "passage": "{sound} indeed", "label": {label}}}\n']
    (root / "train.jsonl").write_text("".join(lines * 2), encoding="utf-8")
    path = root / "pairs.toml"
    path.write_text(RECIPE.format(root=root, steps=steps), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("pairs")
    train_reviews(write_pairs(place, steps=60), place / "run")
    return load(place / "run", "cpu")


def test_pairs_are_learnt_and_asked_with_a_tab(run: Run) -> None:
    _, (accuracy, _) = run.measure()[:2]
    assert accuracy.value == 100
    pairs = ["does a dog woof\twoof indeed", "does a dog moo\tmoo indeed", "does a dog woof", ""]
    answers = run.classify(pairs)
    assert [answer.label for answer in answers[:2]] == ["true", "false"]
    missing = "one of the two texts is empty (a tab separates them)"
    assert [answer.notes for answer in answers] == [[], [], [missing], ["empty"]]
    for pair, answer in zip(pairs, answers, strict=True):
        assert run.classify([pair])[0].probabilities == pytest.approx(answer.probabilities, abs=1e-5)


def test_vectors_of_a_framed_text(run: Run) -> None:
    """The first row is that of <s>, and is not that of the first word."""
    first, mean = (run.embed(["a dog", "a cat"], pooling) for pooling in ("first", "mean"))
    assert first.shape == mean.shape == (2, 32)
    assert abs(first - mean).max() > 1e-3
    assert run.embed([""], "first").any()  # <s> </s> has something to look at


def setup(folder: Path, **data: object) -> Setup:
    write_pairs(folder, steps=1)
    columns = ("question", "passage", "label")
    config = DataConfig(root=str(folder), train=("train.jsonl",), columns=columns, max_length=8, **data)  # type: ignore[arg-type]
    tokenizer = Tokenizer.train(Classification.texts(config), TokenizerConfig(kind="bpe", vocab_size=300))
    return Setup(
        data=config, tokenizer=tokenizer, dropout=0.0, cache=folder / "cache", seed=0, decoding=DecodingConfig()
    )


def test_a_pair_is_one_line_of_two_texts(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": "x\\ty", "b": "z\\tw", "c": 1}\n{"a": "", "b": "v", "c": 0}\n')
    found = read_labelled(("a.jsonl",), ("a", "b", "c"), tmp_path)
    assert found.texts == ["x y\tz\tw", "\tv"] and found.labels == ["1", "0"]


def test_documents_of_pairs_are_cut_and_sampled(tmp_path: Path) -> None:
    made = setup(tmp_path)
    labeled = labelled_parts(made.data).train
    framing = ClassificationConfig(framed=True).framing(made.tokenizer, made.data)
    for dropout in (0.0, 0.5):
        part = Documents(labeled, ("false", "true"), framing, replace(made, dropout=dropout), to_learn=True)
        batch = part.batch(np.arange(len(part)), epoch=1)
        assert batch.layout.longest == 8  # all are longer
        for ids in batch.tokens.split(batch.layout.lengths.tolist()):
            assert ids[0] == S and ids[-1] == E and (ids == E).sum() == 2
    assert part.notes.counts == {"cut to the first 8 tokens": 32}


def test_the_doctor_compares_pairs_with_training(tmp_path: Path) -> None:
    made = setup(tmp_path, test=("test.jsonl",))
    rows = [("does a cat meow", "meow indeed"), ("does a cat meow", "no"), ("why", "so")]
    lines = [f'{{"question": "{a}", "passage": "{b}", "label": true}}\n' for a, b in rows]
    (tmp_path / "test.jsonl").write_text("".join(lines), encoding="utf-8")
    task = Classification.make(ClassificationConfig(framed=True), made)
    found = {(row.part, row.what): row.value for row in task.inspect()}
    assert found["test", "also in training"] == "1"
    assert found["test", "question also in training"] == "2"
    assert found["test", "passage also in training"] == "1"
    assert found["train", "cut to the first 8 tokens"] == "32"
