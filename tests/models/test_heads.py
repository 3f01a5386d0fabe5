"""The language model around every reader: prompts of all lengths, copies, rows that move, and its loss."""

import pytest
import torch
from torch.nn import functional as F

from regard.errors import ConfigError, RegardError
from regard.models.convolutional import Convolutional, ConvolutionalConfig
from regard.models.heads import LanguageModel
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.stack import Stack, StackConfig
from regard.nn.layout import Ragged

V = 11
READERS = {
    "lstm": lambda: Recurrent(RecurrentConfig(vocab_size=V, d_model=6, d_hidden=5, dropout=0.0)),
    "tied lstm": lambda: Recurrent(RecurrentConfig(vocab_size=V, d_model=6, d_hidden=5, d_last=6, dropout=0.0)),
    "convolutional": lambda: Convolutional(
        ConvolutionalConfig(vocab_size=V, d_model=8, n_layers=2, dropout=0.0, max_length=12)
    ),
    "stack": lambda: Stack(
        StackConfig(vocab_size=V, d_model=8, n_heads=2, n_layers=2, d_ff=16, dropout=0.0, max_length=12)
    ),
}
PROMPTS = [[1, 2, 3, 4], [5], [6, 7], [8, 9, 10, 1], [3]]
NEXT = [[2, 9], [4, 4], [1, 7], [5, 3], [10, 8]]


@pytest.fixture(params=READERS)
def model(request):
    torch.manual_seed(0)
    return LanguageModel(READERS[request.param]()).eval()


def whole(model, tokens):
    """Logits after every token of one text."""
    return model(torch.tensor(tokens), Ragged([len(tokens)])) @ model.output_table.T


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@torch.no_grad()
@pytest.mark.parametrize("copies", [1, 3])
def test_prompts_of_all_lengths_go_on_as_the_whole_does(model, copies):
    state, first = model.start(PROMPTS, 0, copies, room=3)
    assert state.n_rows == 5 * copies
    later = model.step(torch.tensor(NEXT).repeat_interleave(copies, 0), state)
    got = torch.cat([first.repeat_interleave(copies, 0)[:, None], later], 1)
    assert state.lengths.tolist() == [len(prompt) + 2 for prompt in PROMPTS for _ in range(copies)]
    for i, (prompt, new) in enumerate(zip(PROMPTS, NEXT, strict=True)):
        for copy in range(copies):
            close(got[i * copies + copy], whole(model, prompt + new)[-3:])


@torch.no_grad()
def test_prompts_of_about_one_length_are_read_together(monkeypatch):
    torch.manual_seed(0)
    model = LanguageModel(READERS["stack"]()).eval()
    prompts = [[1] * n for n in (8, 2, 7, 9, 1, 10)]
    shapes, step = [], model.reader.step
    monkeypatch.setattr(model.reader, "step", lambda tokens, state: shapes.append(tokens.shape) or step(tokens, state))
    state, first = model.start(prompts, 0, room=2)
    assert [tuple(shape) for shape in shapes] == [(1, 1), (1, 2), (1, 7), (3, 10)]
    assert state.lengths.tolist() == list(map(len, prompts))
    for row, prompt in zip(first, prompts, strict=True):
        close(row, whole(model, prompt)[-1])


@torch.no_grad()
def test_rows_move_and_join(model):
    state, _ = model.start(PROMPTS[:3], 0, room=4)
    state.join(model.start(PROMPTS[3:], 0, room=4)[0])
    state.select(torch.tensor([4, 0, 0, 2]))
    state.reorder(torch.tensor([1, 0, 2, 3]))
    texts = [[*PROMPTS[i], 3] for i in (0, 4, 0, 2)]
    for row, text in zip(model.step(torch.full((4, 1), 3), state), texts, strict=True):
        close(row, whole(model, text)[-1:])
    state.join(model.start([[2, 2]], 0, room=4)[0])
    state.select(torch.tensor([4, 3, 1]))
    got = model.step(torch.tensor([[5], [6], [7]]), state)
    for row, text in zip(got, ([2, 2, 5], [*texts[3], 6], [*texts[1], 7]), strict=True):
        close(row, whole(model, text)[-1:])


@torch.no_grad()
def test_a_prompt_may_be_read_in_pieces(model):
    long = [1, 2, 3, 4, 5, 6, 7]
    state, _ = model.start([long[:3]], 0, room=6)
    close(model.step(torch.tensor([long[3:]]), state)[0], whole(model, long)[3:])
    assert model.reads_on


@torch.no_grad()
def test_nats_are_the_cross_entropy_of_the_logits(model):
    texts = [[1, 2, 3, 4, 5], [6, 7], [8, 9, 10]]
    tokens = torch.tensor([token for text in texts for token in text[:-1]])
    labels = torch.tensor([token for text in texts for token in text[1:]])
    layout = Ragged([len(text) - 1 for text in texts])
    for smoothing in (0.0, 0.1):
        expected = sum(
            F.cross_entropy(whole(model, t[:-1]), torch.tensor(t[1:]), label_smoothing=smoothing, reduction="sum")
            for t in texts
        )
        close(model.nats(tokens, labels, layout, smoothing), expected)


def test_the_output_table_is_the_embeddings_where_it_fits():
    tied, own = (LanguageModel(READERS[name]()) for name in ("tied lstm", "lstm"))
    assert tied.own_table is None and tied.output_table is tied.embedding.weight
    assert own.own_table is not None and own.output_table.shape == (V, 5)
    assert own.output_table is not own.embedding.weight


@torch.no_grad()
def test_prompts_that_cannot_be():
    model = LanguageModel(READERS["stack"]())
    model.eval()
    close(model.start([[1], []], 7, room=2)[1][1], whole(model, [7])[-1])  # a text that is empty begins with 7
    with pytest.raises(RegardError, match="a prompt of 9 tokens and 5 more do not fit the model's 12"):
        model.start([[1] * 9, [2]], 0, room=5)
    model.start([[1] * 9, [2]], 0, room=4)  # the last that is written is not read
    with pytest.raises(ConfigError, match="must not see the future"):
        LanguageModel(Recurrent(RecurrentConfig(vocab_size=V, bidirectional=True)))
