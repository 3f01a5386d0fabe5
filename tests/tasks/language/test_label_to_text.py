"""Writing from a label: the label decides what is written, by every causal reader."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_reviews import CPU, reviews, train_reviews, write_table

from regard.decoding.config import DecodingConfig
from regard.errors import ConfigError, DataError, RegardError, RunError
from regard.models.conditioned import LabelBeside, LabelFirst
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.nn.layout import Ragged
from regard.nn.recurrent import CELLS
from regard.runs.recipe import Recipe
from regard.runs.run import Run, load
from regard.runs.weights import weights_of
from regard.tasks.language.label_to_text import LabelToTextConfig, conditioned_batch
from regard.text.words import END
from regard.training.prepare import prepare
from tests.drawn import some_fast

KINDS = {"bad": ("awful", "dull", "weak"), "good": ("great", "fine", "superb")}
SMALL = {"vocab_size": 10, "d_model": 8, "d_hidden": 8, "n_layers": 1}
MODELS = {
    "recurrent": [
        *("d_model = 24", "d_hidden = 32", "n_layers = 1", "max_length = 64", "dropout = 0.0"),
        "embedding_dropout = 0.1",
    ],
    "convolutional": [
        "d_model = 16",
        "n_layers = 3",
        "kernel = 7",
        "max_length = 64",
        "dropout = 0.1",
    ],  # 19 tokens far
    "stack": ["d_model = 24", "n_heads = 2", "n_layers = 1", "d_ff = 48", "max_length = 64", "dropout = 0.0"],
}
WAYS = {**{name: (name, ()) for name in MODELS}, "beside": ("recurrent", ("task.d_vector=8",))}
RECIPE = """
[task]
kind = "label-to-text"

[data]
root = "{root}"
train = ["train.tsv"]
columns = ["text", "label"]
valid_share = 0.1
test_share = 0.1
max_length = 20
batch_tokens = 200

[tokenizer]
kind = "spaces"
vocab_size = 60

[model]
architecture = "{architecture}"
{settings}

[training]
steps = 120
schedule = "linear"
learning_rate = 0.02
warmup = 5
validate_every = 60
save_every = 60

[decoding]
sample = true
"""


def write_recipe(root: Path, architecture: str = "recurrent") -> Path:
    write_table(root / "train.tsv", reviews(300, seed=0))
    path = root / f"{architecture}.toml"
    settings = "\n".join(MODELS[architecture])
    path.write_text(RECIPE.format(root=root, architecture=architecture, settings=settings), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=some_fast(WAYS, every=4))  # a training each
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp(request.param)
    architecture, overrides = WAYS[request.param]
    train_reviews(write_recipe(place, architecture), place / "run", *overrides)
    return load(place / "run", "cpu")


def kind_of(text: str) -> str:
    """Which label the telling word of a text has; "" without one, or with two that differ."""
    found = {label for label, telling in KINDS.items() if set(telling) & set(text.split())}
    return found.pop() if len(found) == 1 else ""


@pytest.mark.slow  # a whole training
def test_the_label_decides_what_is_written(run: Run) -> None:
    many = DecodingConfig(sample=True, n_best=40, temperature=0.7)
    for label in ("bad", "good"):
        texts = [written.text for written in run.generate_as(label, [""], 25, many)[0]]
        kinds = [kind_of(text) for text in texts]
        other = {"bad": "good", "good": "bad"}[label]
        assert kinds.count(label) > 20 and kinds.count(other) <= 4
        assert len(set(texts)) > 20


@pytest.mark.slow  # a whole training
def test_a_text_is_more_probable_with_its_own_label(run: Run) -> None:
    what, metrics = run.measure()[:2]
    found = {metric.name: metric.value for metric in metrics}
    assert what == "10% of the examples, held out" and found["perplexity"] < 20
    assert found["most probable with its own label, %"] > 80


def test_a_prompt_is_how_a_text_begins(run: Run) -> None:
    written = run.generate_as("bad", ["the plot", ""], 10)
    assert written[0][0].whole.startswith("the plot ") and len(written) == 2
    assert not written[0][0].text.startswith("the plot")


def test_a_prompt_too_long_for_the_model_is_read_from_its_end_and_said(run: Run) -> None:
    limit = run.model.config.max_length
    long = "the plot " * limit + "was"
    (written,) = run.generate_as("bad", [long], 5, DecodingConfig())[0]
    n_tokens = len(run.tokenizer.encode(long))
    assert written.notes == (f"too long: only its last {limit - 5:,} of {n_tokens:,} tokens were read",)
    assert run.generate_as("bad", ["zzz qqq"])[0][0].notes[0].startswith("unknown: ")


def test_samples_fit_a_small_model(tmp_path: Path) -> None:
    small = ["model.max_length=12", "data.max_length=11", "task.sample_length=60", "training.steps=60"]
    result = train_reviews(write_recipe(tmp_path), tmp_path / "run", *small)
    assert result.steps == 60
    assert len(load(tmp_path / "run", "cpu").generate_as("bad")[0]) == 1


def test_one_label_alone_as_in_a_batch(run: Run) -> None:
    """The prompt beside it changes nothing, nor does where it stands."""
    greedy = DecodingConfig()
    together = run.generate_as("good", ["", "the film was"], 12, greedy)
    for prompt, (beside,) in zip(("", "the film was"), together, strict=True):
        (alone,) = run.generate_as("good", [prompt], 12, greedy)[0]
        assert alone.text == beside.text and alone.log_prob == pytest.approx(beside.log_prob, abs=1e-4)


def test_writing_is_as_probable_as_it_was_learnt(run: Run) -> None:
    """log P of a written text, step by step, is that of the whole sequence behind its label."""
    (written,) = run.generate_as("bad", [""], 40, DecodingConfig())[0]
    ids = np.array(run.tokenizer.encode(written.text))
    assert written.finished
    is_beside = run.task.config.d_vector > 0
    batch = conditioned_batch([ids], np.array([0]), [""], run.tokenizer.vocab_size, END, 50, is_beside)
    with torch.no_grad():
        nats = float(run.model.nats(batch.tokens, batch.labels, batch.layout))
    assert written.log_prob == pytest.approx(-nats, abs=1e-4)


def test_no_label_can_be_written(run: Run) -> None:
    vocab_size = run.tokenizer.vocab_size
    n_vectors = len(run.model.reader.word_table)
    assert n_vectors == vocab_size + (0 if run.task.config.d_vector else 2)
    assert len(run.model.output_table) == vocab_size


def test_a_batch_has_the_label_first_and_no_end_where_a_text_was_cut() -> None:
    texts = [np.array([7, 8]), np.array([9, 7, 8])]
    batch = conditioned_batch(texts, np.array([1, 0]), ["a", "b"], 10, END, max_length=3)
    assert batch.tokens.tolist() == [11, 7, 8, 10, 9, 7]
    assert batch.labels.tolist() == [7, 8, END, 9, 7, 8]
    assert batch.layout.lengths.tolist() == [3, 3]
    beside = conditioned_batch(texts, np.array([1, 0]), ["a", "b"], 10, END, 3, is_beside=True)
    assert beside.tokens.tolist() == [21, 18, 19, 10, 9, 7]  # 11 ids a label, of which the last is no word
    assert beside.labels.tolist() == batch.labels.tolist()


@pytest.mark.parametrize("cell", CELLS)
def test_the_vector_is_read_beside_every_token_as_the_equation_says(cell: str) -> None:
    """h_t = f([x; y_{t-1}], h_{t-1}), y_0 = 0."""
    torch.manual_seed(0)
    model = LabelBeside(Recurrent(RecurrentConfig(**SMALL, cell=cell, dropout=0.0)), n_labels=3, d_vector=5).eval()
    batch = conditioned_batch([np.array([7, 8, 9]), np.array([4])], np.array([2, 0]), ["", ""], 10, END, 20, True)
    vectors, words, layer = model.embedding.labels.weight, model.embedding.vectors, model.reader.stack.forwards[0]
    expected = []
    for label, text in ((2, [7, 8, 9]), (0, [4])):
        state = layer.zero_state(1, words)
        for y in (torch.zeros(8), *words[text]):
            state = layer.step(torch.cat([vectors[label], y])[None], state, layer.weights())
            expected.append(state[0, 0])
    torch.testing.assert_close(model(batch.tokens, batch.layout), torch.stack(expected), atol=1e-6, rtol=1e-5)


def test_only_a_recurrent_model_reads_a_vector_beside_every_token(tmp_path: Path) -> None:
    recipe = Recipe.read(str(write_recipe(tmp_path, "stack")), ["task.d_vector=8"])
    with pytest.raises(ConfigError, match="only a recurrent model reads a vector beside every token"):
        prepare(recipe, tmp_path / "run", resume=False)


def test_the_vectors_of_labels_are_learnt_and_those_of_others_stay() -> None:
    torch.manual_seed(0)
    reader = Recurrent(RecurrentConfig(**SMALL))
    before = reader.embedding.weight.detach().clone()
    model = LabelFirst(reader, n_labels=3)
    assert torch.equal(reader.embedding.weight[:10], before)
    model.nats(torch.tensor([model.first(1), 5]), torch.tensor([5, END]), Ragged([2])).backward()
    moved = reader.embedding.weight.grad.abs().sum(1) > 0
    assert moved[10:].tolist() == [False, True, False]
    with pytest.raises(RegardError, match="there is no label 3; the model has 3"):
        model.first(3)


@pytest.mark.slow  # trainings; tests/pairs resumes every task
@pytest.mark.parametrize("own_words", [0.0, 0.5])
def test_a_resumed_run_is_the_same_to_the_bit(own_words: float, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    settings = ["training.save_every=10", "training.validate_every=10", "training.schedule=constant"]
    settings += [f"task.own_words={own_words}", "task.own_words_steps=15"]
    train_reviews(recipe, tmp_path / "whole", *settings, "training.steps=20")
    train_reviews(recipe, tmp_path / "parted", *settings, "training.steps=10")
    train_reviews(recipe, tmp_path / "parted", "training.steps=20", resume=True)
    first, second = (weights_of(load(tmp_path / name, "cpu").model) for name in ("whole", "parted"))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_mistakes_are_said(run: Run, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="there is no label 'ugly'; the labels are: bad, good"):
        run.generate_as("ugly")
    with pytest.raises(RunError, match=r"texts with a label \(bad, good\) and cannot generate; it can: generate_as, "):
        run.generate(["x"])
    with pytest.raises(ConfigError, match="labels must be at least two, sorted"):
        LabelToTextConfig(labels=("good", "bad"))
    with pytest.raises(ConfigError, match="metric must be loss"):
        LabelToTextConfig(metric="accuracy")
    recipe = write_recipe(tmp_path)
    with pytest.raises(ConfigError, match="must not see the future"):
        prepare(Recipe.read(str(recipe), ["model.bidirectional=true"]), tmp_path / "both")
    write_table(tmp_path / "train.tsv", [(f"text {i}", "good") for i in range(40)])
    with pytest.raises(DataError, match=r"every example of train\.tsv has the label 'good'"):
        prepare(Recipe.read(str(recipe)), tmp_path / "one")


def test_the_doctor_has_a_batch_and_a_report(tmp_path: Path) -> None:
    prepared = prepare(Recipe.read(str(write_recipe(tmp_path))), tmp_path / "run")
    batch = prepared.task.small_batch(100).to(CPU)
    assert 0 < batch.n_tokens <= 140
    assert {row.part for row in prepared.task.inspect()} == {"train", "valid", "test"}


def test_every_label_has_a_row_of_its_own() -> None:
    reader = Recurrent(RecurrentConfig(vocab_size=20, d_model=8, d_hidden=8, n_layers=1))
    conditioned = LabelToTextConfig(labels=("bad", "fair", "good")).build(reader)
    assert conditioned.n_labels == 3 and conditioned.reader.word_table.shape[0] == 20 + 3
