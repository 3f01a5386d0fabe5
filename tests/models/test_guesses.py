"""The likeliest next token, as accuracy counts it: the largest of all logits, however the rows are cut."""

import pytest
import torch
from small_markov import V, batch, make

from regard.models import heads, markov
from regard.models.heads import LanguageModel
from regard.models.recurrent import Recurrent, RecurrentConfig


@pytest.mark.parametrize("kind", markov.KINDS)
def test_a_markov_model_guesses_what_it_thinks_likeliest(kind, monkeypatch):
    model = make(kind=kind)
    tokens, _, layout = batch()
    expected = model(tokens, layout).argmax(1)
    torch.testing.assert_close(model.guesses(tokens, layout), expected)
    monkeypatch.setattr(markov, "CELLS", 2 * V)  # two rows at a time
    torch.testing.assert_close(model.guesses(tokens, layout), expected)


def test_a_language_model_guesses_what_it_thinks_likeliest(monkeypatch):
    torch.manual_seed(0)
    model = LanguageModel(Recurrent(RecurrentConfig(vocab_size=V, d_model=4, d_hidden=4))).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    tokens, _, layout = batch()
    expected = (model(tokens, layout) @ model.output_table.T).argmax(1)
    monkeypatch.setattr(heads, "ROWS", 3)
    torch.testing.assert_close(model.guesses(tokens, layout), expected)
    assert len(expected.unique()) > 1
