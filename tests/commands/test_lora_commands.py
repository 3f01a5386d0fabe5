"""Fine-tuning by adapters, as a user does it: merged or apart, resumed, and from a run that is gone."""

import shutil
from pathlib import Path

import pytest
import torch
from calling import call
from safetensors.torch import load_file

import regard
from regard.errors import RunError
from regard.interop.exporting import export_folder
from regard.nn.layout import Ragged
from regard.nn.linear import logits

MODEL = 'architecture = "stack"\nd_model = 16\nn_heads = 2\nn_layers = 2\nd_ff = 32\nmax_length = 40\ndropout = 0.1\n'
TRAINING = 'steps = 8\nschedule = "constant"\nlearning_rate = 0.01\nwarmup = 1\nvalidate_every = 4\nsave_every = 4\n'
LANGUAGE = """
[task]
kind = "language"
unit = "lines"
window = 32

[data]
root = "{root}"
train = ["texts.txt"]
valid = ["texts.txt"]
max_length = 32
batch_tokens = 128

[tokenizer]
vocab_size = 280
"""
CLASSIFYING = """
[task]
kind = "classification"

[data]
root = "{root}"
train = ["labeled.tsv"]
columns = ["1", "2"]
valid_share = 0.2
max_length = 32
batch_tokens = 128

[lora]
rank = 2
"""
TEXTS = ["a fine film", "a dull film", "good", "bad", "what a good film it was", "so dull and so bad"] * 5


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model, and classifiers that adapt it: merged and apart."""
    root = tmp_path_factory.mktemp("lora")
    lines = [f"{text} {n}" for n, text in enumerate(TEXTS)]
    (root / "texts.txt").write_text("".join(f"{line}\n" for line in lines))
    rows = (f"{line}\t{int('good' in line or 'fine' in line)}\n" for line in lines)
    (root / "labeled.tsv").write_text("".join(rows))
    for name, recipe in (("language", LANGUAGE), ("classifying", CLASSIFYING)):
        text = recipe.format(root=root) + f"\n[model]\n{MODEL}\n[training]\n{TRAINING}"
        (root / f"{name}.toml").write_text(text)
    assert call(root, "train", "language.toml", "--run", "base").code == 0
    adapting = ("train", "classifying.toml", "--from", "base")
    assert call(root, *adapting, "--run", "merged").code == 0
    assert call(root, *adapting, "--run", "apart", "--set", "lora.merge=false").code == 0
    return root


def probabilities(run: Path) -> torch.Tensor:
    return torch.tensor([list(answer.probabilities.values()) for answer in regard.load(run, "cpu").classify(TEXTS[:6])])


def test_merged_and_apart_are_the_same(place: Path) -> None:
    merged, apart = probabilities(place / "merged"), probabilities(place / "apart")
    torch.testing.assert_close(merged, apart, atol=1e-5, rtol=0)
    assert not (place / "apart" / "model.safetensors").exists()
    small, large = ((place / run).stat().st_size for run in ("apart/adapter.safetensors", "merged/model.safetensors"))
    assert small < large / 5


def test_the_base_is_untouched_and_the_sum_has_its_shapes(place: Path) -> None:
    base = load_file(place / "base" / "model.safetensors")
    merged = load_file(place / "merged" / "model.safetensors")
    differing = {name for name, tensor in base.items() if not torch.equal(tensor, merged[name])}
    assert {name.split(".")[-2] for name in differing} == {"to_queries", "to_values"}
    assert merged.keys() - base.keys() == {"to_labels.weight", "to_labels.bias"}  # learned in full
    adapter = load_file(place / "apart" / "adapter.safetensors")
    assert {name.split(".")[-1] for name in adapter} == {"lora_down", "lora_up", "weight", "bias"}


def test_the_card_and_the_plan_say_what_learns(place: Path) -> None:
    card = (place / "apart" / "README.md").read_text()
    assert "| learning | LoRA of rank 2 on to_queries, to_values: " in card
    assert "`adapter.safetensors`, which `regard.load` takes" in card


@pytest.mark.parametrize("run", ["merged", "apart"])
def test_a_resumed_run_ends_the_same_bit_for_bit(place: Path, run: str) -> None:
    half = place / f"half-{run}"
    shutil.copytree(place / run, half)
    shutil.rmtree(half / "checkpoints" / "step-8")
    file = {"merged": "model.safetensors", "apart": "adapter.safetensors"}[run]
    (half / file).unlink()
    moved = place / "moved"
    (place / "base").rename(moved)  # a checkpoint needs nothing else
    try:
        assert call(place, "train", half, "--resume").code == 0
    finally:
        moved.rename(place / "base")
    assert (half / file).read_bytes() == (place / run / file).read_bytes()


def test_stopped_before_its_first_checkpoint_it_begins_with_the_same_weights(place: Path) -> None:
    again = place / "again"
    again.mkdir()
    for name in ("recipe.toml", "tokenizer.json", "origin.json"):
        shutil.copy(place / "merged" / name, again)
    assert call(place, "train", again, "--resume").code == 0
    assert (again / "model.safetensors").read_bytes() == (place / "merged" / "model.safetensors").read_bytes()


def test_an_unfinished_run_can_be_used(place: Path) -> None:
    unfinished = place / "unfinished"
    shutil.copytree(place / "merged", unfinished)
    (unfinished / "model.safetensors").unlink()
    torch.testing.assert_close(probabilities(unfinished), probabilities(place / "merged"), atol=1e-5, rtol=0)


def test_adapters_of_adapters(place: Path) -> None:
    chain = ("train", "classifying.toml", "--from", "apart", "--run", "chain", "--set", "lora.merge=false")
    assert call(place, *chain, "--set", "training.learning_rate=1e-12").code == 0
    torch.testing.assert_close(probabilities(place / "chain"), probabilities(place / "apart"), atol=1e-5, rtol=0)


def test_an_adapter_whose_base_is_gone_or_changed(place: Path, tmp_path: Path) -> None:
    for run in ("base", "apart"):
        shutil.copytree(place / run, tmp_path / run)
    regard.load(tmp_path / "apart", "cpu")  # both moved together
    shutil.copy(place / "merged" / "model.safetensors", tmp_path / "base" / "model.safetensors")
    with pytest.raises(RunError, match="began with other weights than"):
        regard.load(tmp_path / "apart", "cpu")
    shutil.rmtree(tmp_path / "base")
    with pytest.raises(RunError, match="which is not there; bring it back"):
        regard.load(tmp_path / "apart", "cpu")
    (tmp_path / "apart" / "origin.json").write_text("{}")
    with pytest.raises(RunError, match=r"origin\.json is damaged"):
        regard.load(tmp_path / "apart", "cpu")


def test_adapters_need_something_to_adapt(place: Path) -> None:
    said = call(place, "train", "classifying.toml", "--run", "none")
    assert said.code == 1 and "give that run, --from RUN" in said.err and not (place / "none").exists()


def plain_settings(*settings: str) -> list[str]:
    """Without adapters."""
    return [word for setting in ("lora.rank=0", *settings) for word in ("--set", setting)]


def test_frozen_parts_stay_as_they_were_and_a_resumed_run_ends_the_same(place: Path) -> None:
    tuning = ("train", "classifying.toml", "--from", "base")
    done = call(place, *tuning, "--run", "last", *plain_settings("training.last_layers=1", "training.layer_decay=0.5"))
    assert done.code == 0, done.err
    base, last = (load_file(place / run / "model.safetensors") for run in ("base", "last"))
    moved = {name for name, tensor in base.items() if not torch.equal(tensor, last[name])}
    assert moved and all(name.startswith(("reader.blocks.1.", "reader.norm.")) for name in moved)
    assert "weights learn; the rest is frozen" in (place / "last" / "README.md").read_text()
    shutil.copytree(place / "last", place / "last-half")
    shutil.rmtree(place / "last-half" / "checkpoints" / "step-8")
    (place / "last-half" / "model.safetensors").unlink()
    assert call(place, "train", "last-half", "--resume").code == 0
    assert (place / "last-half" / "model.safetensors").read_bytes() == (
        place / "last" / "model.safetensors"
    ).read_bytes()
    other = call(place, "train", "last-half", "--resume", "--set", "training.last_layers=2")
    assert other.code == 1 and "training.last_layers = 2 does not fit" in other.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "base", "--set", "training.last_layers=1"), "LoRA freezes all that it adapts"),
        (
            ("--from", "base", *plain_settings("training.frozen=['stem']")),
            "the model has no part 'stem'; its parts are",
        ),
        (plain_settings("training.last_layers=1"), "freezes what another run has learned: give that run, --from RUN"),
        (("--from", "base", "--set", "model.n_heads=4"), "model.n_heads = 4 (base has 2)"),
    ],
)
def test_what_cannot_be_tuned_is_refused(place: Path, words: tuple[str, ...], said: str) -> None:
    refused = call(place, "train", "classifying.toml", "--run", "refused", *words)
    assert refused.code == 1 and said in refused.err and not (place / "refused").exists()


@pytest.mark.slow  # an export with its certificate
def test_merged_weights_are_exported(place: Path, tmp_path: Path) -> None:
    """A language model with adapters apart: what transformers reads gives the logits that the run gives."""
    transformers = pytest.importorskip("transformers")
    lora = ("--set", "lora.rank=2", "--set", "lora.merge=false", "--set", "training.learning_rate=0.1")
    assert call(place, "train", "language.toml", "--from", "base", "--run", "further", *lora).code == 0
    assert (place / "further" / "adapter.safetensors").is_file()
    run, base = (regard.load(place / name, "cpu") for name in ("further", "base"))
    export_folder(run, tmp_path / "hf")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf").eval()
    ids = run.task.encode("what a good film")
    tokens, layout = torch.tensor(ids), Ragged([len(ids)])
    with torch.no_grad():
        ours, before = (logits(it.model(tokens, layout), it.model.output_table) for it in (run, base))
        exported = theirs(tokens[None]).logits[0]
    torch.testing.assert_close(exported, ours, atol=1e-4, rtol=0)
    assert (ours - before).abs().max() > 0.01  # the adapters have learned something
