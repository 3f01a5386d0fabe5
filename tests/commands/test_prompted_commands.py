"""A GPT that translates and an encoder-decoder that summarises, on the command line."""

import json
from pathlib import Path

import pytest
from calling import call

import regard as library
from regard.data.corpora.grammar import generate
from tests.drawn import covering_fast

RECIPE = """
[task]
{task}
validation_lines = 3

[data]
root = "{root}"
train = ["train.en", "train.fr"]
valid = ["valid.en", "valid.fr"]
test = ["valid.en", "valid.fr"]
max_length = {longest}
batch_tokens = 800

[tokenizer]
vocab_size = 400
extra = ["<to-fr>"]

[model]
architecture = "{architecture}"
d_model = 32
n_heads = 2
n_layers = 2
d_ff = 64
max_length = 96

[training]
steps = 12
warmup = 10
validate_every = 6
save_every = 6

[decoding]
beam = 2
extra_length = 8
length_ratio = 0.0
"""
RUNS = {
    "gpt": {"task": 'kind = "prompted"\ntoken = "<to-fr>"', "architecture": "stack", "longest": 40},
    "short": {"task": 'long = "cut"\nmetric = "rouge"', "architecture": "transformer", "longest": 40},
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small corpus and both runs."""
    place = tmp_path_factory.mktemp("desk")
    generate(2000).write(place / "all")
    for part, n in (("train", 200), ("valid", 6)):
        for language in ("en", "fr"):
            lines = (place / "all" / f"{part}.{language}").read_text(encoding="utf-8").splitlines()[:n]
            (place / f"{part}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, more in RUNS.items():
        (place / f"{name}.toml").write_text(RECIPE.format(root=place, **more), encoding="utf-8")
        trained = call(place, "train", f"{name}.toml", "--run", name, "--device", "cpu")
        assert trained.code == 0, trained.err
    return place


@pytest.mark.parametrize(("name", "verb"), covering_fast(RUNS, ["translate", "summarize"]))
def test_every_line_has_an_answer_the_same_in_python(desk: Path, name: str, verb: str) -> None:
    lines = ["The animal was tired.", "", "The street was wide. " * 20]
    outcome = call(desk, verb, name, "--device", "cpu", stdin="\n".join(lines).encode())
    assert outcome.code == 0, outcome.err
    answers = library.load(desk / name, "cpu").translate(lines)
    assert outcome.out.split("\n") == [*(answer.text.replace("\n", "\\n") for answer in answers), ""]
    assert ("cut after 40 tokens" if name == "short" else "split into") in outcome.err


def test_a_whole_file_is_one_text(desk: Path) -> None:
    asked = ("summarize", "short", "valid.en", "--json", "--device", "cpu")
    apart = call(desk, *asked).out.splitlines()
    [record] = [json.loads(line) for line in call(desk, *asked, "--whole").out.splitlines()]
    assert len(apart) == 6 and record["text"].count("\n") == 5
    assert "cut after 40 tokens" in record["notes"]


@pytest.mark.parametrize("name", RUNS)
def test_evaluate_has_bleu_and_for_summaries_rouge(desk: Path, name: str) -> None:
    report = json.loads(call(desk, "evaluate", name, "--json", "--device", "cpu").out)["runs"][0]
    names = [metric["name"] for metric in report["metrics"]]
    assert report["lines"] == 6 and "BLEU" in names
    assert ("ROUGE-L" in names) == (name == "short")


def test_score_of_the_gpts_own_answers_is_what_it_says(desk: Path) -> None:
    run = library.load(desk / "gpt", "cpu")
    answers = run.translate(["The animal was tired.", "It was wide."])
    said = [answer.parts[0][1] for answer in answers]
    scores = run.score(["The animal was tired.", "It was wide."], [answer.text for answer in answers])
    for hypothesis, row in zip(said, scores, strict=True):
        total = sum(row) if hypothesis.finished else sum(row[:-1])
        assert total == pytest.approx(hypothesis.log_prob, abs=1e-3)


def test_other_runs_do_not_translate(desk: Path) -> None:
    outcome = call(desk, "generate", "gpt", "The animal")
    assert (
        outcome.code == 1
        and "was trained to turn source into target and cannot generate; it can: translate" in outcome.err
    )


def test_source_and_target_are_looked_at_as_one_sequence(desk: Path) -> None:
    name = next(name for name, more in RUNS.items() if more["architecture"] == "stack")
    run = library.load(desk / name, "cpu")
    seen = run.look("The animal was tired.", "L'animal", layers=[0], heads=[0])
    assert [one.kind for one in seen.maps] == ["self"]
    said = "".join(seen.maps[0].keys)
    assert said.index("tired") < said.index(run.recipe.task.token) < said.index("L'animal")
