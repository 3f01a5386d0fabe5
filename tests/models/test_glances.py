"""What is looked at of texts without end: their last part, with what is kept of the tokens before it."""

import pytest
import torch

from regard.models.stack import Stack, StackConfig
from regard.models.transformer_xl import TransformerXL, TransformerXLConfig
from regard.nn.layout import Ragged
from regard.nn.watch import watch
from regard.text import Tokenizer, TokenizerConfig
from regard.viewer.looking import Focus, look_at_long_text

SMALL = {"vocab_size": 14, "d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 16, "dropout": 0.0, "max_length": 6}
KINDS = {
    "window": (Stack, StackConfig(**SMALL, attention_window=3, position="rotary")),
    "wide window": (Stack, StackConfig(**SMALL, attention_window=9, position="alibi")),
    "global rows": (Stack, StackConfig(**SMALL, attention_window=3, global_rows=2, position="buckets")),
    "reversible": (Stack, StackConfig(**SMALL, attention_window=3, position="rotary", reversible=True)),
    "memory": (TransformerXL, TransformerXLConfig(**SMALL, memory=4)),
    "hashing": (Stack, StackConfig(**SMALL, hash_rounds=2, hash_chunk=3, position="rotary")),
}


def make(kind):
    torch.manual_seed(0)
    architecture, config = KINDS[kind]
    return architecture(config).eval()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [4, 6, 13, 24])
@torch.no_grad()
def test_a_glance_sees_what_is_seen_in_writing(kind, length):
    model = make(kind)
    tokens = torch.randint(0, 14, (length,), generator=torch.Generator().manual_seed(1))
    glance = model.glance(tokens)
    with watch(model) as seen:
        rows = glance.read().view(-1, 8)
    assert glance.begin == (length - 1) // 6 * 6 and len(rows) == length - glance.begin
    state = model.start(1, length)
    written = torch.cat([model.step(tokens[None, i : i + 1], state)[0] for i in range(length)])
    if kind != "hashing" or glance.begin:  # a whole text is hashed in chunks
        torch.testing.assert_close(rows, written[glance.begin :], atol=1e-5, rtol=1e-5)
    weights = seen.of("self", 0).weights[0]
    assert weights.shape[1:] == (len(rows), len(glance.made_of))
    if kind != "hashing":
        with watch(model) as whole:
            model(tokens, Ragged([length]))
        expected = whole.of("self", 0).weights[0, :, glance.begin :]
        columns = [begin for begin, _ in glance.made_of]
        torch.testing.assert_close(weights, expected[..., columns], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, len(rows)))  # no column is missing


def test_parts_of_a_text_without_end_look_back():
    model = make("global rows")
    letters = Tokenizer.train(["0123456789"], TokenizerConfig(kind="characters"))
    text = "01234567890123456789"
    looked = [look_at_long_text(model, letters, letters.encode, text, Focus(part=part)) for part in (1, 2, 4)]
    assert [seen.n_parts for seen in looked] == [4, 4, 4]
    assert [seen.title for seen in looked] == ["part 1 of 4: 012345", "part 2 of 4: 678901", "part 4 of 4: 89"]
    assert ["".join(seen.maps[0].queries) for seen in looked] == ["012345", "678901", "89"]
    assert ["".join(seen.maps[0].keys) for seen in looked] == ["012345", "01345678901", "0156789"]
    assert looked[0].notes == ()
    assert looked[2].notes == ("these 2 tokens also look at what is kept of the 18 before them",)
