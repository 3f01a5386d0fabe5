import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn import paths
from regard.nn.layout import Ragged
from regard.nn.linear import logits
from regard.nn.recurrent import CELLS, Cell
from regard.nn.scores import SCORES

N = 6  # tokens on both sides


def config(score):
    return TransformerConfig(vocab_size=11, d_model=16, n_heads=2, n_layers=2, d_ff=32, dropout=0.0, score=score)


def counted(model):
    """FLOPs per target token of the products that PyTorch sees go by."""
    layout, tokens = Ragged([N]), torch.zeros(N, dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        logits(model.eval()(tokens, layout, tokens, layout), model.output_table)
    return counter.get_total_flops() / N


@pytest.mark.parametrize("score", [name for name in SCORES if name != "additive"])  # whose tanh PyTorch does not count
def test_the_cost_is_what_pytorch_counts(score, monkeypatch):
    monkeypatch.setattr(paths, "FAST_PATHS", {})  # not every fused kernel is counted
    unseen = 2 * 2 * 2 * (N / 2) * 16  # layers, products, FLOPs: the half of the decoder's keys that its rule hides
    model = Transformer(config(score))
    assert counted(model) == model.cost(N).forward + unseen


def test_the_additive_score_costs_two_maps_and_a_third_look_more():
    additive, dot = (Transformer(config(score)).cost(N).forward for score in ("additive", "dot"))
    more = additive - dot
    maps, looks = 2 * 16 * 8, (N + N / 2 + N) * 16
    assert more == 2 * 2 * (3 * maps + looks)  # layers, FLOPs


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(
    ("cell", "score"), [*((cell, "dot") for cell in CELLS), *(("lstm", score) for score in ("none", *SCORES))]
)
def test_the_cost_of_a_recurrent_translator_is_what_pytorch_counts(cell, score, bidirectional, n_layers, monkeypatch):
    monkeypatch.setattr(paths, "FAST_PATHS", {})
    monkeypatch.setattr(Cell, "forward", Cell.readable)
    config = Seq2SeqConfig(
        vocab_size=11, d_model=6, d_hidden=5, n_layers=n_layers, cell=cell, score=score, bidirectional=bidirectional
    )
    unseen = 2 * 2 * N * 5 if score == "additive" else 0  # FLOPs of v . tanh(q + k), which it does not count
    model = Seq2Seq(config)
    assert counted(model) + unseen == pytest.approx(model.cost(N).forward)
