import copy
import itertools
import math

import pytest
import torch
from torch import nn

from regard.nn.layer_dropout import LayerDropout, LockedDropout
from regard.nn.layout import Ragged, Rectangle
from regard.nn.recurrent import CELLS, LSTM, GateWeights, RecurrentStack, ReLURNN, reverse

LENGTHS = [3, 1, 6, 6]
SHAPES = [(layers, both) for layers in (1, 3) for both in (False, True)]


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def make_stack(cell, n_layers=2, bidirectional=False, dropout=0.0, recurrent_dropout=0.0, locked=False):
    torch.manual_seed(0)
    dropouts = LayerDropout.everywhere(dropout, locked)
    return RecurrentStack(CELLS[cell], [5, *[4] * n_layers], bidirectional, dropouts, recurrent_dropout)


def readably(stack):
    """A copy with the same weights that takes the equations instead of the kernels."""
    twin = copy.deepcopy(stack)
    for layer in [*twin.forwards, *twin.backwards]:
        layer.forward = layer.readable
    return twin


def gradients(module):
    return [parameter.grad for parameter in module.parameters()]


def test_the_worked_example_of_the_documents():
    """h_t = ReLU(V h_{t-1} + U x_t), o_t = W h_t, in one step and through the kernel."""
    weights = GateWeights(
        U=torch.tensor([[1.0, 0], [0, 1], [-1, 0]]),
        V=torch.tensor([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]]),
        b_U=torch.zeros(3),
        b_V=torch.zeros(3),
    )
    cell = ReLURNN(2, 3)
    for parameter, value in zip(cell.kernel.parameters(), weights, strict=True):
        parameter.data.copy_(value)
    x, before = torch.tensor([[1.0, 0]]), torch.tensor([[[1.0, 0, 0]]])
    assert weights.of_state(before[0]).tolist() == [[0, 0, 1]] and weights.of_input(x).tolist() == [[1, 0, -1]]
    after = cell.step(x, before, cell.weights())
    assert after.tolist() == [[[1, 0, 0]]]
    assert cell(x[:, None], before)[1].tolist() == [[[1, 0, 0]]]
    assert (after @ torch.tensor([1.0, 0, -1])).item() == 1


def lstm_with_gates(update, forget, candidate, output):
    """An LSTM whose gates are what we say: all weights are zero, and the biases are the gates' own inverses."""
    cell = LSTM(1, 3)
    for parameter in cell.kernel.parameters():
        parameter.data.zero_()
    inverse = [torch.logit(torch.tensor(gate)) for gate in (update, forget, output)]
    bias = torch.cat([inverse[0], inverse[1], torch.atanh(torch.tensor(candidate)), inverse[2]])
    cell.kernel.bias_ih_l0.data.copy_(bias)
    return cell


@pytest.mark.parametrize("path", ["readable", "forward"])
def test_the_gates_of_the_documents_block_or_let_pass(path):
    """[.8 .8 .8] * [1 .5 0] = [.8 .4 0] by the forget gate; likewise by the update and the output gate."""
    open_, half, shut = 1.0, 0.5, 0.0
    gate, nothing, x = [open_, half, shut], [0.0] * 3, torch.zeros(1, 1, 1)
    before = torch.stack([torch.zeros(1, 3), torch.full((1, 3), 0.8)])

    forgets = lstm_with_gates(update=nothing, forget=gate, candidate=[0.5] * 3, output=[1.0] * 3)
    h, c = getattr(forgets, path)(x, before)[1]
    close(c, torch.tensor([[0.8, 0.4, 0.0]]))
    close(h, torch.tanh(c))

    updates = lstm_with_gates(update=gate, forget=nothing, candidate=[0.8] * 3, output=[1.0] * 3)
    close(getattr(updates, path)(x, before)[1][1], torch.tensor([[0.8, 0.4, 0.0]]))

    shows = lstm_with_gates(update=nothing, forget=[1.0] * 3, candidate=nothing, output=gate)
    h, c = getattr(shows, path)(x, before)[1]
    close(c, before[1])
    close(h, torch.tensor([[1, 0.5, 0]]) * math.tanh(0.8))


@pytest.mark.sampled("the cases differ in shape alone", cases=3)
@pytest.mark.parametrize(("n_layers", "bidirectional"), SHAPES)
@pytest.mark.parametrize("cell", CELLS)
def test_equations_and_kernels_are_equal_in_outputs_and_gradients(cell, n_layers, bidirectional):
    fast = make_stack(cell, n_layers, bidirectional)
    readable = readably(fast)
    rows = torch.randn(sum(LENGTHS), 5)
    results = []
    for stack in (fast, readable):
        x = rows.clone().requires_grad_()
        y = stack(x, Ragged(LENGTHS))
        (y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum().backward()
        results.append((y, x.grad, *gradients(stack)))
    assert results[0][0].shape == (sum(LENGTHS), 8 if bidirectional else 4)
    for one, other in zip(*results, strict=True):
        assert one.abs().max() > 0
        close(one, other)


@pytest.mark.parametrize("cell", CELLS)
def test_equations_and_kernels_leave_the_same_state_with_the_same_weights_left_out(cell):
    fast = make_stack(cell, recurrent_dropout=0.5).train()
    readable = readably(fast)
    x, before = torch.randn(12, 5), [torch.randn_like(state) for state in fast.start(3, torch.zeros(1))]
    results = []
    for stack in (fast, readable):
        torch.manual_seed(1)
        y, after = stack.carry(x, Ragged([4, 4, 4]), before)
        (y.sum() + sum(state.square().sum() for state in after)).backward()
        results.append((y, *after, *gradients(stack)))
    for one, other in zip(*results, strict=True):
        close(one, other)


@pytest.mark.parametrize("cell", CELLS)
def test_the_kernels_are_those_of_pytorch(cell):
    """A stack with PyTorch's own layers and directions, side by side on full sequences."""
    ours = make_stack(cell, n_layers=2, bidirectional=True)
    kernel = ours.forwards[0].kernel
    options = {"nonlinearity": kernel.nonlinearity} if isinstance(kernel, nn.RNN) else {}
    theirs = type(kernel)(5, 4, 2, batch_first=True, bidirectional=True, **options)
    theirs.load_state_dict(
        {
            f"{name.removesuffix('0')}{depth}{suffix}": value
            for side, suffix in ((ours.forwards, ""), (ours.backwards, "_reverse"))
            for depth, layer in enumerate(side)
            for name, value in layer.kernel.state_dict().items()
        }
    )
    x = torch.randn(3, 4, 5)
    close(ours(x.flatten(0, 1), Ragged([4, 4, 4])).view(3, 4, 8), theirs(x)[0])


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_a_sequence_alone_is_as_in_the_batch(cell, bidirectional):
    """In outputs and in the gradients of its inputs and of the weights: padding is never read."""
    stack = make_stack(cell, bidirectional=bidirectional)
    rows, push = torch.randn(sum(LENGTHS), 5, requires_grad=True), torch.randn(sum(LENGTHS), stack.d_out)
    together = stack(rows, Ragged(LENGTHS))
    together.backward(push)
    by_batch, rows_by_batch = [g.clone() for g in gradients(stack)], rows.grad.clone()
    stack.zero_grad()
    rows.grad = None
    alone = torch.cat([stack(part, Ragged([len(part)])) for part in rows.split(LENGTHS)])
    alone.backward(push)
    close(alone, together)
    close(rows.grad, rows_by_batch)
    for one, other in zip(gradients(stack), by_batch, strict=True):
        close(one, other)


def test_what_lies_in_the_padding_of_a_rectangle_is_never_read():
    stack = make_stack("lstm", bidirectional=True)
    ragged = Ragged(LENGTHS)
    rows = torch.randn(sum(LENGTHS), 5)
    padded = ragged.pad(rows)
    padded[ragged.pad(torch.ones(sum(LENGTHS))) == 0] = 100.0
    got = stack(padded, Rectangle(ragged.lengths, ragged.longest))
    close(ragged.flatten(got), stack(rows, ragged))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_sequences_without_tokens_are_harmless(bidirectional):
    stack = make_stack("gru", bidirectional=bidirectional)
    rows = torch.randn(3, 5)
    close(stack(rows, Ragged([0, 2, 0, 1])), stack(rows, Ragged([2, 1])))
    for nothing in ([], [0, 0]):
        assert stack(rows[:0], Ragged(nothing)).shape == (0, stack.d_out)


def test_reverse_turns_each_sequence_within_its_length():
    layout = Ragged([3, 1, 2])
    padded = layout.pad(torch.arange(1.0, 7.0)[:, None])
    assert reverse(padded, layout).squeeze(2).tolist() == [[3, 2, 1], [4, 0, 0], [6, 5, 0]]
    close(reverse(reverse(padded, layout), layout), padded)
    assert reverse(padded, Rectangle(torch.tensor([3, 3, 3]), 3, is_full=True))[0, :, 0].tolist() == [3, 2, 1]


def test_locked_dropout_leaves_out_the_same_channels_at_all_steps():
    torch.manual_seed(0)
    dropped = LockedDropout(0.5)(torch.ones(200, 3, 10))
    assert dropped.equal(dropped[:, :1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert 0.45 < (dropped == 0).float().mean() < 0.55
    assert not dropped[0].equal(dropped[1])


@pytest.mark.parametrize("option", [{"dropout": 0.5}, {"dropout": 0.5, "locked": True}, {"recurrent_dropout": 0.5}])
def test_dropout_draws_from_the_generator_in_training_only(option):
    stack = make_stack("lstm", **option)
    rows, layout = torch.randn(sum(LENGTHS), 5), Ragged(LENGTHS)

    def read(seed):
        torch.manual_seed(seed)
        return stack(rows, layout)

    assert read(1).equal(read(1)) and not read(1).equal(read(2))
    stack.eval()
    close(read(1), make_stack("lstm")(rows, layout))


def test_dropout_lies_before_between_and_after_the_layers():
    stack = make_stack("rnn", n_layers=2, dropout=0.5)
    seen = []
    for dropout in (stack.before, stack.between, stack.after):
        dropout.register_forward_hook(lambda module, arguments, output: seen.append(output))
    out = stack(torch.randn(200, 5), Ragged([200]))
    assert [x.shape[-1] for x in seen] == [5, 4, 4] and out.equal(seen[-1].flatten(0, 1))
    assert all(0.4 < (x == 0).float().mean() < 0.6 for x in seen)


def test_weights_left_out_are_those_between_states_and_half_of_them():
    torch.manual_seed(0)
    cell = LSTM(20, 30, recurrent_dropout=0.5).train()
    weights, own = cell.weights(), GateWeights(*cell.kernel.parameters())
    assert weights.U is own.U and weights.b_V is own.b_V
    kept = weights.V != 0
    assert 0.45 < kept.float().mean() < 0.55
    close(weights.V[kept], 2 * own.V[kept])
    assert cell.eval().weights().V.equal(own.V)


def test_an_lstm_begins_by_remembering():
    torch.manual_seed(0)
    c = LSTM(4, 50)(torch.zeros(1, 1, 4), torch.ones(2, 1, 50))[1][1]
    without = nn.LSTM(4, 50, batch_first=True)(torch.zeros(1, 1, 4), (torch.ones(1, 1, 50), torch.ones(1, 1, 50)))[1]
    assert c.mean() > 0.65 > without[1].mean()


def test_a_relu_rnn_begins_by_remembering_all():
    torch.manual_seed(0)
    cell, before = ReLURNN(4, 50), torch.rand(1, 1, 50) + 1
    moved = cell(torch.zeros(1, 1, 4), before)[1] - before
    close(moved, (cell.kernel.bias_ih_l0 + cell.kernel.bias_hh_l0).expand_as(moved))


@pytest.mark.parametrize("recurrent_dropout", [0.0, 0.5])
@pytest.mark.parametrize("cell", CELLS)
def test_autocast_leaves_recurrences_in_float32(cell, recurrent_dropout):
    stack = make_stack(cell, bidirectional=True, recurrent_dropout=recurrent_dropout)
    rows, results = torch.randn(sum(LENGTHS), 5), []
    for enabled in (True, False):
        torch.manual_seed(1)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            results.append(stack(rows.bfloat16().float(), Ragged(LENGTHS)))
    assert results[0].dtype == torch.float32 and results[0].equal(results[1])


def test_left_out_weights_lie_in_one_piece_and_the_kernel_keeps_its_own():
    cell = LSTM(3, 4, recurrent_dropout=0.5)
    own = list(cell.kernel.parameters())
    pieces = cell.weights().in_one_piece()
    for before, after in itertools.pairwise(pieces):
        assert before.is_contiguous() and after.data_ptr() == before.data_ptr() + 4 * before.numel()
    cell(torch.randn(1, 2, 3), torch.zeros(2, 1, 4))
    assert all(kept is mine for kept, mine in zip(cell.kernel._flat_weights, own, strict=True))
