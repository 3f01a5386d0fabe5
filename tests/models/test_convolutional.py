import itertools

import pytest
import torch

from regard.errors import ConfigError, RegardError
from regard.models.convolutional import EMBEDDED, Convolutional, ConvolutionalConfig
from regard.nn.convolution import CONVOLUTIONS
from regard.nn.layout import Ragged, Rectangle

SMALL = {"vocab_size": 11, "d_model": 8, "n_layers": 6, "kernel": 3, "dropout": 0.0, "max_length": 80}
LENGTHS = [5, 1, 9, 2]
KINDS = [{"kind": kind, "position": position} for kind, position in itertools.product(CONVOLUTIONS, EMBEDDED)]


def make(variant, causal=True):
    torch.manual_seed(0)
    return Convolutional(ConvolutionalConfig(**SMALL | variant, causal=causal)).eval().double()


N = sum(LENGTHS)


def tokens(n=N):
    return torch.randint(0, 11, (n,), generator=torch.Generator().manual_seed(1))


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("variant", KINDS, ids=str)
@pytest.mark.parametrize("causal", [True, False])
def test_a_sequence_alone_is_as_in_the_batch_and_in_a_rectangle(variant, causal):
    model, layout = make(variant, causal), Ragged(LENGTHS)
    hidden = model(tokens(), layout)
    assert hidden.shape == (sum(LENGTHS), model.d_out)
    for each, expected in zip(tokens().split(LENGTHS), hidden.split(LENGTHS), strict=True):
        close(model(each, Ragged([len(each)])), expected)
    padded = model(layout.pad(tokens()), Rectangle(layout.lengths, layout.longest))
    close(layout.flatten(padded), hidden)


@pytest.mark.parametrize("variant", KINDS, ids=str)
def test_the_future_does_not_change_the_past(variant):
    model, layout = make(variant), Ragged(LENGTHS)
    changed = tokens()
    changed[3] = (changed[3] + 1) % 11
    difference = (model(tokens(), layout) - model(changed, layout)).abs().sum(1)
    assert not difference[:3].any() and (difference[3:5] > 0).all() and not difference[5:].any()


@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("n_layers", [1, 3, 6])
def test_the_receptive_field_is_as_the_formula_says(kind, causal, n_layers):
    n, middle = 201, 100
    # Wide enough that no ReLU is silent in all channels.
    model = make(
        {"kind": kind, "n_layers": n_layers, "position": "none", "d_model": 64, "max_length": n, "kernel": 3}, causal
    )
    x = model.embed(tokens(n), Ragged([n])).detach().requires_grad_()
    hidden = x
    for block in model.blocks:
        hidden = block(hidden, Ragged([n]))
    hidden[middle].square().sum().backward()
    seen = x.grad.abs().sum(1).nonzero()[:, 0]
    field = model.config.receptive_field
    back = field - 1 if causal else (field - 1) // 2
    assert (seen.min(), seen.max()) == (middle - back, middle if causal else middle + back)
    assert field == {"convs2s": {1: 3, 3: 7, 6: 13}, "bytenet": {1: 3, 3: 15, 6: 65}}[kind][n_layers]


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@pytest.mark.parametrize("variant", [*KINDS, {"kernel": 1}, {"kernel": 2, "kind": "bytenet"}], ids=str)
def test_stepping_equals_the_whole(variant):
    model = make(variant)
    rows = tokens(3 * 40).view(3, 40)
    whole = model(rows.flatten(), Ragged([40] * 3)).view(3, 40, -1)
    state = model.start(3, room=40)
    pieces = [model.step(piece, state) for piece in rows.split([1, 1, 7, 1, 20, 1, 1, 8], dim=1)]
    close(torch.cat(pieces, dim=1), whole)
    assert state.lengths.tolist() == [40] * 3 and state.n_rows == 3


def whole(model, row):
    return model(row, Ragged([len(row)]))[-1]


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_rows_are_selected_and_joined(kind):
    model = make({"kind": kind})
    one, other = tokens(2 * 9).view(2, 9), tokens(6).view(1, 6)
    state, second = model.start(2, room=20), model.start(1, room=20)
    model.step(one[:, :4], state)
    model.step(one[:, 4:], state)
    model.step(other, second)
    state.select(torch.tensor([1, 0, 1]))
    state.join(second)
    state.reorder(torch.tensor([3, 1, 2, 0]))
    histories = [other[0], one[0], one[1], one[1]]
    assert state.lengths.tolist() == [6, 9, 9, 9]
    new = torch.tensor([[3], [4], [5], [6]])
    hidden = model.step(new, state)
    for history, token, row in zip(histories, new, hidden, strict=True):
        close(row[0], whole(model, torch.cat([history, token])))


@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("before", [0, 1, 30])
def test_the_last_step_can_be_taken_back_in_part(kind, before):
    model = make({"kind": kind})
    rows = tokens(4 * (before + 5)).view(4, -1)
    state = model.start(4, room=50)
    if before:
        model.step(rows[:, :before], state)
    model.step(rows[:, before:], state)
    kept = [before + 5, before + 2, before, 0]
    state.truncate(torch.tensor([99, *kept[1:]]))
    assert state.lengths.tolist() == kept
    new = torch.tensor([[3, 1], [4, 1], [5, 1], [6, 1]])
    hidden = model.step(new, state)
    for row, n, token, found in zip(rows, kept, new, hidden, strict=True):
        close(found[-1], whole(model, torch.cat([row[:n], token])))


def test_more_than_the_last_step_cannot_be_taken_back():
    model = make({})
    state = model.start(1, room=20)
    model.step(tokens(7)[None], state)
    model.step(tokens(2)[None], state)
    with pytest.raises(RegardError, match=r"the 2 tokens of its last step.*not 3"):
        state.truncate(torch.tensor([6]))


def test_what_is_kept_does_not_grow():
    model = make({"kind": "bytenet"})
    state = model.start(1, room=70)
    sizes = set()
    for token in tokens(70):
        model.step(token.view(1, 1), state)
        sizes.add(sum(seen.numel() for seen in state.seen))
    dilations = [1, 2, 4, 8, 16, 1]
    assert sizes == {sum(2 * dilation + 1 for dilation in dilations) * 4}


def test_a_model_that_sees_both_sides_cannot_write():
    with pytest.raises(RegardError, match="causal = true"):
        make({}, causal=False).start(1, room=8)


def test_it_learns_what_lies_within_its_field_and_no_more():
    """The token three places back: a field of 5 has it, a field of 3 does not."""
    rows = torch.randint(0, 4, (16 * 20,), generator=torch.Generator().manual_seed(0))
    layout, wanted = Ragged([20] * 16), rows.view(16, 20)[:, :-3]
    losses = {}
    for n_layers in (1, 2):
        torch.manual_seed(0)
        config = ConvolutionalConfig(
            vocab_size=4, d_model=32, n_layers=n_layers, kernel=3, dropout=0.0, position="none", max_length=20
        )
        model = Convolutional(config)
        head = torch.nn.Linear(32, 4)
        optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=0.01)
        for _ in range(60):
            found = head(model(rows, layout)).view(16, 20, 4)[:, 3:]
            loss = torch.nn.functional.cross_entropy(found.flatten(0, 1), wanted.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses[n_layers] = loss.item()
    assert losses[1] > 1 > 0.1 > losses[2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"d_model": 0}, "d_model must be at least 1, got 0"),
        ({"kernel": 0}, "kernel must be at least 1, got 0"),
        ({"kernel": 2, "causal": False}, "kernel must be odd, got 2"),
        ({"kind": "bytenet", "d_model": 7}, "d_model must be even, got 7"),
        ({"kind": "wavenet"}, "unknown kind of convolution 'wavenet'; choose one of: bytenet, convs2s"),
        ({"position": "rotary"}, "unknown position encoding for convolutions 'rotary'"),
        ({"position": "alibi"}, "unknown position encoding for convolutions 'alibi'"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1"),
    ],
)
def test_mistakes_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        ConvolutionalConfig(**SMALL | settings)
