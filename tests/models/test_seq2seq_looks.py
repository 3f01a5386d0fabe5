"""What was seen enters the next state: input feeding, and Bahdanau's order.  The equations are in test_seq2seq.py."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.nn.layout import Ragged

LOOPS = ("feed", "before")


def make(**settings):
    torch.manual_seed(0)
    small = {"vocab_size": 11, "d_model": 6, "d_hidden": 8, "dropout": 0.0, "max_length": 32}
    return Seq2Seq(Seq2SeqConfig(**small | settings)).eval()


def batch():
    torch.manual_seed(1)
    return torch.randint(0, 11, (10,)), Ragged([3, 1, 6]), torch.randint(0, 11, (7,)), Ragged([4, 2, 1])


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("look", LOOPS)
def test_what_was_seen_enters_the_next_state(look):
    """Other rows at the place that the first word looks at change the second state, by nothing but the context."""
    model = make(look=look, score="location")
    source, source_layout, target, target_layout = batch()
    nn.init.zeros_(model.bridge.weight)
    fed = model.decoder.forwards[0].kernel.weight_ih_l0[:, model.config.d_model :]
    first, second = (model.read_both(s, source_layout, target, target_layout) for s in (source, (source + 1) % 11))
    assert (first.hidden[1:4] - second.hidden[1:4]).abs().max() > 1e-3
    with torch.no_grad():
        fed.zero_()  # U no longer reads what is fed
    first, second = (model.read_both(s, source_layout, target, target_layout) for s in (source, (source + 1) % 11))
    close(first.hidden, second.hidden)


def test_weights_are_dropped_once_for_all_steps_of_a_pass(monkeypatch):
    model, drawn = make(look="before", cell="rnn", recurrent_dropout=0.5).train(), []
    monkeypatch.setattr(F, "dropout", lambda x, p, *_: drawn.append((x.shape, p)) or x)
    model(*batch())
    assert drawn.count(((8, 8), 0.5)) == 3  # V of the encoder's two cells and of the decoder's
