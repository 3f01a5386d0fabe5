"""A task for attention, words in reverse order: with it, it is learnt in seconds, and without it hardly."""

import pytest
import torch
from torch import nn

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.nn.layout import Ragged
from regard.nn.loss import plain_cross_entropy
from regard.nn.watch import watch

START, END = 1, 2


@pytest.fixture
def one_thread():
    """Small products wait for their second thread longer than they take."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def reversing(draw, n):
    """Sentences of 2 to 6 words and their reversals: source with its end, target from its start, labels."""
    words = [torch.randint(3, 11, (k,), generator=draw) for k in torch.randint(2, 7, (n,), generator=draw).tolist()]
    start, end = torch.tensor([START]), torch.tensor([END])
    sides = [(torch.cat([w, end]), torch.cat([start, w.flip(0)]), torch.cat([w.flip(0), end])) for w in words]
    return words, [torch.cat(side) for side in zip(*sides, strict=True)], Ragged([len(w) + 1 for w in words])


def learnt_to_reverse(score, draw, steps=150):
    torch.manual_seed(0)
    model = Seq2Seq(Seq2SeqConfig(vocab_size=11, d_model=16, d_hidden=32, dropout=0.0, score=score)).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.015)
    for step in range(steps):
        _, (source, target, labels), layout = reversing(draw, 48)
        hidden = model(source, layout, target, layout)
        optimizer.zero_grad()
        (plain_cross_entropy(hidden, model.output_table, labels, 0.0) / len(labels)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = 0.015 * (1 - step / steps)
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize(
    ("score", "fewest", "most"),
    [("additive", 95, 100), pytest.param("none", 0, 70, marks=pytest.mark.slow)],  # as many steps, to learn little
)
def test_with_attention_it_learns_to_reverse_and_looks_where_it_reads(score, fewest, most, one_thread):
    draw = torch.Generator().manual_seed(0)
    model = learnt_to_reverse(score, draw)
    words, (source, target, _), layout = reversing(draw, 100)
    found = generate(model, [[*w.tolist(), END] for w in words], DecodingConfig(beam=2), START, END)
    right = sum(best[0].tokens == w.flip(0).tolist() for best, w in zip(found, words, strict=True))
    assert fewest <= right <= most
    with watch(model) as seen, torch.no_grad():
        model(source, layout, target, layout)
    for cross in seen.sightings:  # without attention, none
        looks = [cross.weights[i, 0, : len(w)].argmax(-1) for i, w in enumerate(words)]
        backwards = [torch.arange(len(w)).flip(0) for w in words]
        assert (torch.cat(looks) == torch.cat(backwards)).float().mean() > 0.95
