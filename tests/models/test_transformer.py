import pytest
import torch
from torch import nn

from regard.errors import ConfigError
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.blocks import FEED_FORWARDS
from regard.nn.layout import Ragged, Rectangle
from regard.nn.norms import NORMS
from regard.nn.positions import POSITIONS
from regard.nn.scores import SCORES
from tests.drawn import covering_fast

SMALL = {"vocab_size": 11, "d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 32, "dropout": 0.0, "max_length": 32}
SOURCES, TARGETS = [3, 1, 6], [4, 2, 1]
BEGIN = 1  # every target begins with it
FACTORS = [
    {"position": POSITIONS, "score": SCORES},
    {"norm": NORMS, "feed_forward": FEED_FORWARDS, "pre_norm": (True, False)},
]
VARIANTS = [  # each value of each factor is fast, and all combinations together, 5 seconds a test, are slow
    pytest.param(dict(zip(factors, combination.values, strict=True)), marks=combination.marks)
    for factors in FACTORS
    for combination in covering_fast(*factors.values())
]


def make(variant):
    torch.manual_seed(0)
    return Transformer(TransformerConfig(**SMALL, **variant)).eval()


def batch():
    torch.manual_seed(1)
    tokens = torch.randint(0, 11, (sum(SOURCES),)), torch.randint(0, 11, (sum(TARGETS),))
    layout = Ragged(TARGETS)
    tokens[1][layout.offsets[:-1].long()] = BEGIN
    return tokens[0], Ragged(SOURCES), tokens[1], layout


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_future_does_not_change_the_past(variant):
    model = make(variant)
    source, source_layout, target, target_layout = batch()
    changed = target.clone()
    changed[2:4] = 3  # the end of the first target
    one, other = (model(source, source_layout, t, target_layout) for t in (target, changed))
    close(one[:2], other[:2])
    close(one[4:], other[4:])  # nor another sentence
    assert (one[2:4] - other[2:4]).abs().max() > 1e-3


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_sentence_alone_is_as_in_the_batch(variant):
    model = make(variant)
    source, source_layout, target, target_layout = batch()
    whole = target_layout.pad(model(source, source_layout, target, target_layout))
    for i, (s, t) in enumerate(zip(source.split(SOURCES), target.split(TARGETS), strict=True)):
        close(model(s, Ragged([len(s)]), t, Ragged([len(t)])), whole[i, : len(t)])


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_cached_steps_give_the_same_logits(variant):
    model = make(variant)
    source, source_layout, target, target_layout = batch()
    with torch.no_grad():
        expected = model.logits(model(source, source_layout, target, target_layout))
        padded = target_layout.pad(target)
        prompts = [s.tolist() for s in source.split(SOURCES)]
        for sizes in ([1, 1, 1], [2, 1], [3]):
            state, first = model.start(prompts, BEGIN, room=4)
            steps = [model.step(part, state) for part in padded[:, 1:].split(sizes, dim=1)]
            close(target_layout.flatten(torch.cat([first[:, None], *steps], dim=1)), expected)


@pytest.mark.parametrize("score", SCORES)
def test_select_truncate_and_join_keep_every_row_its_own(score):
    model = make({"score": score})
    source, *_ = batch()
    prompts = [s.tolist() for s in source.split(SOURCES)]
    rows = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    with torch.no_grad():
        state, _ = model.start(prompts[:2], BEGIN, room=8)
        model.step(rows[:2], state)
        other, _ = model.start(prompts[2:], BEGIN, room=5)
        model.step(rows[2:], other)
        state.join(other)
        state.truncate(torch.tensor([4, 2, 3]))
        state.select(torch.tensor([2, 1]))
        assert state.lengths.tolist() == [3, 2]
        got = model.step(torch.tensor([[3], [3]]), state)[:, 0]
        for i, (prompt, past) in enumerate([(prompts[2], [7, 8, 3]), (prompts[1], [4, 3])]):
            alone, _ = model.start([prompt], BEGIN, room=4)
            close(got[i], model.step(torch.tensor([past]), alone)[0, -1])


@pytest.mark.parametrize("score", SCORES)
def test_copies_share_one_memory_and_give_the_same_logits(score):
    model = make({"score": score})
    source, *_ = batch()
    prompts = [s.tolist() for s in source.split(SOURCES)]
    tokens = torch.tensor([[1], [2], [3], [4], [5], [6]])
    with torch.no_grad():
        shared, first = model.start(prompts, BEGIN, copies=2, room=4)
        apart, first_apart = model.start([p for p in prompts for _ in range(2)], BEGIN, room=4)
        close(first.repeat_interleave(2, 0), first_apart)
        close(model.step(tokens, shared), model.step(tokens, apart))
        swap = torch.tensor([1, 1, 2, 3, 5, 4])
        shared.select(swap)
        apart.select(swap)
        close(model.step(tokens, shared), model.step(tokens, apart))
        assert shared.source.n_rows == 3
        shared.reorder(swap)
        apart.select(swap)
        close(model.step(tokens, shared), model.step(tokens, apart))


def test_a_rectangle_with_padding_gives_what_ragged_rows_give():
    model = make({"position": "rotary"})
    source, source_layout, target, target_layout = batch()
    rectangles = [Rectangle(layout.lengths, layout.longest) for layout in (source_layout, target_layout)]
    padded = model(source_layout.pad(source), rectangles[0], target_layout.pad(target), rectangles[1])
    close(target_layout.flatten(padded), model(source, source_layout, target, target_layout))


def torch_twin(model: Transformer) -> nn.Transformer:
    """torch.nn.Transformer with the same weights, less its two extra final norms."""
    c = model.config
    twin = nn.Transformer(c.d_model, c.n_heads, c.n_layers, c.n_layers, c.d_ff, dropout=0.0, batch_first=True)
    twin.encoder.norm = twin.decoder.norm = None

    def copy(attention, ours):
        parts = (ours.to_queries, ours.to_keys, ours.to_values)
        attention.in_proj_weight.data = torch.cat([p.weight.data for p in parts]).clone()
        attention.in_proj_bias.data = torch.cat([p.bias.data for p in parts]).clone()
        attention.out_proj.load_state_dict(ours.to_output.state_dict())

    for theirs, ours in layer_pairs(twin, model):
        copy(theirs.self_attn, ours.attention)
        theirs.linear1.load_state_dict(ours.feed_forward.expand.state_dict())
        theirs.linear2.load_state_dict(ours.feed_forward.contract.state_dict())
        theirs.norm1.load_state_dict(ours.attention_residual.norm.state_dict())
    for theirs, ours in zip(twin.encoder.layers, model.encoder, strict=True):
        theirs.norm2.load_state_dict(ours.feed_forward_residual.norm.state_dict())
    for theirs, ours in zip(twin.decoder.layers, model.decoder, strict=True):
        copy(theirs.multihead_attn, ours.cross_attention)
        theirs.norm2.load_state_dict(ours.cross_attention_residual.norm.state_dict())
        theirs.norm3.load_state_dict(ours.feed_forward_residual.norm.state_dict())
    return twin


@pytest.mark.filterwarnings("ignore:.*nested tensor.*")
def test_outputs_and_gradients_equal_pytorchs_transformer():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(**SMALL | {"d_model": 64, "n_heads": 4, "d_ff": 96, "n_layers": 3})).train()
    for parameter in model.parameters():  # biases and norms away from zero and one, or their place would not matter
        parameter.data += 0.05 * torch.randn_like(parameter)
    twin = torch_twin(model).train()
    source, source_layout, target, target_layout = batch()
    hidden = model(source, source_layout, target, target_layout)

    table = model.embedding.weight.detach().clone().requires_grad_()

    def embed(tokens, layout):
        x = nn.functional.embedding(layout.pad(tokens), table) * 8  # sqrt(64)
        return x + model.source_position.table[: layout.longest]

    hidden_by_pytorch = target_layout.flatten(
        twin(
            embed(source, source_layout),
            embed(target, target_layout),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(target_layout.longest),
            tgt_is_causal=True,
            src_key_padding_mask=padding(source_layout),
            memory_key_padding_mask=padding(source_layout),
        )
    )
    close(hidden, hidden_by_pytorch)
    push = torch.randn_like(hidden) / len(hidden)  # as a mean over the tokens pushes
    hidden.backward(push)
    hidden_by_pytorch.backward(push)
    close(model.embedding.weight.grad, table.grad)
    for theirs, ours in layer_pairs(twin, model):
        close(ours.feed_forward.expand.weight.grad, theirs.linear1.weight.grad)
        close(ours.attention_residual.norm.weight.grad, theirs.norm1.weight.grad)
        parts = (ours.attention.to_queries, ours.attention.to_keys, ours.attention.to_values)
        close(torch.cat([p.weight.grad for p in parts]), theirs.self_attn.in_proj_weight.grad)
    for theirs, ours in zip(twin.decoder.layers, model.decoder, strict=True):
        close(ours.cross_attention.to_output.weight.grad, theirs.multihead_attn.out_proj.weight.grad)


def layer_pairs(twin, model):
    theirs = [*twin.encoder.layers, *twin.decoder.layers]
    return zip(theirs, [*model.encoder, *model.decoder], strict=True)


def padding(layout):
    return torch.arange(layout.longest) >= layout.lengths[:, None]


def test_unknown_parts_list_the_known_ones():
    with pytest.raises(ConfigError, match="unknown position encoding 'sinus'; choose one of: alibi, binary"):
        make({"position": "sinus"})
    with pytest.raises(
        ConfigError, match="unknown feed-forward net 'tanh'; choose one of: geglu, gelu, gelu_tanh, relu, swiglu, swish"
    ):
        make({"feed_forward": "tanh"})
