"""Captions as a task: every caption of an image is learned, every reference counts, and images come in any form."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard import config
from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.errors import ConfigError, RegardError
from regard.models.image_seq2seq import ImageSeq2Seq, ImageSeq2SeqConfig
from regard.nn.grid import Grid
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.tasks.captions.task import Captioning, CaptionsConfig
from regard.tasks.setup import Setup
from regard.text.tokenizer import Tokenizer, TokenizerConfig

CAPTIONS = {
    "0.png": ["a red cat", "the cat sits on a red mat"],
    "1.png": ["a dog"],
    "2.png": ["a bird", "a small bird", "the bird is small and it sings all day long"],
}
SIZES = {"0.png": (8, 8), "1.png": (8, 12), "2.png": (8, 8)}
MODEL = {"patch": 4, "side": 3, "d_model": 8, "d_hidden": 8, "d_image": 32, "n_blocks": 1, "max_length": 32}


def write_images(folder: Path) -> None:
    for i, (name, size) in enumerate(SIZES.items()):
        pixels = np.random.default_rng(i).integers(0, 256, (*size, 3), np.uint8)
        Image.fromarray(pixels).save(folder / name)
    rows = [f"{name}\t{caption}\n" for name, captions in CAPTIONS.items() for caption in captions]
    (folder / "captions.tsv").write_text("path\tcaption\n" + "".join(rows), encoding="utf-8")


def data(folder: Path, **settings: object) -> DataConfig:
    files = {"train": ("captions.tsv",), "valid": ("captions.tsv",), "columns": ("path", "caption")}
    return DataConfig(**{"root": str(folder), **files, "max_length": 9, "batch_tokens": 40, **settings})


def task_of(folder: Path, tokenizer: str = "words", dropout: float = 0.0, **settings: object) -> Captioning:
    if not (folder / "captions.tsv").is_file():
        write_images(folder)
    files = data(folder)
    made = Tokenizer.train(Captioning.texts(files), TokenizerConfig(kind=tokenizer, vocab_size=300))
    model = ImageSeq2SeqConfig(vocab_size=made.vocab_size, **MODEL)
    setup = Setup(data=files, tokenizer=made, dropout=dropout, grid=model.grid)
    return Captioning.make(CaptionsConfig(**settings), setup)


def model_for(task: Captioning, **settings: object) -> ImageSeq2Seq:
    torch.manual_seed(0)
    return ImageSeq2Seq(ImageSeq2SeqConfig(vocab_size=task.tokenizer.vocab_size, **{**MODEL, **settings})).eval()


def batches(task: Captioning, epoch: int) -> list:
    return [task.batch(epoch, i) for i in range(task.n_batches(epoch))]


def read(task: Captioning, batch) -> list[tuple[str, str, np.ndarray]]:
    """The name, the caption and the pixels of each example, as the tensors of a batch have them."""
    assert isinstance(batch.source_layout, Grid)
    images = [image for block in batch.source_layout.images(batch.patches()) for image in block]
    labels = batch.labels.split(batch.target_layout.lengths.tolist())
    texts = [task.tokenizer.decode(ids[:-1].tolist()) for ids in labels]
    return list(zip(batch.lines, texts, (image.permute(1, 2, 0).numpy() for image in images), strict=True))


def test_an_epoch_has_every_caption_once_with_its_image(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    examples = [example for batch in batches(task, 0) for example in read(task, batch)]
    found = sorted((name, text) for name, text, _ in examples)
    short = [
        (name, caption) for name, captions in CAPTIONS.items() for caption in captions if len(caption.split()) < 10
    ]
    assert found == sorted(short)
    for name, _, pixels in examples:
        assert np.array_equal(pixels, np.asarray(Image.open(tmp_path / name)))


def test_what_is_dropped_is_said_and_still_a_reference(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    assert "dropped: caption is longer than 9 tokens: 1 (first at 2.png)" in task.train.notes.rows()
    assert [len(references) for references in task.train.references] == [2, 1, 3]
    assert any("longer than 9 tokens" in row.what and row.value == "1" for row in task.inspect())


def test_captions_of_an_image_are_augmented_apart_and_in_training_alone(tmp_path: Path) -> None:
    task = task_of(tmp_path, erase=1.0)
    first, again, later = ({t: p for b in batches(task, epoch) for _, t, p in read(task, b)} for epoch in (0, 0, 1))
    assert all(np.array_equal(first[text], again[text]) for text in first)
    assert not any(np.array_equal(first[text], later[text]) for text in first)
    assert not np.array_equal(first["a red cat"], first["the cat sits on a red mat"])
    plain = task.collate(task.train, np.arange(len(task.train)))
    assert plain.draws is None and plain.patches().dtype == torch.uint8


def test_bpe_dropout_cuts_a_caption_anew_in_every_epoch(tmp_path: Path) -> None:
    task = task_of(tmp_path, tokenizer="bpe", dropout=0.5)
    longest = {}
    for epoch in range(6):
        for batch in batches(task, epoch):
            assert batch.target_layout.longest <= task.max_length + 1
            for _, text, _ in read(task, batch):
                longest.setdefault(text, set()).add(epoch)
    assert set(longest) <= {caption for captions in CAPTIONS.values() for caption in captions}
    one = task.train.tokens(task.train.kept[:1], None)[0].tolist()
    drawn = {tuple(task.train.tokens(task.train.kept[:1], epoch)[0].tolist()) for epoch in range(20)}
    assert len(drawn) > 1 and all(task.tokenizer.decode(list(ids)) == task.tokenizer.decode(one) for ids in drawn)


def test_the_penalty_is_learned_from_and_not_measured(tmp_path: Path) -> None:
    task = task_of(tmp_path, smoothing=0.0)
    batch = task.collate(task.train, np.arange(len(task.train)))
    plain, penalized = model_for(task), model_for(task, doubly_stochastic=2.0)
    with torch.no_grad():
        hidden = batch.patches(), batch.source_layout, batch.target, batch.target_layout
        added = penalized.penalized(*hidden)[1]
        assert added > 0
        torch.testing.assert_close(task.loss(penalized, batch), task.loss(plain, batch) + added)
        torch.testing.assert_close(task.plain_loss(penalized, batch), task.plain_loss(plain, batch))
        assert task.figures(penalized, task.train) == task.figures(plain, task.train)


def run_of(task: Captioning, folder: Path, **settings: object) -> Run:
    tables = {
        "task": {"kind": "captions", **config.as_settings(task.config)},
        "data": config.as_settings(task.setup.data),
        "tokenizer": {"kind": task.tokenizer.kind, "vocab_size": task.tokenizer.vocab_size},
        "model": {"architecture": "image-seq2seq", **MODEL},
    }
    config.write(tables, folder / "recipe.toml")
    return Run(folder, Recipe.read(str(folder / "recipe.toml")), task.tokenizer, model_for(task, **settings), "new")


def test_an_image_is_a_path_a_picture_an_array_or_a_tensor(tmp_path: Path) -> None:
    run = run_of(task_of(tmp_path), tmp_path)
    path = tmp_path / "1.png"
    picture = Image.open(path)
    array = np.asarray(picture)
    given = [str(path), path, picture, array, torch.from_numpy(array.copy()).permute(2, 0, 1)]
    answers = run.caption(given, DecodingConfig(max_length=5))
    assert len(answers) == 5 and len({(answer.text, answer.score) for answer in answers}) == 1
    alone = run.caption(array, DecodingConfig(max_length=5))
    assert (alone.text, alone.notes) == (answers[0].text, answers[0].notes)
    vectors = run.embed(given)
    assert vectors.shape == (5, 32) and np.allclose(vectors, vectors[0], atol=1e-6)


def test_no_caption_is_longer_than_those_that_can_be_learned(tmp_path: Path) -> None:
    run = run_of(task_of(tmp_path), tmp_path)
    never_end = DecodingConfig(never=(run.tokenizer.end_id,), beam=2, n_best=2)
    answer = run.caption(str(tmp_path / "0.png"), never_end)
    assert len(answer.best.tokens) == 10 and answer.notes == ["hit the length limit"] and len(answer.n_best) == 2


def test_progress_counts_all_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.tasks.captions.use.AT_A_TIME", 2)
    run, calls = run_of(task_of(tmp_path), tmp_path), []
    run.caption([str(tmp_path / name) for name in CAPTIONS], on_progress=lambda *counts: calls.append(counts))
    assert calls[-1] == (3, 3) and all(n == 3 for _, n in calls)


def test_words_look_at_patches(tmp_path: Path) -> None:
    run = run_of(task_of(tmp_path), tmp_path)
    capture = run.look(str(tmp_path / "1.png"), "a small bird")
    [found] = capture.maps
    assert (found.kind, list(found.queries)) == (
        "cross",
        [*run.tokenizer.tokens(run.task.encode("a small bird")), "</s>"],
    )
    assert list(found.keys) == ["0,0", "0,1", "0,2", "1,0", "1,1", "1,2"]
    assert np.allclose(found.weights.sum(1), 1, atol=1e-5)
    assert run.look(str(tmp_path / "1.png")).title.startswith("1.png → ")


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"mixup": 0.2}, "no caption"),
        ({"metric": "accuracy"}, "metric"),
        ({"metric": "bleu", "validation_lines": 0}, "validation_lines above 0"),
        ({"smoothing": 1.5}, "smoothing"),
    ],
    ids=str,
)
def test_wrong_settings_say_what_is_wrong(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CaptionsConfig(**wrong)


@pytest.mark.parametrize(
    "given, message",
    [
        (["nothing.png"], "no file nothing.png"),
        ([np.zeros((5, 5, 7), np.uint8)], "image 0"),
        ([np.zeros((40, 8, 3), np.uint8)], "larger than the 12 pixels"),
        (3, "expected an image or a list of images"),
    ],
    ids=["missing", "channels", "large", "number"],
)
def test_wrong_images_say_what_is_wrong(given: Sequence[object], message: str, tmp_path: Path) -> None:
    run = run_of(task_of(tmp_path), tmp_path)
    with pytest.raises(RegardError, match=message):
        run.caption(given)


def test_tokens_of_an_image_cannot_be_counted(tmp_path: Path) -> None:
    run = run_of(task_of(tmp_path), tmp_path)
    with pytest.raises(ConfigError, match="an image has no tokens to count"):
        run.caption(str(tmp_path / "0.png"), DecodingConfig(counted="prompt", block_ngrams=2))


def test_shuffled_captions_are_a_control_in_training_alone(tmp_path: Path) -> None:
    task, control = task_of(tmp_path), task_of(tmp_path, shuffled=True)
    usual = {name: set(captions) for name, captions in CAPTIONS.items()}
    learned = {
        control.train.raw.images.where(i).rsplit("/", 1)[-1]: set(captions)
        for i, captions in enumerate(control.train.references)
    }
    assert learned.keys() == usual.keys() and sorted(map(sorted, learned.values())) == sorted(
        map(sorted, usual.values())
    )
    assert all(learned[name] != usual[name] for name in usual)
    assert control.valid is not None and task.valid is not None
    assert control.valid.references == task.valid.references
