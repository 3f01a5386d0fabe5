"""regard tag and regard generate --label, as a user calls them."""

import json
from pathlib import Path

import pytest
from calling import call

TAGGER = """
[task]
kind = "{kind}"
{task}

[data]
train = ["train.txt"]
{data}
max_length = 12
batch_tokens = 200

[tokenizer]
kind = "spaces"
vocab_size = 40

[model]
architecture = "recurrent"
d_model = 8
d_hidden = 8
n_layers = 1

[training]
steps = 4
warmup = 1
"""
WRITER = """
[task]
kind = "label-to-text"

[data]
train = ["messages.tsv"]
columns = ["text", "label"]

[tokenizer]
kind = "spaces"
vocab_size = 40

[model]
architecture = "recurrent"
d_model = 8
d_hidden = 8
n_layers = 1

[training]
steps = 4
warmup = 1

[decoding]
sample = true
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger, a restorer and a writer that have learned next to nothing."""
    place = tmp_path_factory.mktemp("tagging")
    (place / "data").mkdir()
    (place / "data" / "train.txt").write_text("Ann D\nran V\n\nit D\n", encoding="utf-8")
    rows = [f"come home {i}\tham" if i % 2 else f"win cash {i}\tspam" for i in range(8)]
    (place / "data" / "messages.tsv").write_text("\n".join(["text\tlabel", *rows]), encoding="utf-8")
    recipes = {
        "tagger": TAGGER.format(kind="tagging", task='neutral = "D"', data='valid = ["train.txt"]'),
        "restorer": TAGGER.format(kind="restoration", task="", data='test = ["train.txt"]'),
        "writer": WRITER,
    }
    for name, recipe in recipes.items():
        (place / f"{name}.toml").write_text(recipe, encoding="utf-8")
        trained = call(place, "train", f"{name}.toml", "--run", name, "--device", "cpu")
        assert trained.code == 0, trained.err
    return place


def test_n_lines_in_n_lines_out(place: Path) -> None:
    lines = ["Ann ran", "", "it " * 30, "\u2028", "x"]
    told = call(place, "tag", "tagger", "--device", "cpu", stdin="\n".join(lines).encode())
    out = told.out.split("\n")
    assert told.code == 0 and len(out) == len(lines) + 1 and out[1] == out[3] == ""
    assert [pair.split("/")[0] for pair in out[0].split()] == ["Ann", "ran"]
    assert {pair.split("/")[1] for line in out for pair in line.split()} <= {"D", "V"}
    assert told.err == "line 3: split into 3\n"


def test_restored_text_has_the_words_that_were_given(place: Path) -> None:
    told = call(place, "tag", "restorer", "--device", "cpu", stdin=b"Ann RAN, it (seems)!\n\n")
    words = [word.strip(",.?!:;").lower() for word in told.out.split("\n")[0].split()]
    assert words == ["ann", "ran", "it", "seems"] and told.out.count("\n") == 2


def test_json_says_what_happened(place: Path) -> None:
    told = call(place, "tag", "tagger", "--json", "--device", "cpu", stdin=b"Ann ran\n\n")
    first, second = (json.loads(line) for line in told.out.splitlines())
    assert first["words"] == ["Ann", "ran"] and len(first["tags"]) == len(first["probabilities"]) == 2
    assert "numbers" not in first and "numbers" not in second
    assert first["line"] == 1 and second["notes"] == ["empty"] and second["tags"] == []


def test_evaluation_stands_beside_the_unigram_baseline(place: Path) -> None:
    told = call(place, "evaluate", "tagger", "--device", "cpu")
    assert told.code == 0 and "unigram baseline" in told.out and "the validation" in told.out
    figures = json.loads(call(place, "evaluate", "tagger", "--json", "--device", "cpu").out)["metrics"]
    found = {metric["name"]: metric["value"] for metric in figures}
    assert found["unigram baseline: accuracy"] == found["unigram baseline: micro F1"] == 100
    assert "without:D" in figures[0]["signature"]


def test_the_doctor_reports_tags(place: Path) -> None:
    told = call(place, "doctor", "tagger.toml", "--seconds", "0.1", "--device", "cpu")
    assert told.code == 0 and "tag D" in told.out and "2 (66.7 %)" in told.out


def test_a_label_is_enough_to_write(place: Path) -> None:
    told = call(place, "generate", "writer", "--label", "spam", "--length", "5", "--set", "n_best=3", "--device", "cpu")
    assert told.code == 0 and told.out.count("---") == 2
    begun = call(place, "generate", "writer", "come home", "--label", "ham", "--length", "5", "--device", "cpu")
    assert begun.out.startswith("come home")
    asked = call(place, "generate", "writer", "--label", "ham", "--json", "--length", "3", "--device", "cpu")
    assert json.loads(asked.out)["prompt"] == "" and len(json.loads(asked.out)["texts"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("generate", "writer", "x"), "writer was trained to write texts with a label (ham, spam): add --label"),
        (("generate", "writer", "--label", "eggs"), "there is no label 'eggs'; the labels are: ham, spam"),
        (
            ("generate", "tagger", "--label", "ham"),
            "--label: tagger was trained to tag the words of a sentence and does not write texts with a label",
        ),
        (("tag", "writer"), "was trained to write texts with a label (ham, spam) and cannot tag; it can: "),
    ],
)
def test_what_a_run_cannot_do(place: Path, arguments: tuple[str, ...], message: str) -> None:
    told = call(place, *arguments, "--device", "cpu", stdin=b"a line\n")
    assert told.code == 1 and message in told.err
