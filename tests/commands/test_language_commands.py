"""Language models on the command line: train, evaluate, generate, score, neighbors, show; and after loading."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from calling import Call, call

import regard as library
from regard.data.corpora.grammar import generate
from regard.text import Tokenizer

RECIPE = """
[data]
root = "{root}"
train = ["train.txt"]
valid = ["valid.txt"]
batch_tokens = 400

[training]
steps = 12
warmup = 2
schedule = "constant"
learning_rate = 0.01
validate_every = 6
save_every = 6
compile = "off"

[task]
kind = "language"
sample_length = 5
"""
MODELS = {  # what is added to the recipe
    "trigram": 'unit = "lines"\n[tokenizer]\nkind = "spaces"\n[model]\narchitecture = "markov"\norder = 2\n',
    "chain": 'unit = "text"\ncarry = true\nwindow = 20\n[tokenizer]\nkind = "characters"\n'
    '[model]\narchitecture = "markov"\norder = 4\n',
    "lstm": 'unit = "text"\ncarry = true\nwindow = 20\n[tokenizer]\nkind = "characters"\n'
    '[model]\narchitecture = "recurrent"\nd_model = 16\nd_hidden = 16\n[decoding]\nsample = true\n',
    "stack": 'unit = "stream"\nwindow = 24\n[tokenizer]\nkind = "spaces"\n'
    '[model]\narchitecture = "stack"\nd_model = 16\nn_heads = 2\nn_layers = 2\nd_ff = 32\nmax_length = 24\n',
}
LONG = "the animal crossed the street because it was " * 5


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.txt, valid.txt and a run of every model."""
    place = tmp_path_factory.mktemp("desk")
    generate(2000).write(place / "data")
    for name, n in (("train", 300), ("valid", 12)):
        lines = (place / "data" / f"{name}.en").read_text(encoding="utf-8").splitlines()[:n]
        (place / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, more in MODELS.items():
        extra = "max_length = 20\n" if name == "stack" else ""
        recipe = RECIPE.format(root=place).replace("batch_tokens", f"{extra}batch_tokens")
        (place / f"{name}.toml").write_text(recipe + more, encoding="utf-8")
        trained = call(place, "train", f"{name}.toml", "--run", name, "--device", "cpu")
        assert trained.code == 0, trained.err
    return place


@pytest.fixture
def at(desk: Path) -> Callable[..., str]:
    """The command line at the desk, which must not fail -> what it wrote."""

    def run(*arguments: str | Path, stdin: bytes = b"") -> str:
        outcome = call(desk, *arguments, stdin=stdin)
        assert outcome.code == 0, outcome.err
        return outcome.out

    return run


@pytest.mark.sampled("every case is a run of the command of its own")
@pytest.mark.parametrize("name", MODELS)
def test_evaluate_says_the_same_as_training_and_in_python(desk: Path, at: Call, name: str) -> None:
    report = json.loads(at("evaluate", name, "--json", "--device", "cpu"))
    found = {metric["name"]: metric["value"] for metric in report["metrics"]}
    assert report["of"] == "the validation text"
    rows = [json.loads(line) for line in (desk / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    best = min(row["loss"] for row in rows if row["kind"] == "valid")
    tolerance = 0.2 if "carry" in MODELS[name] else 1e-5  # ten columns in training, one here
    assert found["loss"] == pytest.approx(best, rel=tolerance)
    text = (desk / "valid.txt").read_text(encoding="utf-8")
    unit = "text" if '"text"' in MODELS[name] else "lines"
    n = len(text) if unit == "text" else len(text.split()) + 12
    assert f"n:{n}|" in report["metrics"][0]["signature"]
    assert found["bits_per_byte"] == pytest.approx(found["loss"] * n / math.log(2) / len(text.encode()))
    assert found["word_perplexity"] == pytest.approx(math.exp(found["loss"] * n / (len(text.split()) + 12)))
    (desk / "copy.txt").write_text(text, encoding="utf-8")
    again = json.loads(at("evaluate", name, "copy.txt", "--json", "--device", "cpu"))
    assert again["of"] == "copy.txt" and again["metrics"] == report["metrics"]
    assert "bits_per_byte" in at("evaluate", name, "--device", "cpu")
    _, metrics = library.load(desk / name, "cpu").measure()[:2]
    assert {metric.name: metric.value for metric in metrics} == pytest.approx(found)


@pytest.mark.parametrize("name", MODELS)
def test_generate_is_the_same_however_a_prompt_comes(desk: Path, at: Call, name: str) -> None:
    prompts = ["the animal", "", "the street was"]
    (desk / "prompts.txt").write_text("\n".join(prompts) + "\n", encoding="utf-8")
    lines = at("generate", name, "--file", "prompts.txt", "--length", "9", "--device", "cpu")
    assert lines.count("\n") == 3
    assert at("generate", name, "--length", "9", "--device", "cpu", stdin=(desk / "prompts.txt").read_bytes()) == lines
    given = [at("generate", name, prompt, "--length", "9", "--device", "cpu") for prompt in prompts]
    assert [text.removesuffix("\n").replace("\n", "\\n") for text in given] == lines.splitlines()
    for prompt, line in zip(prompts, lines.splitlines(), strict=True):
        assert line.startswith(prompt) and line != prompt
    tokenizer = Tokenizer.load(desk / name)
    records = [
        json.loads(line)
        for line in at("generate", name, *prompts, "--length", "9", "--json", "--device", "cpu").splitlines()
    ]
    for prompt, record in zip(prompts, records, strict=True):
        [best] = record["texts"]
        assert record["prompt"] == prompt and record["notes"] == [] and best["log_prob"] < 0
        n = len(tokenizer.encode(best["text"]))
        assert n <= 9 and best["finished"] == (n < 9)
        assert n == 9 or "text" not in MODELS[name].split("\n")[0]  # a text has no end of its own


@pytest.mark.parametrize("name", ["trigram", "lstm"])
def test_generate_gives_the_n_best(at: Call, name: str) -> None:
    way = "sample=true" if name == "lstm" else "beam=3"
    settings = ("--set", way, "--set", "n_best=3", "--length", "6", "--device", "cpu")
    [record] = [json.loads(line) for line in at("generate", name, "the", "--json", *settings).splitlines()]
    assert len(record["texts"]) == 3
    assert at("generate", name, "the", *settings).count("---\n") == 2
    assert at("generate", name, *settings, stdin=b"the\n").count("\n") == 1


@pytest.mark.parametrize("name", MODELS)
def test_a_stream_is_the_text_and_ends_before_a_stop(at: Call, name: str) -> None:
    asked = ("--length", "12", "--set", "sample=true", "--device", "cpu")
    [whole] = at("generate", name, "the animal", *asked).splitlines() or [""]
    assert at("generate", name, "the animal", *asked, "--stream").splitlines() == [whole]
    written = whole.removeprefix("the animal")
    stop = written[len(written) // 2 :][:2]
    short = "the animal" + written[: written.index(stop)]
    assert stop
    for more in ((), ("--stream",)):
        assert at("generate", name, "the animal", *asked, "--stop", stop, *more).removesuffix("\n") == short


def test_a_stream_says_what_happened_to_its_prompt(desk: Path) -> None:
    long = "the animal " * 300
    for more in ((), ("--stream",)):
        outcome = call(
            desk, "generate", "stack", long, "--length", "3", "--set", "sample=true", "--device", "cpu", *more
        )
        assert outcome.code == 0 and "prompt 1: too long: only its last" in outcome.err


def test_a_beam_streams_what_it_writes(desk: Path) -> None:
    asked = ("--length", "9", "--set", "beam=3", "--device", "cpu")
    streamed, whole = (call(desk, "generate", "stack", "the animal", *more, *asked) for more in (["--stream"], []))
    assert streamed.code == 0 and streamed.out == whole.out


def test_what_cannot_be_streamed_shows_nothing(desk: Path) -> None:
    asked = ("--length", "9", "--set", "beam=3", "--set", "n_best=2", "--device", "cpu")
    outcome = call(desk, "generate", "stack", "the animal", "--stream", *asked)
    assert outcome.code == 1 and outcome.out == "" and "got 2" in outcome.err


def test_log_probabilities_of_tokens_are_those_of_the_text(at: Call) -> None:
    asked = ("--length", "9", "--samples", "3", "--logprobs", "2", "--json", "--device", "cpu")
    record = json.loads(at("generate", "stack", "the animal", *asked))
    assert len(record["texts"]) == 3
    for text in record["texts"]:
        total = sum(token["log_prob"] for token in text["tokens"])
        assert total == pytest.approx(text["log_prob"], abs=1e-3) or (text["finished"] and total > text["log_prob"])
        assert all(len(token["likeliest"]) == 2 for token in text["tokens"])


@pytest.mark.parametrize("options", [("--logprobs", "2"), ("--stream", "--json"), ("--stream", "--samples", "2")])
def test_generate_refuses_what_it_would_ignore(desk: Path, options: tuple[str, ...]) -> None:
    outcome = call(desk, "generate", "stack", "the animal", *options)
    assert outcome.code == 1 and "--json" in outcome.err


def test_prompts_that_a_model_cannot_read_whole(desk: Path, regard: Call) -> None:
    told = regard("generate", desk / "stack", LONG, "the zebra", "--length", "8", "--json", "--device", "cpu")
    long, unknown = (json.loads(line) for line in told.out.splitlines())
    assert long["notes"] == ["too long: only its last 17 of 40 tokens were read"]
    assert unknown["notes"] == ["unknown: 'zebra'"]
    assert told.err.splitlines() == [
        "prompt 1: too long: only its last 17 of 40 tokens were read",
        "prompt 2: unknown: 'zebra'",
    ]
    end = " ".join(LONG.split()[-17:])
    [[same]] = library.load(desk / "stack", "cpu").generate([end], 8)
    assert same.text != "" and same.notes == ("too long: only its last 17 of 17 tokens were read",)
    assert long["texts"][0]["text"] == same.text
    by_itself = regard("generate", desk / "stack", "the", "--json", "--device", "cpu")  # half of the model's 24
    assert by_itself.code == 0
    [[asked]] = library.load(desk / "stack", "cpu").generate(["the"], 12)
    assert json.loads(by_itself.out)["texts"][0]["text"] == asked.text
    refused = regard("generate", desk / "stack", "the", "--length", "25", "--device", "cpu")
    assert refused.code == 1 and "25 tokens do not fit the model's 24; ask for fewer" in refused.err
    both = regard("generate", desk / "stack", "the", "--file", "prompts.txt")
    assert both.code == 1 and "not both" in both.err
    characters = regard("generate", desk / "chain", "日本 the 日", "--length", "3", "--device", "cpu")
    assert characters.code == 0 and characters.err == "prompt 1: unknown: '日' '本'\n"


@pytest.mark.parametrize("name", MODELS)
def test_score_has_an_answer_for_every_line(desk: Path, at: Call, name: str) -> None:
    lines = ["the animal crossed the street", "", LONG.strip(), "zebras"]
    stdin = "".join(line + "\n" for line in lines).encode()
    totals = [float(line) for line in at("score", name, "--device", "cpu", stdin=stdin).splitlines()]
    assert len(totals) == 4 and all(math.isfinite(total) and total <= 0 for total in totals)
    (desk / "lines.txt").write_bytes(stdin)
    records = [json.loads(r) for r in at("score", name, "lines.txt", "--json", "--device", "cpu").splitlines()]
    tokenizer, ends = Tokenizer.load(desk / name), [] if '"text"' in MODELS[name] else ["</s>"]
    for line, total, record in zip(lines, totals, records, strict=True):
        assert record["tokens"] == [*tokenizer.tokens(tokenizer.encode(line)), *ends]
        assert len(record["log_probs"]) == len(record["tokens"])
        assert sum(record["log_probs"]) == record["log_prob"] == pytest.approx(total, abs=1e-4)
    assert library.load(desk / name, "cpu").score_texts(lines) == [r["log_probs"] for r in records]


@pytest.mark.parametrize("name", ["trigram", "stack"])
def test_the_scores_of_lines_are_what_evaluate_counts(desk: Path, at: Call, name: str) -> None:
    text = (desk / "valid.txt").read_bytes()
    total = sum(float(line) for line in at("score", name, "--device", "cpu", stdin=text).splitlines())
    loaded = library.load(desk / name, "cpu")
    if name == "trigram":
        loss = json.loads(at("evaluate", name, "--json", "--device", "cpu"))["metrics"][0]["value"]
        assert -total / (len(text.split()) + 12) == pytest.approx(loss, rel=1e-4)
    [[best]] = loaded.generate(["the animal"], 6)
    if best.finished:
        whole = loaded.score_texts([best.whole])[0]
        assert sum(whole[2:]) == pytest.approx(best.log_prob, abs=1e-4)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--set", "beam=2"), "--set changes how translations and captions are decoded; "),
        (("--outputs", "out.txt"), "--outputs writes translations, captions or labels; "),
    ],
)
def test_evaluate_refuses_what_it_would_ignore(desk: Path, regard: Call, option: tuple[str, str], message: str) -> None:
    told = regard("evaluate", desk / "trigram", *option)
    assert told.code == 1 and message in told.err and "was trained to write text" in told.err


def test_score_says_which_words_are_unknown(desk: Path, regard: Call) -> None:
    told = regard("score", desk / "trigram", "--device", "cpu", stdin=b"the animal\n\nthe xyzzy animal\n")
    assert told.code == 0 and len(told.out.splitlines()) == 3 and told.err == "line 3: unknown: 'xyzzy'\n"


def test_score_asks_a_translator_for_two_files(desk: Path, lab: Path, regard: Call) -> None:
    told = regard("score", lab / "one", desk / "valid.txt")
    assert told.code == 1 and "translates: give the sources and their translations, as two files" in told.err
    told = regard("score", desk / "lstm", desk / "valid.txt", desk / "valid.txt")
    assert told.code == 1 and "scores texts by themselves: give one file" in told.err


def test_show_of_a_count_says_what_it_holds(at: Call) -> None:
    shown = at("show", "trigram")
    assert "by counting" in shown and "predictor.levels.2.counts" in shown
    assert "reader.blocks.0-1.attention.to_queries" in at("show", "stack")


def test_neighbors_of_a_reader_and_of_a_model_that_counts(desk: Path, at: Call, regard: Call) -> None:
    assert at("neighbors", "stack", "the", "-n", "3").count("0.") + at("neighbors", "lstm", "t").count("0.") > 3
    told = regard("neighbors", desk / "trigram", "the")
    assert told.code == 1 and "has no embeddings" in told.err


def test_a_stopped_count_is_counted_again(desk: Path, at: Call, regard: Call) -> None:
    weights = desk / "trigram" / "model.safetensors"
    before = weights.read_bytes()
    refused = regard("train", desk / "trigram.toml", "--run", desk / "trigram", "--device", "cpu")
    assert refused.code == 1 and "already holds a run" in refused.err
    weights.unlink()
    at("train", "trigram", "--resume", "--device", "cpu")
    assert weights.read_bytes() == before
    assert len((desk / "trigram" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()) == 1


def test_a_count_refuses_the_smoothing_of_labels(desk: Path, regard: Call, tmp_path: Path) -> None:
    told = regard("train", desk / "trigram.toml", "--set", "task.smoothing=0.1", "--run", tmp_path, "--device", "cpu")
    assert told.code == 1 and "for counts set model.smoothing" in told.err


def test_a_draft_run_proposes_and_the_answers_stay(desk: Path, at: Call) -> None:
    run, draft, prompts = library.load(desk / "stack", "cpu"), library.load(desk / "trigram", "cpu"), ["the", "it was"]
    assert run.generate(prompts, 9, draft=draft)[1][0].whole == run.generate(prompts, 9)[1][0].whole
    ask = ("generate", "stack", *prompts, "--length", "9", "--device", "cpu")
    drafted = call(desk, *ask, "--draft", "trigram", "--set", "decoding.draft_tokens=2")
    assert drafted.out == at(*ask) and "proposed tokens accepted" in drafted.err
    for name, message in (("lstm", "cannot take tokens back"), ("chain", "have different vocabularies")):
        with pytest.raises(library.errors.RegardError, match=message):
            run.generate("the", 5, draft=library.load(desk / name, "cpu"))
    assert "set beam = 1, got 3" in call(desk, *ask, "--draft", "trigram", "--set", "beam=3").err
