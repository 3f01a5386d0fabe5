"""Classification from the command line: a tiny corpus of three labels, a bag of words and a bidirectional LSTM."""

import json
import random
import shutil
from pathlib import Path

import pytest
from calling import Call, call

WORDS = {"down": ("sad", "grim"), "level": ("flat", "plain"), "up": ("glad", "bright")}
RECIPE = """
[task]
kind = "classification"

[data]
root = "{root}"
train = ["train.tsv"]
test = ["test.tsv"]
columns = ["text", "label"]
valid_share = 0.2
max_length = 12
batch_tokens = 100

[tokenizer]
kind = "spaces"
vocab_size = 40

[model]
architecture = "{architecture}"
{settings}

[training]
steps = 50
schedule = "constant"
learning_rate = 0.05
warmup = 5
validate_every = 50
save_every = 50
"""


def table(path: Path, rows: list[tuple[str, str]]) -> None:
    path.write_text("".join(f"{a}\t{b}\n" for a, b in [("text", "label"), *rows]), encoding="utf-8")


def texts(n: int) -> list[tuple[str, str]]:
    """Up to six words that tell nothing, and one that tells the label."""
    draw = random.Random(n)
    labels = [list(WORDS)[i % 3] for i in range(n)]
    filling = [" ".join(draw.choices(("the", "day", "was"), k=draw.randrange(7))) for _ in labels]
    return [(f"{some} {draw.choice(WORDS[label])}".strip(), label) for some, label in zip(filling, labels, strict=True)]


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.tsv, test.tsv, the recipes bag.toml and lstm.toml, and a trained run of each."""
    place = tmp_path_factory.mktemp("days")
    table(place / "train.tsv", [*texts(150), ("", "up")])
    table(place / "test.tsv", [*texts(29), ("", "down")])
    models = {
        "bag": ("bag", "n_features = 200"),
        "lstm": ("recurrent", "bidirectional = true\nd_model = 8\nd_hidden = 8\nn_layers = 1"),
    }
    for name, (architecture, settings) in models.items():
        recipe = RECIPE.format(root=place, architecture=architecture, settings=settings)
        (place / f"{name}.toml").write_text(recipe, encoding="utf-8")
        trained = call(place, "train", f"{name}.toml", "--run", name, "--device", "cpu")
        assert trained.code == 0, trained.err
    return place


def test_look_names_the_words_that_are_unknown(days: Path, regard: Call) -> None:
    looked = regard("look", days / "bag", "the quux was grim quux", "--device", "cpu")
    assert looked.code == 0 and "note: not in the vocabulary, read as unknown: 'quux'\n" in looked.err
    assert "note" not in regard("look", days / "bag", "the day was grim", "--device", "cpu").err


@pytest.mark.parametrize("run", ["bag", "lstm"])
def test_a_line_out_for_each_line_in(days: Path, regard: Call, run: str) -> None:
    lines = ["the day was grim", "", "bright", "\u2028glad\u0085 day", "\U0001f600", "the " * 20 + "flat"]
    ended = regard("classify", days / run, "--device", "cpu", stdin="".join(f"{line}\n" for line in lines).encode())
    assert ended.code == 0, ended.err
    labels = ended.out.split("\n")[:-1]
    assert len(labels) == len(lines) and set(labels) <= set(WORDS)
    assert (labels[0], labels[2], labels[3]) == ("down", "up", "up")
    assert ended.err.splitlines() == ["line 2: empty", "line 6: cut to the first 12 of 21 tokens"]


def test_json_has_all_probabilities_and_what_happened(days: Path, regard: Call) -> None:
    (days / "lines.txt").write_text("flat\n\n", encoding="utf-8")
    ended = regard("classify", days / "bag", days / "lines.txt", "--json")
    first, second = map(json.loads, ended.out.splitlines())
    assert (first["line"], first["text"], first["label"], first["notes"]) == (1, "flat", "level", [])
    assert first["probabilities"]["level"] == max(first["probabilities"].values())
    assert sum(first["probabilities"].values()) == pytest.approx(1)
    assert second["notes"] == ["empty"]
    ended = regard("classify", days / "bag", days / "lines.txt", "--probabilities")
    shown = [line.split("\t") for line in ended.out.splitlines()]
    assert [cell.split("=")[0] for cell in shown[0]] == ["level", "down", "level", "up"]
    assert float(shown[0][2].split("=")[1]) == pytest.approx(first["probabilities"]["level"], abs=1e-4)


def test_evaluate_says_who_was_taken_for_whom(days: Path, regard: Call) -> None:
    ended = regard("evaluate", days / "bag", "--json", "--picture", "p.png", "--outputs", days / "labels.txt")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    confusion = found["confusion"]
    assert sum(map(sum, confusion)) == 30 and found["notes"] == {"empty": 1}
    assert found["accuracy"]["value"] == pytest.approx(100 * sum(confusion[i][i] for i in range(3)) / 30)
    assert found["accuracy"]["value"] > 95 and len(found["accuracy"]["interval"]) == 2
    assert [row["label"] for row in found["labels"]] == ["down", "level", "up"]
    outputs = (days / "labels.txt").read_text(encoding="utf-8").splitlines()
    assert [outputs.count(row["label"]) for row in found["labels"]] == [row["n_predicted"] for row in found["labels"]]
    table_ = regard("evaluate", days / "bag", days / "test.tsv")
    for heading in ("precision", "recall", "F1", "true \\ predicted", "interval", "texts empty: 1"):
        assert heading in table_.out


@pytest.mark.slow  # drawn by Matplotlib
def test_a_picture_is_of_a_classifier(lab: Path, regard: Call) -> None:
    ended = regard("evaluate", lab / "one", "--picture", "p.png")
    assert ended.code == 1 and "--picture draws the confusion matrix" in ended.err


def test_labels_have_names_for_people(days: Path, regard: Call, tmp_path: Path) -> None:
    names = ["--set", 'task.labels=["down", "level", "up"]', "--set", 'task.names=["↓", "→", "↑"]']
    assert regard("train", days / "bag.toml", "--run", "named", *names, "--device", "cpu").code == 0
    assert regard("classify", tmp_path / "named", stdin=b"glad\n").out == "↑\n"
    assert "│ ↑" in regard("evaluate", tmp_path / "named").out


def test_without_test_files_the_share_held_out_is_tested(days: Path, regard: Call, tmp_path: Path) -> None:
    shared = ["--set", "data.test=[]", "--set", "data.test_share=0.3", "--run", "shared", "--device", "cpu"]
    table(tmp_path / "train.tsv", [(f"{text} {i}", label) for i, (text, label) in enumerate(texts(150))])
    trained = regard("train", days / "bag.toml", "--set", f"data.root={tmp_path}", *shared)
    assert trained.code == 0, trained.err
    found = json.loads(regard("evaluate", tmp_path / "shared", "--json").out)
    n = sum(map(sum, found["confusion"]))
    assert 25 < n < 65 and found["of"].startswith("30% of the examples")
    ended = regard("train", days / "bag.toml", "--set", "data.test=[]", "--run", "untested", "--device", "cpu")
    assert ended.code == 0
    ended = regard("evaluate", tmp_path / "untested")
    assert ended.code == 1 and "the recipe names no test files" in ended.err


# Mistakes and odd data.


@pytest.mark.parametrize(
    ("rows", "settings", "said"),
    [
        ([("a", "x"), ("b", "x")], [], "every example of train.tsv has the label 'x'"),
        ([("a", "x"), ("b", "y")], ['task.labels=["x", "y", "z"]'], "no example of train.tsv has the label 'z'"),
        ([("a", "x"), ("b", "z")], ['task.labels=["x", "y"]'], "no example of train.tsv has the label 'y'"),
        ([("a", "x"), ("b", "y"), ("c", "w")], ['task.labels=["x", "y"]'], "train.tsv:4 has the label 'w'"),
        ([("a", "x"), ("b", "")], [], "train.tsv:3 has no label"),
        ([("", "x"), ("", "y")], [], "lines are empty"),
        ([], [], "no lines at all"),
        ([("a", "x"), ("b", "y")], ["model.architecture=markov"], "cannot do the task 'classification'"),
        ([("a", "x"), ("b", "y")], ["data.columns=['text']"], "labeled text has two columns (text, label)"),
        ([("a", "x"), ("b", "y")], ["data.valid_share=0.5"], "too few to hold out 0.5 of them"),
    ],
)
def test_data_that_cannot_be_learned_is_said_clearly(
    days: Path, regard: Call, tmp_path: Path, rows: list[tuple[str, str]], settings: list[str], said: str
) -> None:
    table(tmp_path / "train.tsv", rows)
    changes = [f"data.root={tmp_path}", "data.valid_share=0.0", *settings]
    ended = regard("train", days / "bag.toml", *(part for each in changes for part in ("--set", each)))
    assert ended.code == 1 and said in ended.err and ended.err.startswith("error: ")
    assert "Traceback" not in ended.err and "bug in regard" not in ended.err


@pytest.mark.parametrize("command", ["evaluate", "doctor"])
def test_a_label_that_only_the_test_file_has(days: Path, regard: Call, tmp_path: Path, command: str) -> None:
    shutil.copy(days / "train.tsv", tmp_path / "train.tsv")
    table(tmp_path / "test.tsv", [("glad", "up"), ("stormy", "sideways")])
    what = ["--root", tmp_path] if command == "evaluate" else ["--set", f"data.root={tmp_path}"]
    ended = regard(command, days / "bag" if command == "evaluate" else days / "bag.toml", *what)
    said = "test.tsv:3 has the label 'sideways', which training does not have; it has: down, level, up"
    assert ended.code == 1 and said in ended.err


@pytest.mark.sampled("every case is a run of the command of its own")
@pytest.mark.parametrize("name", ["bag", "lstm"])
def test_texts_of_one_token_and_of_none(days: Path, regard: Call, tmp_path: Path, name: str) -> None:
    table(tmp_path / "train.tsv", [("yes", "y"), ("no", "n"), ("", "n"), ("yes", "y"), ("no", "n")])
    table(tmp_path / "test.tsv", [("yes", "y"), ("", "n"), ("no", "n")])
    settings = ["--set", f"data.root={tmp_path}", "--set", "data.valid_share=0.0", "--device", "cpu"]
    trained = regard("train", days / f"{name}.toml", *settings, "--run", "short")
    assert trained.code == 0 and "dropped: empty line: 1 (first at train.tsv:4)" in trained.out
    found = json.loads(regard("evaluate", tmp_path / "short", "--json").out)
    assert found["confusion"][1] == [0, 1] and found["confusion"][0][0] >= 1  # the empty one may be either


def test_only_a_classifier_classifies(lab: Path, days: Path, regard: Call) -> None:
    ended = regard("classify", lab / "one", stdin=b"dog\n")
    assert (
        ended.code == 1 and "was trained to turn source into target and cannot classify; it can: translate" in ended.err
    )
    ended = regard("translate", days / "bag", stdin=b"glad\n")
    assert (
        ended.code == 1
        and "was trained to predict the label of a text (down, level, up) and cannot translate" in ended.err
    )


# The doctor.


@pytest.mark.sampled("every case is a run of the command of its own")
@pytest.mark.parametrize("name", ["bag", "lstm"])
def test_the_doctor_looks_at_labeled_data(days: Path, regard: Call, tmp_path: Path, name: str) -> None:
    table(
        tmp_path / "train.tsv", [*texts(90), ("the day", "up"), ("The  day", "down"), ("was " * 30, "up"), ("", "up")]
    )
    table(tmp_path / "test.tsv", [("unheard", "up"), ("the day", "up")])
    settings = ["--set", f"data.root={tmp_path}", "--set", "data.valid_share=0.0", "--device", "cpu"]
    ended = regard("doctor", days / f"{name}.toml", *settings, "--seconds", "0.5")
    assert ended.code == 0, ended.err
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in ended.out.splitlines() if "│" in line]
    found = {(row[0], row[1]): tuple(row[2:]) for row in rows if len(row) == 4}
    assert found["train", "examples"] == ("94", "")
    assert found["train", "label down"] == ("31 (33.0%)", "")
    assert found["train", "an earlier text with another label"] == ("1", "train.tsv:93")
    assert found["train", "cut to the first 12 tokens"] == ("1", "train.tsv:94")
    assert found["train", "dropped: empty line"] == ("1", "train.tsv:95")
    assert found["test", "also in training"] == ("1", "test.tsv:3")
    assert found["test", "text: unknown to the tokenizer"] == ("1: unheard 1", "test.tsv:2")
    assert "samples ÷" in ended.out and "a bag of bigrams is hard to beat" in ended.out
    assert "one batch by heart" in ended.out


@pytest.mark.sampled("every case is a run of the command of its own")
@pytest.mark.parametrize("architecture", ["markov", "recurrent"])
def test_the_doctor_looks_at_running_text(regard: Call, tmp_path: Path, architecture: str) -> None:
    (tmp_path / "train.txt").write_text("a b a b\n\n" * 30, encoding="utf-8")
    (tmp_path / "test.txt").write_text("a b\nc é\n", encoding="utf-8")
    small = "" if architecture == "markov" else "d_model = 16\nd_hidden = 16\nn_layers = 1"
    (tmp_path / "text.toml").write_text(
        "[task]\nkind = 'language'\nunit = 'lines'\n[data]\nroot = '.'\ntrain = ['train.txt']\ntest = ['test.txt']\n"
        f"[tokenizer]\nkind = 'spaces'\nvocab_size = 20\n[model]\narchitecture = '{architecture}'\n{small}",
        encoding="utf-8",
    )
    ended = regard("doctor", "text.toml", "--device", "cpu", "--seconds", "0.5")
    assert ended.code == 0, ended.err
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in ended.out.splitlines() if "│" in line]
    found = {(row[0], row[1]): tuple(row[2:]) for row in rows if len(row) == 4}
    assert found["train", "lines, bytes"] == ("60, 270", "")
    assert found["train", "text: words, tokens"] == ("120, 120", "")
    assert found["train", "empty lines"] == ("30", "train.txt:2")
    assert found["test", "text: unknown to the tokenizer"] == ("2: c 1, é 1", "test.txt:2")
    assert found["test", "text: characters not in training"] == ("2: c 1, é 1", "test.txt:2")
    if architecture == "markov":
        assert "there is no fit to try" in ended.out
    else:
        assert "one batch by heart" in ended.out


def test_two_classifiers_are_evaluated_one_at_a_time(days: Path, lab: Path, regard: Call) -> None:
    ended = regard("evaluate", days / "bag", days / "lstm", "--device", "cpu")
    assert ended.code == 1 and "runs of this task are evaluated one at a time" in ended.err
    ended = regard("evaluate", days / "bag", lab / "one", "--device", "cpu")
    assert ended.code == 1 and "were trained for different tasks and cannot be compared" in ended.err
