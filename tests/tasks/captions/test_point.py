"""Where captioners look while they write nouns: in batches as alone, and mistakes in the file of boxes."""

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from regard.data.corpora.shapes import generate
from regard.data.images.boxes import read_boxes
from regard.errors import RegardError
from regard.runs.recipe import Recipe
from regard.runs.run import Run, load
from regard.tasks.captions.pointing import nouns_of
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start
from tests.drawn import some_fast

RECIPE = """
[task]
kind = "captions"
validation_lines = 0
shown = 0
[data]
root = "{root}"
train = ["train.csv", "images.zip"]
valid = ["valid.csv", "images.zip"]
test = ["test.csv", "images.zip"]
columns = ["path", "caption"]
batch_tokens = 500
max_length = 64
[tokenizer]
kind = "{tokenizer}"
vocab_size = 300
[model]
patch = 4
side = 8
d_model = 32
max_length = 128
{model}
[training]
steps = 5
schedule = "constant"
learning_rate = 0.01
warmup = 0
"""
MODELS = {
    "image-seq2seq": 'd_image = 32\nd_hidden = 32\nn_blocks = 1\narchitecture = "image-seq2seq"',
    "image-transformer": 'n_heads = 2\nn_layers = 2\nd_ff = 32\nclass_row = true\narchitecture = "image-transformer"',
}
N_HEADS = {"image-seq2seq": 1, "image-transformer": 4}
N = 8  # images of each part


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus, with few images in each part."""
    place = tmp_path_factory.mktemp("point")
    generate(N).write(place)
    for part in ("valid", "test", "held-out"):
        path = place / f"{part}.csv"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(lines[: 1 + 2 * N]), encoding="utf-8")
    return place


@pytest.fixture(scope="module", params=some_fast(MODELS, every=2))  # a training each
def run(request: pytest.FixtureRequest, place: Path) -> Run:
    folder = place / request.param
    recipe = place / f"{request.param}.toml"
    tokenizer = "bpe" if request.param == "image-seq2seq" else "words"  # with the first, nouns are several tokens
    recipe.write_text(RECIPE.format(root=place, tokenizer=tokenizer, model=MODELS[request.param]), encoding="utf-8")
    start(prepare(Recipe.read(str(recipe)), folder), folder, torch.device("cpu"), False, Screen(Console(quiet=True)))
    return load(folder, "cpu")


@pytest.mark.slow  # a whole training
def test_a_batch_points_where_each_image_alone_does(run: Run, place: Path) -> None:
    """`look` gives the weights of one image and one caption, by the names of words and patches."""
    boxes, rows = read_boxes(place / "boxes.jsonl"), (place / "test.csv").read_text(encoding="utf-8").splitlines()[1:]
    measured = run.point(str(place / "boxes.jsonl"))
    layer, head = measured.record["head"]
    hits, is_close = [], []
    with zipfile.ZipFile(place / "images.zip") as archive:
        for i, (name, caption) in enumerate(row.split(",") for row in rows):
            image = archive.extract(name, place / "files")
            looked = run.look(image, caption).pick("cross", layer, head)
            for named in boxes[name]:
                word = caption.split()[named.nouns[i % 2]]
                begin = caption.split()[: named.nouns[i % 2]]
                written = ["".join(looked.queries[:k]).strip() for k in range(len(looked.queries))]
                token = written.index(" ".join(begin))  # what was written when the noun begins
                assert word.startswith(looked.queries[token].strip())
                second, largest = np.sort(looked.weights[token])[-2:]
                is_close.append(largest - second < 1e-5)  # in a batch, the other may be the largest
                patch = looked.keys[int(np.argmax(looked.weights[token]))]
                row, column = map(int, patch.split(",")) if "," in patch else (-1, -1)
                top, left, bottom, right = named.box
                hits.append(top <= 4 * row + 2 < bottom and left <= 4 * column + 2 < right)
    assert np.mean(is_close) < 0.2
    assert measured.metrics[0].value == pytest.approx(100 * np.mean(hits), abs=100 * np.mean(is_close))
    assert measured.metrics[0].signature.startswith(f"n:{4 * N}|")
    assert 0 < sum(hits) < len(hits)
    assert len(measured.record["validation"]) == N_HEADS[run.folder.name]


def test_objects_that_training_does_not_have_are_counted_apart(run: Run, place: Path) -> None:
    files = [str(place / "held-out.csv"), str(place / "images.zip")]
    names = [metric.name for metric in run.point(str(place / "boxes.jsonl"), files).metrics]
    assert names[:3] == ["all nouns", "objects of the training data", "other objects"]


@pytest.mark.sampled("every case is a training of its own")
@pytest.mark.parametrize("unknown", ["Õ", "hexagon", "a", "unheard-of,"])
def test_nouns_that_the_tokenizer_does_not_know_are_found(run: Run, place: Path, unknown: str) -> None:
    text, path = (place / "test.csv").read_text(encoding="utf-8"), place / "strange.csv"
    path.write_text(re.sub("circle|square|triangle|diamond|cross", unknown, text), encoding="utf-8")
    if "," in unknown:
        path.write_text(re.sub(",(.*)", r',"\1"', path.read_text(encoding="utf-8")), encoding="utf-8")
    _, raw = run.task.test([str(path), str(place / "images.zip")])
    part = run.task.part(raw, to_learn=False)
    nouns = nouns_of(part, read_boxes(place / "boxes.jsonl"))
    for caption, own in zip(part.captions, nouns, strict=True):
        words, ids = caption.split(), run.tokenizer.encode(caption)
        first, last = sorted(noun.token for noun in own)
        for token, before in ((first, words[:2]), (last, words[:-1])):
            n = len(run.tokenizer.encode(" ".join(before)))
            assert run.tokenizer.tokens(ids[n:token]) in ([], [" "]) and run.tokenizer.token(ids[token]).strip()


GOOD = {"path": "1.png", "objects": [{"name": "red circle", "box": [0, 4, 9, 13], "nouns": [2, 6]}]}
OBJECT = GOOD["objects"][0]
MISTAKES = {
    "no objects": ({"path": "1.png"}, "must be like"),
    "no name": ({**GOOD, "objects": [{"box": [0, 0, 1, 1], "nouns": [1]}]}, "must be like"),
    "three sides": ({**GOOD, "objects": [{**OBJECT, "box": [0, 0, 1]}]}, r"a box is \[top, left, bottom, right\]"),
    "no area": ({**GOOD, "objects": [{**OBJECT, "box": [5, 0, 5, 9]}]}, "with an area"),
    "a fraction": ({**GOOD, "objects": [{**OBJECT, "nouns": [1.5]}]}, "must be like"),
    "a list": ([1], "must be a JSON object such as"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_boxes_are_named_with_their_line(mistake: str, tmp_path: Path) -> None:
    record, message = MISTAKES[mistake]
    path = tmp_path / "boxes.jsonl"
    path.write_text(f"{json.dumps({**GOOD, 'path': '0.png'})}\n{json.dumps(record)}\n", encoding="utf-8")
    with pytest.raises(RegardError, match=rf"boxes.jsonl:2.*{message}"):
        read_boxes(path)


def test_an_image_is_in_the_boxes_once(tmp_path: Path) -> None:
    path = tmp_path / "boxes.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n{json.dumps(GOOD)}\n", encoding="utf-8")
    with pytest.raises(RegardError, match=r"boxes.jsonl:2 has the image '1.png' again"):
        read_boxes(path)


def changed(place: Path, path: Path, **changes: object) -> str:
    """The corpus's boxes, with objects changed; `objects` changes all of them."""
    lines = (place / "boxes.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    for record in records:
        record["objects"] = [{**known, **changes} for known in record["objects"]]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def test_boxes_that_do_not_fit_the_captions_are_refused(run: Run, place: Path, tmp_path: Path) -> None:
    path = tmp_path / "boxes.jsonl"
    with pytest.raises(RegardError, match=r"images.zip:valid/00000.png: '\w+ \w+' has 1 nouns in 2 captions"):
        run.point(changed(place, path, nouns=[2]))
    with pytest.raises(RegardError, match="has no word 40, counted from 0"):
        run.point(changed(place, path, nouns=[2, 40]))
    with pytest.raises(RegardError, match=r"the box \[9, 24, 20, 33\] of '\w+ \w+' ends outside of the 32 x 32 pixels"):
        run.point(changed(place, path, box=[9, 24, 20, 33]))
    path.write_text(json.dumps(GOOD), encoding="utf-8")
    with pytest.raises(RegardError, match=r"the file of boxes has no line for images.zip:valid/00000.png"):
        run.point(str(path))
