"""Chat and preference as a user meets them: trained, talked to, evaluated, resumed, and called wrongly."""

import json
import shutil
from pathlib import Path

import pytest
from calling import call

import regard
from regard.errors import RegardError, RunError

RECIPE = """
[task]
kind = "{kind}"
shown = 1
sample_length = 8

[data]
root = "{root}"
train = ["{file}"]
valid = ["{file}"]
max_length = 40
batch_tokens = 128

[tokenizer]
kind = "words"
vocab_size = 60
extra = ["<system>", "<user>", "<assistant>"]

[model]
architecture = "stack"
d_model = 16
n_heads = 2
n_layers = 2
d_ff = 32
max_length = 48
dropout = 0.1

[training]
steps = 8
schedule = "constant"
learning_rate = 0.01
warmup = 1
validate_every = 4
save_every = 4
"""
WORDS = ("cat", "dog", "cow", "owl", "hen", "fox")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat, and the same after a preference for short answers, by adapters."""
    root = tmp_path_factory.mktemp("chat")
    talk = [{"prompt": f"say {word}", "answer": answer} for word in WORDS for answer in (word, f"I say {word}")]
    pairs = [{"prompt": f"say {word}", "chosen": word, "rejected": f"I say {word}"} for word in WORDS]
    for name, records in (("talk.jsonl", talk), ("pairs.jsonl", pairs)):
        (root / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    for kind, file in (("chat", "talk.jsonl"), ("preference", "pairs.jsonl")):
        (root / f"{kind}.toml").write_text(RECIPE.format(kind=kind, root=root, file=file))
    assert call(root, "train", "chat.toml", "--run", "chat").code == 0
    tuned = call(root, "train", "preference.toml", "--from", "chat", "--run", "short", "--set", "lora.rank=2")
    assert tuned.code == 0, tuned.err
    return root


@pytest.mark.parametrize("run", ["chat", "short"])
def test_a_chat_is_looked_at_while_it_answers(place: Path, run: str) -> None:
    seen = regard.load(place / run, "cpu").look("say cat", "cat")
    (words, *_) = {tuple(map.queries) for map in seen.maps}
    assert words == ("<s>", "<user>", "say", " cat", "<assistant>", "cat", "</s>")
    own = call(place, "look", run, "say dog", "--terminal")
    answer = regard.load(place / run, "cpu").chat([{"role": "user", "content": "say dog"}]).text
    assert own.code == 0 and own.out.startswith(f"say dog → {answer}".strip())


def test_every_line_is_a_turn_and_gets_a_line(place: Path) -> None:
    said = call(place, "chat", "chat", "--length", "5", stdin=b"say cat\n\nsay dog\n")
    assert said.code == 0 and len(said.out.splitlines()) == 3


def test_turns_are_one_conversation(place: Path) -> None:
    said = call(place, "chat", "chat", "--system", "say", "--length", "5", "--json", stdin=b"say cat\nsay cat\n")
    first, second = map(json.loads, said.out.splitlines())
    assert (first["turn"], second["turn"]) == (1, 2) and set(first) == set(second)
    run = regard.load(place / "chat", "cpu")
    messages = [{"role": "system", "content": "say"}, {"role": "user", "content": "say cat"}]
    assert run.chat(messages, 5).log_prob == pytest.approx(first["log_prob"])
    messages += [{"role": "assistant", "content": first["answer"]}, {"role": "user", "content": "say cat"}]
    assert run.chat(messages, 5).log_prob == pytest.approx(second["log_prob"])


def test_a_file_and_a_decoding_setting(place: Path) -> None:
    (place / "lines.txt").write_text("say cat\nsay dog\n")
    said = call(place, "chat", "short", "lines.txt", "--set", "beam=2", "--length", "4")
    assert said.code == 0 and len(said.out.splitlines()) == 2


def test_an_answer_that_was_cut_says_so(place: Path) -> None:
    said = call(place, "chat", "chat", "--length", "1", stdin=b"say cat\n")
    assert said.code == 0 and said.err == "line 1: hit the length limit\n"


def test_a_long_conversation_goes_on_and_says_what_it_forgot(place: Path) -> None:
    said = call(place, "chat", "chat", "--length", "8", stdin=b"say cat\n" * 12)
    assert said.code == 0 and len(said.out.splitlines()) == 12 and "turns were left out" in said.err


def test_both_are_evaluated(place: Path) -> None:
    report = json.loads(call(place, "evaluate", "chat", "--json").out)
    assert [metric["name"] for metric in report["metrics"]] == ["loss", "perplexity", "exactly the answer, %"]
    report = json.loads(call(place, "evaluate", "short", "pairs.jsonl", "--json").out)
    assert report["of"] == "pairs.jsonl"
    assert report["metrics"][0]["name"] == "the chosen answer is more probable, %"


def test_the_doctor_tries_both(place: Path) -> None:
    for recipe, what in (("chat.toml", "answer: characters"), ("preference.toml", "rejected: characters")):
        said = call(place, "doctor", recipe, "--seconds", "0.2")
        assert said.code == 0 and what in said.out, said.err


def test_a_resumed_preference_ends_the_same_bit_for_bit(place: Path) -> None:
    """Its reference is the model that it began with, not that of the checkpoint."""
    half = place / "half"
    shutil.copytree(place / "short", half)
    shutil.rmtree(half / "checkpoints" / "step-8")
    (half / "model.safetensors").unlink()
    assert call(place, "train", half, "--resume").code == 0
    assert (half / "model.safetensors").read_bytes() == (place / "short" / "model.safetensors").read_bytes()


def test_a_preference_needs_a_model_that_answers(place: Path) -> None:
    said = call(place, "train", "preference.toml", "--run", "none")
    assert said.code == 1 and "give its run, --from RUN" in said.err and not (place / "none").exists()


def test_what_cannot_be_asked(place: Path) -> None:
    run = regard.load(place / "chat", "cpu")
    with pytest.raises(RunError, match="was trained to answer in conversations and cannot generate; it can: chat, "):
        run.generate(["say"])
    with pytest.raises(RegardError, match="the user speaks before each answer"):
        run.chat([{"role": "assistant", "content": "cat"}])


def test_two_runs_side_by_side(place: Path) -> None:
    report = json.loads(call(place, "evaluate", "short", "chat", "--json").out)
    first, second = report["runs"]
    outcomes = [report[name] for name in ("wins_percent", "ties_percent", "losses_percent")]
    assert sum(outcomes) == pytest.approx(100) and first["perplexity"] > 1
    assert first["chosen_percent"] - second["chosen_percent"] == pytest.approx(outcomes[0] - outcomes[2])
    assert report["perplexity_ratio"] == pytest.approx(first["perplexity"] / second["perplexity"])
    given = json.loads(call(place, "evaluate", "short", "chat", "pairs.jsonl", "talk.jsonl", "--json").out)
    assert (given["pairs"], given["conversations"]) == ("pairs.jsonl", "talk.jsonl")
    assert given["runs"] == report["runs"]
    said = call(place, "evaluate", "chat", "chat")
    assert said.code == 1 and "neither run was trained for preference; give two files" in said.err
    assert "perplexity ratio: " in call(place, "evaluate", "short", "chat").out


def test_runs_with_different_tokenizers_are_compared_by_their_answers_alone(place: Path) -> None:
    """The tokens of one mean nothing to the other: once this printed a drift of some other model, or failed."""
    trained = call(place, "train", "chat.toml", "--run", "letters", "--set", "tokenizer.kind=characters")
    assert trained.code == 0, trained.err
    said = call(place, "evaluate", "short", "letters")
    assert "the runs have different tokenizers" in said.out and "drift: KL" not in said.out
    report = json.loads(call(place, "evaluate", "short", "letters", "--json").out)
    assert {"wins_percent", "ties_percent"} <= report.keys() and not {"drifts", "perplexity_ratio"} & report.keys()
