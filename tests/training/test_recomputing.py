"""Activations computed again: the same gradients, bit for bit, from less memory."""

import copy
from weakref import ref

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from regard.models.heads import LanguageModel
from regard.models.stack import Stack, StackConfig
from regard.nn.layout import Ragged
from regard.runs.recipe import Recipe
from regard.training.footprint import training_memory
from regard.training.recomputing import layers_of, recompute

SIZES = {"vocab_size": 50, "d_model": 32, "n_heads": 2, "n_layers": 6, "d_ff": 128, "max_length": 64}


def small_model(dropout: float = 0.2) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(Stack(StackConfig(**SIZES, dropout=dropout)))


def losses_and_gradients(model: LanguageModel) -> tuple[Tensor, list[Tensor]]:
    torch.manual_seed(1)
    tokens = torch.randint(0, 50, (96,))
    loss = model.nats(tokens, tokens.flip(0), Ragged([64, 32]))
    return loss, list(torch.autograd.grad(loss, list(model.parameters())))


def test_gradients_are_the_same_bit_for_bit_with_dropout_too() -> None:
    model, twin = small_model(), small_model()
    recompute(twin)
    for one, other in zip(losses_and_gradients(model), losses_and_gradients(twin), strict=True):
        torch.testing.assert_close(other, one, rtol=0, atol=0)


def bytes_kept(model: LanguageModel) -> int:
    """Of what the forward pass leaves for the backward pass, beside the weights; each memory counts once."""
    kept: dict[int, tuple[ref, int]] = {}
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = ref(tensor), storage.nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        tokens = torch.arange(64) % 50
        loss = model.nats(tokens, tokens, Ragged([64]))
        alive = sum(size for tensor, size in kept.values() if tensor() is not None)
    loss.backward()
    return alive


def test_layers_keep_their_inputs_alone() -> None:
    model, twin = small_model(), small_model()
    recompute(twin)
    whole, less = bytes_kept(model), bytes_kept(twin)
    assert less < 0.3 * whole, (less, whole)
    assert less > 6 * 64 * 32 * 4  # an input of every layer


def test_a_copy_has_its_own_layers() -> None:
    model = small_model(dropout=0.0)
    recompute(model)
    other = copy.deepcopy(model)
    before = losses_and_gradients(other)[0]
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    assert torch.equal(losses_and_gradients(other)[0], before)


@pytest.mark.parametrize("name", ["gpt2", "transformer-base", "ptb-lstm", "multi30k-deen-lstm", "enwik8-xl"])
def test_every_kind_of_model_has_layers(name: str) -> None:
    assert len(list(layers_of(Recipe.read(name).sketch()))) > 1


def test_the_memory_that_is_announced_is_less() -> None:
    """Before the first step; GPT-2 with a window of 32,768 was announced with 38 GiB and took 4."""
    long = ["task.window=32768", "data.max_length=32767", "model.max_length=32768", "data.batch_tokens=32768"]
    plain, again = (Recipe.read("gpt2", [*long, *more]) for more in ([], ["training.checkpointing=true"]))
    with torch.device("meta"):
        model = plain.build_model()
    weights = 16 * sum(p.numel() for p in model.parameters())
    assert weights < training_memory(again, model) < 0.2 * training_memory(plain, model)
