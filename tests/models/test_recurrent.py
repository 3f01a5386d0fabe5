import pytest
import torch
from torch.nn import functional as F

from regard.errors import ConfigError, RegardError
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.nn.layout import Ragged, Rectangle
from regard.nn.recurrent import CELLS

LENGTHS = [3, 1, 6]


def make(**settings):
    torch.manual_seed(0)
    small = {"vocab_size": 11, "d_model": 6, "d_hidden": 5, "n_layers": 2, "dropout": 0.0}
    return Recurrent(RecurrentConfig(**small | settings))


def tokens_of(lengths):
    torch.manual_seed(1)
    return torch.randint(0, 11, (sum(lengths),)), Ragged(lengths)


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_a_token_sees_its_past_and_both_ways_its_future(cell, bidirectional):
    model = make(cell=cell, bidirectional=bidirectional)
    tokens, layout = tokens_of(LENGTHS)
    changed = tokens.clone()
    changed[8] = (changed[8] + 1) % 11  # fifth of the last sequence
    moved = (model(tokens, layout) - model(changed, layout)).abs().amax(1) > 1e-7
    assert moved.tolist() == [False] * 4 + [bidirectional] * 4 + [True, True]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_a_sentence_alone_is_as_in_the_batch(cell, bidirectional):
    model = make(cell=cell, bidirectional=bidirectional)
    tokens, layout = tokens_of(LENGTHS)
    whole = model(tokens, layout)
    assert whole.shape == (10, model.d_out) and model.d_out == (10 if bidirectional else 5)
    close(torch.cat([model(part, Ragged([len(part)])) for part in tokens.split(LENGTHS)]), whole)
    padded = model(layout.pad(tokens), Rectangle(layout.lengths, layout.longest))
    close(layout.flatten(padded), whole)


@pytest.mark.parametrize("cell", CELLS)
def test_steps_give_the_hidden_rows_of_the_whole(cell):
    model = make(cell=cell).eval()
    tokens, layout = tokens_of([6, 6])
    with torch.no_grad():
        expected = layout.pad(model(tokens, layout))
        for sizes in ([1] * 6, [2, 4], [6]):
            state = model.start(2, room=6)
            steps = [model.step(part, state) for part in layout.pad(tokens).split(sizes, dim=1)]
            close(torch.cat(steps, dim=1), expected)
            assert state.n_rows == 2 and state.lengths.tolist() == [6, 6]


@pytest.mark.parametrize("cell", CELLS)
def test_select_reorder_and_join_keep_every_row_its_own(cell):
    model = make(cell=cell).eval()
    rows = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    with torch.no_grad():
        state, other = model.start(2, room=8), model.start(1, room=4)
        model.step(rows[:2], state)
        model.step(rows[2:, :2], other)
        state.join(other)
        state.select(torch.tensor([2, 0, 0]))
        state.reorder(torch.tensor([1, 0, 2]))
        assert state.lengths.tolist() == [3, 2, 3]
        got = model.step(torch.tensor([[3], [3], [4]]), state)[:, 0]
        for row, past in zip(got, ([1, 2, 3, 3], [7, 8, 3], [1, 2, 3, 4]), strict=True):
            close(row, model.step(torch.tensor([past]), model.start(1, room=4))[0, -1])


def test_a_state_cannot_go_back():
    model = make().eval()
    state = model.start(2, room=4)
    before = model.step(torch.tensor([[1, 2], [3, 4]]), state)
    state.truncate(torch.tensor([2, 3]))  # nothing to take back
    with pytest.raises(RegardError, match="cannot take tokens back"):
        state.truncate(torch.tensor([2, 1]))
    close(model.step(torch.tensor([[1, 2], [3, 4]]), model.start(2, room=4)), before)


@pytest.mark.parametrize("cell", CELLS)
def test_a_carried_state_gives_the_outputs_of_the_whole_and_cuts_the_gradient(cell):
    model = make(cell=cell)
    tokens, layout = tokens_of([6, 6])
    columns = layout.pad(tokens)
    reached = []
    model.embedding.register_forward_hook(
        lambda module, arguments, output: reached.append(output) or output.retain_grad()
    )
    whole = layout.pad(model(tokens, layout))
    first, state = model.carry(columns[:, :4].flatten(), Ragged([4, 4]), None)
    second, state = model.carry(columns[:, 4:].flatten(), Ragged([2, 2]), state)
    close(torch.cat([first.view(2, 4, -1), second.view(2, 2, -1)], dim=1), whole)
    assert state.lengths.tolist() == [6, 6] and not any(layer.requires_grad for layer in state.layers)
    second.sum().backward()
    assert reached[0].grad is None and reached[1].grad is None and reached[2].grad.abs().min() > 0

    whole[:, 4:].sum().backward()  # without a cut it goes back to the beginning
    assert layout.pad(reached[0].grad)[:, :4].abs().amax(-1).min() > 0


def test_sequences_of_different_lengths_carry_no_state():
    model = make()
    tokens, layout = tokens_of(LENGTHS)
    with pytest.raises(RegardError, match="sequences of one length"):
        model.carry(tokens, layout, None)


def test_both_ways_cannot_write():
    model = make(bidirectional=True)
    tokens, layout = tokens_of([2])
    for call in (lambda: model.start(1, 4), lambda: model.carry(tokens, layout, None)):
        with pytest.raises(RegardError, match="a bidirectional net reads whole sequences"):
            call()


def test_a_last_layer_as_wide_as_the_embeddings():
    model = make(d_hidden=9, d_last=6, n_layers=3)
    assert [layer.kernel.hidden_size for layer in model.stack.forwards] == [9, 9, 6]
    assert model.d_out == model.embedding.embedding_dim == 6
    assert model(*tokens_of(LENGTHS)).shape == (10, 6)


def test_words_are_left_out_wherever_they_stand():
    model = make(vocab_size=400, embedding_dropout=0.25).train()
    tokens = torch.arange(400).repeat(2)
    seen = model.embedding(tokens, Ragged([800]))
    assert seen[:400].equal(seen[400:])
    absent = (seen[:400] == 0).all(1)
    assert 0.18 < absent.float().mean() < 0.32
    close(seen[:400][~absent], model.embedding.weight[~absent] / 0.75)
    assert model.eval().embedding(tokens, Ragged([800])).equal(F.embedding(tokens, model.embedding.weight))


@pytest.mark.parametrize("assign", [False, True])
def test_weights_are_the_same_after_saving_and_loading(assign):
    """Also when the weights are replaced, after the kernels have been used."""
    model, other = (make(cell="gru", bidirectional=True, recurrent_dropout=0.5) for _ in range(2))
    for parameter in model.parameters():
        parameter.data += 0.1
    tokens, layout = tokens_of(LENGTHS)

    def read(net):
        torch.manual_seed(0)
        return net(tokens, layout)

    assert not read(other).equal(read(model))
    other.load_state_dict(model.state_dict(), assign=assign)
    for net in (model, other):
        net.eval()
    for _ in range(2):
        assert read(other).equal(read(model))
    for net in (model, other):
        net.train()
    assert read(other).equal(read(model))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cell": "lsmt"}, "unknown cell 'lsmt'; choose one of: gru, lstm, relu_rnn, rnn"),
        ({"n_layers": 0}, "n_layers must be at least 1, got 0"),
        ({"d_last": -1}, "d_last must not be negative, got -1"),
        ({"recurrent_dropout": 1.0}, "recurrent_dropout must be at least 0 and below 1, got 1.0"),
    ],
)
def test_wrong_settings_say_what_is_right(settings, message):
    with pytest.raises(ConfigError, match=message):
        make(**settings)


def test_dropout_of_what_goes_in_and_what_comes_out_may_differ():
    assert RecurrentConfig(vocab_size=5, dropout=0.3).dropouts[:3] == (0.3, 0.3, 0.3)
    own = RecurrentConfig(vocab_size=5, dropout=0.3, input_dropout=0.6, output_dropout=0.0, locked=True).dropouts
    assert own == (0.6, 0.3, 0.0, True)
    with pytest.raises(ConfigError, match="input_dropout must be -1, or at least 0 and below 1"):
        make(input_dropout=-0.5)


def test_large_and_quickly_changing_outputs_are_penalized():
    """Merity et al. 2018, section 4.6: of the last layer, with dropout for their size, without for their change."""
    model = make(activation_penalty=2.0, change_penalty=3.0, dropout=0.5)
    tokens, layout = tokens_of([6, 6])
    seen = []
    model.stack.after.register_forward_hook(lambda module, before, after: seen.append((before[0], after)))
    rows, state, penalty = model.penalized_carry(tokens, layout, None)
    (whole, dropped) = seen[0]
    close(penalty, 2 * (dropped**2).mean() + 3 * ((whole[:, 1:] - whole[:, :-1]) ** 2).mean())
    close(rows, layout.flatten(dropped))
    assert penalty > 0 and not whole.equal(dropped) and state.lengths.tolist() == [6, 6]
    _, later, _ = model.eval().penalized_carry(tokens, layout, state)
    close(later.layers[0], model.carry(tokens, layout, state)[1].layers[0])
    assert make().penalized_carry(tokens, layout, None)[2] == 0
    assert not later.layers[0].requires_grad
