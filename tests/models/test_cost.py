import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.models.cost import transformer_cost
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn import paths
from regard.nn.layout import Ragged
from regard.nn.scores import SCORES

N = 6  # tokens on both sides


def config(score):
    return TransformerConfig(vocab_size=11, d_model=16, n_heads=2, n_layers=2, d_ff=32, dropout=0.0, score=score)


def counted(score):
    """FLOPs per target token of the products that PyTorch sees go by."""
    model, layout = Transformer(config(score)).eval(), Ragged([N])
    tokens = torch.zeros(N, dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.logits(model(tokens, layout, tokens, layout))
    return counter.get_total_flops() / N


@pytest.mark.parametrize("score", [name for name in SCORES if name != "additive"])  # whose tanh PyTorch does not count
def test_the_cost_is_what_pytorch_counts(score, monkeypatch):
    monkeypatch.setattr(paths, "FAST_PATHS", {})  # not every fused kernel is counted
    unseen = 2 * 2 * 2 * (N / 2) * 16  # layers, products, FLOPs: the half of the decoder's keys that its rule hides
    assert counted(score) == transformer_cost(config(score), N, N).forward + unseen


def test_the_additive_score_costs_two_maps_and_a_third_look_more():
    more = transformer_cost(config("additive"), N, N).forward - transformer_cost(config("dot"), N, N).forward
    maps, looks = 2 * 16 * 8, (N + N / 2 + N) * 16
    assert more == 2 * 2 * (3 * maps + looks)  # layers, FLOPs
