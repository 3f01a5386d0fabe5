"""Which weights learn when a model is fine-tuned, and how fast: by their depth."""

import pytest
import torch

from regard.errors import ConfigError
from regard.learning.config import TrainingConfig
from regard.learning.depth import depths, freeze
from regard.learning.optimizers import make_optimizer, set_learning_rate
from regard.models import ARCHITECTURES
from regard.models.heads import Classifier
from regard.models.interface import Model
from regard.models.stack import Stack, StackConfig
from regard.models.transformer import Transformer, TransformerConfig

SIZES = {"vocab_size": 20, "d_model": 8, "n_heads": 2, "d_ff": 16}


def classifier() -> Classifier:
    return Classifier(Stack(StackConfig(**SIZES, n_layers=3, embedding_norm=True)), 2, pooling="mean", dropout=0.0)


def learning(model: Model) -> set[str]:
    return {name for name, weight in model.named_parameters() if weight.requires_grad}


def test_depth_is_counted_from_the_top_of_each_stack() -> None:
    found = depths(name for name, _ in classifier().named_parameters())
    assert found["to_labels.weight"] == 0 and found["reader.norm.weight"] == 0
    assert {name: depth for name, depth in found.items() if "to_queries.weight" in name} == {
        f"reader.blocks.{i}.attention.to_queries.weight": 3 - i for i in range(3)
    }
    assert (
        found["reader.embedding.weight"] == found["reader.position.table"] == found["reader.embedding_norm.bias"] == 4
    )


def test_an_encoder_and_a_decoder_have_tops_of_their_own() -> None:
    found = depths(name for name, _ in Transformer(TransformerConfig(**SIZES, n_layers=2)).named_parameters())
    assert found["encoder.1.feed_forward.expand.weight"] == found["decoder.1.feed_forward.expand.weight"] == 1
    assert found["encoder.0.feed_forward.expand.weight"] == found["decoder.0.feed_forward.expand.weight"] == 2
    assert found["embedding.weight"] == 3


@pytest.mark.parametrize("name", ["recurrent", "convolutional", "xlnet", "seq2seq", "attentive", "transformer-xl"])
def test_layers_are_found_in_other_architectures(name: str) -> None:
    config = ARCHITECTURES[name].config(vocab_size=20, d_model=24, n_layers=2)
    with torch.device("meta"):
        found = depths(weight for weight, _ in ARCHITECTURES[name].module(config).named_parameters())
    assert set(found.values()) >= {1, 2, 3}
    assert {depth for weight, depth in found.items() if "embedding" in weight} == {3}


def test_frozen_parts_and_layers_below_the_last_do_not_learn() -> None:
    model = classifier()
    everything = learning(model)
    freeze(model, ["embedding", "blocks.1"], last_layers=0, new=())
    still = {name for name in everything - learning(model)}
    assert "reader.embedding.weight" in still and "reader.embedding_norm.weight" not in still
    assert {name.split(".")[2] for name in still if "blocks" in name} == {"1"}

    model = classifier()
    freeze(model, [], last_layers=1, new=())
    assert {name for name in learning(model) if "blocks" not in name} == {
        "to_labels.weight",
        "to_labels.bias",
        "reader.norm.weight",
        "reader.norm.bias",
    }
    assert {name.split(".")[2] for name in learning(model) if "blocks" in name} == {"2"}


def test_what_is_new_learns_wherever_it_is() -> None:
    model = classifier()
    freeze(model, ["position"], last_layers=1, new={"reader.position.table"})
    assert "reader.position.table" in learning(model) and "reader.embedding.weight" not in learning(model)


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match=r"no part 'encoder'; its parts are: position, embedding, .*to_labels"):
        freeze(classifier(), ["encoder"], last_layers=0, new=())
    with pytest.raises(ConfigError, match="leaves nothing that learns"):
        freeze(classifier(), ["embedding", "embedding_norm", "position", "blocks", "norm", "to_labels"], 0, ())
    for decay in (0.0, 1.5, -1.0):
        with pytest.raises(ConfigError, match="layer_decay must be above 0 and at most 1"):
            TrainingConfig(layer_decay=decay)


def test_rates_fall_with_depth() -> None:
    """One step of Adam from nothing moves every weight by its learning rate."""
    model = classifier()
    optimizer = make_optimizer("adam", model, (0.9, 0.99), 1e-12, 0.0, layer_decay=0.5)
    set_learning_rate(optimizer, 0.1)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    depth = depths(before)
    for name, weight in model.named_parameters():
        torch.testing.assert_close(before[name] - weight, torch.full_like(weight, 0.1 * 0.5 ** depth[name]))


def test_without_a_decay_there_are_two_groups_matrices_and_the_rest() -> None:
    groups = make_optimizer("adamw", classifier(), (0.9, 0.99), 1e-8, weight_decay=0.1).param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert all(weight.ndim >= 2 for weight in groups[0]["params"])
