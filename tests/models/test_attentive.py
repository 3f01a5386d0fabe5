"""Recurrent nets with attention: the equation, no look ahead, steps that equal the whole, alone as in a batch."""

import pytest
import torch

from regard.errors import ConfigError, RegardError
from regard.models.attentive import Attentive, AttentiveConfig
from regard.models.heads import LanguageModel
from regard.nn.layout import Ragged, Rectangle
from regard.nn.scores import SCORES
from regard.nn.watch import watch

LENGTHS = [3, 1, 6]


def make(**settings):
    torch.manual_seed(0)
    small = {"vocab_size": 11, "d_model": 6, "d_hidden": 8, "n_layers": 1, "dropout": 0.0, "max_length": 16}
    return Attentive(AttentiveConfig(**small | settings)).eval()


def tokens_of(lengths):
    torch.manual_seed(1)
    return torch.randint(0, 11, (sum(lengths),)), Ragged(lengths)


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_it_is_the_equation():
    model = make()
    tokens, layout = tokens_of([6])
    h = model.recurrent(tokens, layout)
    attention = model.attention
    q, k, v = attention.to_queries(h), attention.to_keys(h), attention.to_values(h)
    rows = []
    for t in range(6):
        weights = (q[t] @ k[: t + 1].T / 8**0.5).softmax(-1)
        c = attention.to_output(weights @ v[: t + 1])
        rows.append(torch.tanh(model.combine(torch.cat([c, h[t]]))))
    close(model(tokens, layout), torch.stack(rows))


def test_a_token_sees_its_past_alone():
    model = make()
    tokens, layout = tokens_of(LENGTHS)
    changed = tokens.clone()
    changed[8] = (changed[8] + 1) % 11  # fifth of the last sequence
    moved = (model(tokens, layout) - model(changed, layout)).abs().amax(1) > 1e-7
    assert moved.tolist() == [False] * 8 + [True, True]


def test_a_sentence_alone_is_as_in_the_batch():
    model = make(n_layers=2)
    tokens, layout = tokens_of(LENGTHS)
    whole = model(tokens, layout)
    assert whole.shape == (10, model.d_out) == (10, 6)
    close(torch.cat([model(part, Ragged([len(part)])) for part in tokens.split(LENGTHS)]), whole)
    close(layout.flatten(model(layout.pad(tokens), Rectangle(layout.lengths, layout.longest))), whole)


@pytest.mark.parametrize("score", SCORES)
def test_steps_give_the_rows_of_the_whole(score):
    model = make(score=score)
    tokens, layout = tokens_of([6, 6])
    with torch.no_grad():
        expected = layout.pad(model(tokens, layout))
        for sizes in ([1] * 6, [2, 4], [6]):
            state = model.start(2, room=6)
            steps = [model.step(part, state) for part in layout.pad(tokens).split(sizes, dim=1)]
            close(torch.cat(steps, dim=1), expected)
            assert state.n_rows == 2 and state.lengths.tolist() == [6, 6]


def test_rows_of_a_state_are_taken_put_together_and_never_shortened():
    model = make()
    rows = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    with torch.no_grad():
        state, other = model.start(2, room=8), model.start(1, room=4)
        model.step(rows[:2], state)
        model.step(rows[2:, :2], other)
        state.join(other)
        state.select(torch.tensor([2, 0, 0]))
        state.reorder(torch.tensor([1, 0, 2]))
        state.truncate(torch.tensor([3, 9, 3]))
        assert state.lengths.tolist() == [3, 2, 3]
        got = model.step(torch.tensor([[3], [3], [4]]), state)[:, 0]
        for row, past in zip(got, ([1, 2, 3, 3], [7, 8, 3], [1, 2, 3, 4]), strict=True):
            close(row, model.step(torch.tensor([past]), model.start(1, room=4))[0, -1])
        with pytest.raises(RegardError, match="cannot take tokens back"):
            state.truncate(torch.tensor([1, 1, 1]))


def test_it_is_watched_and_its_embeddings_write():
    model = LanguageModel(make())
    tokens, layout = tokens_of([5])
    with watch(model) as seen:
        model(tokens, layout)
    weights = seen.of("self", 0).weights[0, 0]
    close(weights.sum(-1), torch.ones(5))
    assert not weights.triu(1).any()
    assert model.output_table is model.reader.embedding.weight
    assert len(list(model.parameters())) == len({id(p) for p in model.state_dict(keep_vars=True).values()})


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"cell": "lstmm"}, "lstm"), ({"score": "dots"}, "dot"), ({"dropout": 1.0}, "dropout"), ({"d_hidden": 0}, "d_h")],
)
def test_settings_that_cannot_be(setting, message):
    with pytest.raises(ConfigError, match=message):
        make(**setting)
