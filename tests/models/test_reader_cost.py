"""What a reader costs: the products that PyTorch counts."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.models.convolutional import Convolutional, ConvolutionalConfig
from regard.models.heads import LanguageModel
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.stack import Stack, StackConfig
from regard.nn import paths
from regard.nn.layout import Ragged
from regard.nn.linear import logits
from regard.nn.scores import SCORES

N, V, D = 6, 11, 16


def counted(model):
    """FLOPs per token of the products that PyTorch sees go by."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        rows = model(torch.zeros(N, dtype=torch.long), Ragged([N]))
        if isinstance(model, LanguageModel):
            logits(rows, model.output_table)
    return counter.get_total_flops() / N


def stack(**settings):
    return Stack(StackConfig(vocab_size=V, d_model=D, n_heads=2, n_layers=3, d_ff=32, max_length=N, **settings)).eval()


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@pytest.mark.parametrize("score", [name for name in SCORES if name != "additive"])  # whose tanh PyTorch does not count
@pytest.mark.parametrize("causal", [True, False])
def test_a_stack_costs_what_pytorch_counts(score, causal, monkeypatch):
    monkeypatch.setattr(paths, "FAST_PATHS", {})  # not every fused kernel is counted
    model = stack(score=score, causal=causal)
    unseen = 3 * 2 * 2 * (N / 2) * D if causal else 0  # layers, products, FLOPs: the half of the keys that is hidden
    assert model.cost(N).forward + unseen == counted(model)
    if causal:
        assert LanguageModel(model).cost(N).forward + unseen == counted(LanguageModel(model))


@pytest.mark.parametrize("score", ["dot", "general"])
def test_heads_that_share_keys_cost_what_pytorch_counts(score, monkeypatch):
    monkeypatch.setattr(paths, "FAST_PATHS", {})
    model = stack(score=score, causal=False, n_key_heads=1)
    assert model.cost(N).forward == counted(model)


def test_the_additive_score_costs_two_maps_and_a_third_look_more():
    more = stack(score="additive").cost(N).forward - stack(score="dot").cost(N).forward
    assert more == 3 * 2 * (2 * 2 * 8 * 8 + N / 2 * D)  # layers, FLOPs, (maps, heads; looks)


@pytest.mark.parametrize("kind", ["convs2s", "bytenet"])
def test_a_convolution_costs_what_pytorch_counts(kind):
    config = ConvolutionalConfig(vocab_size=V, d_model=D, n_layers=3, kind=kind)
    model = LanguageModel(Convolutional(config)).eval()
    assert model.cost(N).forward == counted(model) and not model.cost(N).is_sequential


@pytest.mark.parametrize("d_last", [0, D])
def test_a_recurrent_net_costs_two_per_weight(d_last):
    model = LanguageModel(Recurrent(RecurrentConfig(vocab_size=V, d_model=D, d_hidden=8, d_last=d_last, n_layers=2)))
    last = d_last or 8
    cells = 4 * (8 * (D + 8) + last * (8 + last))
    cost = model.cost(N)
    assert cost.forward == 2 * (cells + V * last) and cost.is_sequential
