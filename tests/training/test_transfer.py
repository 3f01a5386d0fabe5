"""Weights of another run: which are taken, which begin anew, and what does not fit."""

from pathlib import Path

import pytest
import torch
from torch import nn

from regard.errors import RunError
from regard.models.elmo import BiLM, BiLMConfig, Elmo, ElmoConfig
from regard.models.heads import Classifier, LanguageModel, Tagger
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.runs.checkpoints import ADAPTER
from regard.runs.transfer import Origin, numbers_in, take_weights
from regard.runs.weights import checksum, save_weights, weights_of

SIZES = {"vocab_size": 9, "d_model": 4, "n_layers": 2}


def a_run(model: nn.Module, folder: Path) -> Path:
    """A folder that holds the weights of a model."""
    folder.mkdir()
    save_weights(weights_of(model), folder / "model.safetensors")
    return folder


def recurrent(**settings) -> Recurrent:
    return Recurrent(RecurrentConfig(**SIZES | {"d_hidden": 5} | settings))


def classifier(reader: nn.Module, n_labels: int = 2) -> Classifier:
    return Classifier(reader, n_labels, pooling="mean", dropout=0.0)


def same(one: nn.Module, other: nn.Module) -> list[bool]:
    theirs = weights_of(other)
    return [torch.equal(weight, theirs[name]) for name, weight in weights_of(one).items()]


def test_elmo_begins_with_the_language_models_of_a_run(tmp_path):
    pretrained = BiLM(BiLMConfig(**SIZES))
    elmo = Elmo(ElmoConfig(**SIZES, d_task=3))
    said = str(take_weights(classifier(elmo), a_run(pretrained, tmp_path / "elmo")))
    assert all(same(pretrained, elmo))
    assert said == "backwards, embedding, forwards; new: gamma, task, to_labels, w"


def test_a_reader_is_taken_from_another_task(tmp_path):
    language, tagger = LanguageModel(recurrent()), Tagger(recurrent(), n_tags=3, dropout=0.0)
    said = str(take_weights(tagger, a_run(language, tmp_path / "language")))
    assert all(same(language.reader, tagger.reader)) and said == "embedding, stack; new: to_tags"


def test_what_is_read_off_is_taken_where_it_fits(tmp_path):
    two, run = classifier(recurrent()), tmp_path / "two"
    a_run(two, run)
    equal, other = classifier(recurrent()), classifier(recurrent(), n_labels=3)
    assert str(take_weights(equal, run)) == "embedding, stack, to_labels" and all(same(two, equal))
    assert str(take_weights(other, run)) == "embedding, stack; new: to_labels" and all(same(two.reader, other.reader))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (lambda: BiLM(BiLMConfig(**SIZES)), lambda: classifier(Elmo(ElmoConfig(**SIZES | {"d_model": 6})))),
        (lambda: LanguageModel(recurrent(n_layers=3)), lambda: classifier(recurrent())),
        (lambda: BiLM(BiLMConfig(**SIZES)), lambda: classifier(recurrent())),
        (lambda: BiLM(BiLMConfig(**SIZES)), lambda: BiLM(BiLMConfig(**SIZES | {"n_layers": 3}))),
        (lambda: classifier(Elmo(ElmoConfig(**SIZES))), lambda: BiLM(BiLMConfig(**SIZES))),
    ],
    ids=["another width", "more layers", "another architecture", "fewer layers", "more than there is"],
)
def test_what_does_not_fit_is_an_error(source, target, tmp_path):
    model = target()
    before = {name: weight.clone() for name, weight in weights_of(model).items()}
    with pytest.raises(RunError, match=r"--from .* does not fit the model.*must have the shape"):
        take_weights(model, a_run(source(), tmp_path / "run"))
    assert all(torch.equal(weight, before[name]) for name, weight in weights_of(model).items())


def test_adapters_that_adapt_themselves_are_refused(tmp_path: Path) -> None:
    path = tmp_path / ADAPTER
    save_weights({"x.lora_down": torch.zeros(1, 2)}, path)
    Origin(run=".", weights="its own", sha256=checksum(path.read_bytes()), new=()).write(tmp_path)
    with pytest.raises(RunError, match="leads in a circle"):
        numbers_in(path, tmp_path, set())
