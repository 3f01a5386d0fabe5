"""regard caption: images in, lines out; and the other commands on a run that writes captions."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from calling import Call, call
from PIL import Image

COLORS = {"red": (230, 20, 20), "green": (20, 200, 40)}
RECIPE = """
[task]
kind = "captions"
validation_lines = 4

[data]
root = "{root}"
train = ["train.csv"]
valid = ["valid.csv"]
test = ["valid.csv"]
columns = ["path", "caption"]
max_length = 8
batch_tokens = 128

[tokenizer]
kind = "words"
vocab_size = 40

[model]
architecture = "image-transformer"
patch = 8
side = 2
d_model = 16
n_heads = 2
n_layers = 1
d_ff = 32
pre_norm = true
max_length = 16

[training]
steps = 60
schedule = "constant"
learning_rate = 0.01
warmup = 5
validate_every = 30
save_every = 60
"""


def draw(i: int, folder: Path) -> str:
    """Half of the image has a color; the rows of a table that say so."""
    color, side = list(COLORS)[i % 2], ("top", "bottom")[i // 2 % 2]
    pixels = np.random.default_rng(i).integers(0, 40, (16, 16, 3), np.uint8)
    pixels[:8] = COLORS[color] if side == "top" else pixels[:8]
    pixels[8:] = COLORS[color] if side == "bottom" else pixels[8:]
    Image.fromarray(pixels).save(folder / f"{i}.png")
    return f"{i}.png,{color} at the {side}\n{i}.png,the {side} is {color}\n"


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images, tables of captions, the recipe tiny.toml, and a trained run."""
    place = tmp_path_factory.mktemp("gallery")
    for part, numbers in (("train", range(24)), ("valid", range(24, 32))):
        table = "path,caption\n" + "".join(draw(i, place) for i in numbers)
        (place / f"{part}.csv").write_text(table, encoding="utf-8")
    (place / "tiny.toml").write_text(RECIPE.format(root=place), encoding="utf-8")
    trained = call(place, "train", "tiny.toml", "--run", "run", "--device", "cpu")
    assert trained.code == 0, trained.err
    assert "regard caption run image.jpg ..." in trained.out
    return place


@pytest.fixture
def ask(gallery: Path) -> Call:
    return lambda *arguments, stdin=b"": call(gallery, *arguments, stdin=stdin)


def test_n_images_in_n_lines_out(ask: Call) -> None:
    names = [f"{i}.png" for i in range(24, 29)]
    told = ask("caption", "run", *names, "--device", "cpu")
    lines = told.out.splitlines()
    assert (
        told.code == 0
        and len(lines) == 5
        and set(lines[0].split()) <= {"red", "green", "at", "the", "top", "bottom", "is"}
    )
    from_lines = ask("caption", "run", "--device", "cpu", stdin="".join(f"{name}\n" for name in names).encode())
    assert from_lines.out == told.out


def test_json_has_the_n_best(ask: Call) -> None:
    settings = ["--set", "beam=3", "--set", "n_best=2", "--device", "cpu"]
    told = ask("caption", "run", "24.png", "25.png", *settings, "--json")
    records = [json.loads(line) for line in told.out.splitlines()]
    assert [record["image"] for record in records] == ["24.png", "25.png"]
    for record in records:
        texts, scores = zip(*((other["text"], other["score"]) for other in record["n_best"]), strict=True)
        assert len(set(texts)) == 2 and list(scores) == sorted(scores, reverse=True)
        assert (record["caption"], record["score"]) == (texts[0], scores[0])
    plain = ask("caption", "run", "24.png", *settings)
    assert plain.out.splitlines() == [records[0]["caption"]] and "--json shows the others" in plain.err


def test_samples_are_the_same_for_one_seed(ask: Call) -> None:
    settings = ["--set", "sample=true", "--set", "temperature=3", "--device", "cpu"]
    one, again, other = (
        ask("caption", "run", "24.png", "25.png", "26.png", *settings, "--set", f"seed={n}") for n in (1, 1, 2)
    )
    assert one.out == again.out != other.out


@pytest.mark.parametrize(
    "name, message", [("gone.png", "no file gone.png"), ("tiny.toml", "tiny.toml is not an image")]
)
def test_a_file_that_is_no_image_is_named(name: str, message: str, ask: Call) -> None:
    told = ask("caption", "run", "24.png", name, "--device", "cpu")
    assert told.code == 1 and message in told.err and not told.out


def test_an_ensemble_answers(ask: Call) -> None:
    assert len(ask("caption", "run", "24.png", "--with", "run", "--device", "cpu").out.splitlines()) == 1


def test_evaluate_gives_bleu_with_all_references_and_writes_outputs(ask: Call, gallery: Path) -> None:
    told = json.loads(ask("evaluate", "run", "--outputs", "out.txt", "--json", "--device", "cpu").out)
    names = [metric["name"] for metric in told["metrics"]]
    assert names == ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "exact match"] and told["images"] == 8
    assert all("nrefs:2" in metric["signature"] for metric in told["metrics"][:4])
    outputs = (gallery / "out.txt").read_text(encoding="utf-8").splitlines()
    assert len(outputs) == 8 and told["distinct_captions"] == len(set(outputs))
    assert outputs == ask("caption", "run", *(f"{i}.png" for i in range(24, 32)), "--device", "cpu").out.splitlines()


@pytest.mark.slow  # two runs of their own
def test_two_runs_are_compared_on_one_test(ask: Call, gallery: Path) -> None:
    shutil.copytree(gallery / "run", gallery / "rival")
    recipe = gallery / "rival" / "recipe.toml"
    told = json.loads(ask("evaluate", "run", "rival", "--set", "beam=2", "--json", "--device", "cpu").out)
    assert [run["run"] for run in told["runs"]] == ["run", "rival"]
    assert [run["decoding"]["beam"] for run in told["runs"]] == [2, 2]
    assert [(pair["name"], pair["p"]) for pair in told["paired"]] == [(f"BLEU-{order}", 1.0) for order in (1, 2, 3, 4)]
    assert [pair["value_a"] for pair in told["paired"]] == [run["value"] for run in told["runs"][0]["metrics"][:4]]
    recipe.write_text(recipe.read_text().replace('test = ["valid.csv"]', 'test = ["train.csv"]'), encoding="utf-8")
    refused = ask("evaluate", "run", "rival", "--device", "cpu")
    assert refused.code == 1 and "different test sets, so nothing was compared" in refused.err
    assert "Paired bootstrap test" in ask("evaluate", "run", "rival", "valid.csv", "--device", "cpu").out


def test_look_and_embed_take_images(ask: Call) -> None:
    shown = ask("look", "run", "24.png", "--target", "red at the top", "--terminal", "--device", "cpu")
    assert shown.code == 0 and "24.png → red at the top" in shown.out
    vectors = [json.loads(line) for line in ask("embed", "run", "24.png", "25.png", "--device", "cpu").out.splitlines()]
    assert [len(vector) for vector in vectors] == [16, 16]


def test_a_run_that_cannot_write_captions_says_what_it_can(ask: Call) -> None:
    told = ask("translate", "run", "24.png", "--device", "cpu")
    assert told.code == 1 and "was trained to write the caption of an image and cannot translate" in told.err


def test_a_captioner_begins_with_a_trained_reader_of_images(ask: Call, gallery: Path) -> None:
    table = "".join(f"{i}.png,{list(COLORS)[i % 2]}\n" for i in range(24))
    (gallery / "labels.csv").write_text("path,label\n" + table, encoding="utf-8")
    reader = RECIPE.format(root=gallery).replace('"captions"\nvalidation_lines = 4', '"images"')
    reader = (
        reader.replace('"image-transformer"', '"vit"')
        .replace("train.csv", "labels.csv")
        .replace('"caption"', '"label"')
    )
    reader = reader.replace('valid = ["valid.csv"]\ntest = ["valid.csv"]\n', "").replace("steps = 60", "steps = 2")
    (gallery / "reader.toml").write_text(reader, encoding="utf-8")
    assert ask("train", "reader.toml", "--run", "reader", "--device", "cpu").code == 0
    like_it = [
        f"model.{s}" for s in ("class_row=true", "position=learned", "feed_forward=gelu", "scale_embedding=false")
    ]
    settings = [part for setting in (*like_it, "training.steps=1") for part in ("--set", setting)]
    told = ask("train", "tiny.toml", "--run", "begun", "--from", "reader", *settings, "--device", "cpu")
    assert told.code == 0, told.err
    assert "encoder, encoder_norm, source_inputs, source_position; new: decoder" in told.out
    assert ask("caption", "begun", "24.png", "--device", "cpu").code == 0  # with a tokenizer of captions, not of labels
    told = ask("train", "tiny.toml", "--run", "other", "--from", "reader", "--device", "cpu")
    assert told.code == 1 and "must have the shape of this recipe's [model]" in told.err


def test_point_measures_looks_at_what_is_named(ask: Call, gallery: Path) -> None:
    """Each image is four patches; what has a color are the two at the top or those at the bottom."""
    lines = []
    for i in range(32):
        top = 8 * (i // 2 % 2)
        known = {"name": list(COLORS)[i % 2], "box": [top, 0, top + 8, 16], "nouns": [0, 3]}
        lines.append(json.dumps({"path": f"{i}.png", "objects": [known]}))
    (gallery / "boxes.jsonl").write_text("\n".join(lines), encoding="utf-8")
    told = json.loads(ask("point", "run", "boxes.jsonl", "--json", "--device", "cpu").out)
    values = {metric["name"]: metric["value"] for metric in told["metrics"]}
    assert values["pointing anywhere"] == 50 and told["metrics"][0]["signature"].startswith("n:16|")
    on_validation = [metric["value"] for metric in told["validation"]]  # which is also the test
    layer, head = told["head"]
    assert values["all nouns"] == max(on_validation) == on_validation[2 * layer + head] and len(on_validation) == 2
    shown = ask("point", "run", "boxes.jsonl", "valid.csv", "--device", "cpu").out
    assert f"{values['all nouns']:.1f}" in shown and "pointing at the center" in shown
    missing = ask("point", "run", "nowhere.jsonl", "--device", "cpu")
    assert missing.code == 1 and "nowhere.jsonl" in missing.err
