import sys

import numpy as np
import pytest
import torch
from torch import nn

from regard.errors import RegardError
from regard.inputs import Words
from regard.models.reach import gradient_reach, jacobian_norms
from regard.nn.layer_dropout import LayerDropout
from regard.nn.layout import Ragged
from regard.nn.recurrent import CELLS, RecurrentStack

D = 6


class Reader(nn.Module):
    """Embeddings so small that tanh is its own argument, then one layer with chosen weights."""

    learned_at_once = sys.maxsize

    def __init__(self, cell="rnn"):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = Words(10, D)
        self.embedding.weight.data *= 1e-7
        self.stack = RecurrentStack(CELLS[cell], [D, D], False, LayerDropout.everywhere(0.5), 0.5)

    def forward(self, tokens, layout):
        return self.stack(self.embedding(tokens, layout), layout)


class Average(nn.Module):
    """h_t is the mean of x_1 ... x_t: attention that looks at everything alike."""

    learned_at_once = sys.maxsize

    def __init__(self):
        super().__init__()
        self.embedding = Words(10, D)

    def forward(self, tokens, layout):
        padded = layout.pad(self.embedding(tokens, layout))
        return layout.flatten(padded.cumsum(1) / torch.arange(1, layout.longest + 1)[:, None])


def one_channel(rows):
    return rows[:, 0]


def rnn_that_scales_by(factor):
    """h_t = factor Q h_{t-1} + x_t with Q orthogonal, as long as tanh is linear."""
    reader = Reader()
    U, V, *biases = reader.stack.forwards[0].kernel.parameters()
    U.data.copy_(torch.eye(D))
    V.data.copy_(factor * torch.linalg.qr(torch.randn(D, D)).Q)
    for bias in biases:
        bias.data.zero_()
    return reader


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.5])  # it vanishes, stays, explodes
def test_gradients_of_an_rnn_change_by_the_same_ratio_at_every_step(factor):
    reach = gradient_reach(rnn_that_scales_by(factor), torch.randint(0, 10, (20,)), Ragged([12, 8]), one_channel)
    assert reach.shape == (12,)
    np.testing.assert_allclose(reach, factor ** np.arange(12), rtol=1e-4)


def test_attention_reaches_all_distances_alike_and_far_ones_count_the_long_sequences_only():
    reach = gradient_reach(Average(), torch.randint(0, 10, (6,)), Ragged([4, 2]), one_channel)
    np.testing.assert_allclose(reach, [(1 / 4 + 1 / 2) / 2, (1 / 4 + 1 / 2) / 2, 1 / 4, 1 / 4])


def test_an_lstm_that_forgets_nothing_reaches_further_than_an_rnn():
    tokens, layout = torch.randint(0, 10, (30,)), Ragged([30])
    lstm = Reader("lstm")
    lstm.stack.forwards[0].kernel.bias_ih_l0.data[D : 2 * D] = 10.0  # the forget gate stays open
    near_and_far = {
        name: gradient_reach(reader, tokens, layout, one_channel)[[1, 29]]
        for name, reader in {"lstm": lstm, "rnn": Reader()}.items()
    }
    ratio = {name: far / near for name, (near, far) in near_and_far.items()}
    assert ratio["lstm"] > 0.01 > 1e-4 > ratio["rnn"]


def test_measuring_leaves_the_reader_as_it_was():
    reader = Reader("gru").train()
    tokens, layout = torch.randint(0, 10, (5,)), Ragged([5])
    with torch.no_grad():
        one, other = (gradient_reach(reader, tokens, layout, one_channel) for _ in range(2))
    assert one.tolist() == other.tolist()  # no dropout
    assert reader.training and not reader.embedding._forward_hooks
    assert all(parameter.grad is None for parameter in reader.parameters())


@pytest.mark.parametrize("lengths", [[], [0, 2]])
def test_a_sequence_without_a_last_token_is_an_error(lengths):
    with pytest.raises(RegardError, match="a sequence has none"):
        gradient_reach(Reader(), torch.zeros(sum(lengths), dtype=torch.long), Ragged(lengths), one_channel)


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.5])
def test_the_product_of_jacobians_of_an_rnn_is_a_power(factor):
    norms = jacobian_norms(rnn_that_scales_by(factor), torch.randint(0, 10, (20,)), Ragged([12, 8]))
    assert norms.shape == (12,)
    np.testing.assert_allclose(norms, factor ** np.arange(12), rtol=1e-4)


@pytest.mark.parametrize("cell", CELLS)
def test_the_product_of_jacobians_is_that_of_the_unrolled_net(cell):
    """∂s_T/∂s_{T-d} by automatic differentiation through d steps of two layers at once."""
    torch.manual_seed(0)
    reader = Reader(cell)
    reader.embedding.weight.data *= 1e7
    reader.stack = RecurrentStack(CELLS[cell], [D, 4, 3], False, LayerDropout.everywhere(0.5), 0.5)
    tokens = torch.randint(0, 10, (5,))
    norms = jacobian_norms(reader, tokens, Ragged([5]))
    reader.eval()
    rows, sizes = (
        reader.embedding.weight[tokens],
        [len(state) * width for state, width in zip(reader.stack.start(1, torch.zeros(1)), (4, 3), strict=True)],
    )

    def run_from(place, joint):
        states = [part.view(-1, 1, width) for part, width in zip(joint.split(sizes), (4, 3), strict=True)]
        for x in rows[place:]:
            _, states = reader.stack.step(x[None], states, reader.stack.weights())
        return torch.cat([state.flatten() for state in states])

    joint = torch.zeros(sum(sizes))
    for place in range(5):
        if place:  # s_place, after so many tokens
            jacobian = torch.autograd.functional.jacobian(lambda s, place=place: run_from(place, s), joint)
            assert norms[5 - place] == pytest.approx(float(torch.linalg.matrix_norm(jacobian, 2)), rel=1e-4)
        with torch.no_grad():
            states = [part.view(-1, 1, width) for part, width in zip(joint.split(sizes), (4, 3), strict=True)]
            _, states = reader.stack.step(rows[place][None], states, reader.stack.weights())
            joint = torch.cat([state.flatten() for state in states])


def test_what_is_beyond_the_range_of_floats_is_inf():
    reader = rnn_that_scales_by(1e6)
    reader.embedding.weight.data.zero_()  # so that the states stay 0
    norms = jacobian_norms(reader, torch.zeros(80, dtype=torch.long), Ragged([80]))
    np.testing.assert_allclose(norms[:52], 1e6 ** np.arange(52.0), rtol=1e-4)
    assert np.isinf(norms[52:]).all()


def test_states_that_are_not_finite_have_no_jacobians():
    """h_t = 1e6 h_{t-1} + x_t with x_t = 1: 1e38 after 7 tokens, and more than float32 holds after 8."""
    reader = Reader("relu_rnn")
    U, V, *_ = reader.stack.forwards[0].kernel.parameters()
    U.data.copy_(torch.eye(D))
    V.data.copy_(1e6 * torch.eye(D))
    reader.embedding.weight.data.fill_(1 / reader.embedding.scale)
    assert np.isfinite(jacobian_norms(reader, torch.zeros(7, dtype=torch.long), Ragged([7]))).all()
    with pytest.raises(RegardError, match="are not finite numbers after 8 tokens; lower the distance"):
        jacobian_norms(reader, torch.zeros(20, dtype=torch.long), Ragged([20]))


def test_without_states_there_are_no_jacobians_to_multiply():
    with pytest.raises(RegardError, match="along the states of a recurrent net in one direction; this has none"):
        jacobian_norms(Average(), torch.zeros(4, dtype=torch.long), Ragged([4]))
