"""Under autocast what flows from layer to layer is in half precision; norms and the answer stay near the exact ones."""

import pytest
import torch

from regard.models.stack import Stack, StackConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.layout import Ragged

SIZES = dict(vocab_size=30, d_model=16, n_heads=2, n_layers=2, d_ff=32, dropout=0.0, max_length=16)


def inputs() -> tuple[torch.Tensor, Ragged]:
    torch.manual_seed(0)
    layout = Ragged([5, 1, 7])
    return torch.randint(0, 30, (layout.n_rows,)), layout


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("kind", ["stack", "transformer"])
def test_layers_hand_on_what_products_are_taken_in(kind: str, pre_norm: bool) -> None:
    tokens, layout = inputs()
    model = (
        Stack(StackConfig(**SIZES, pre_norm=pre_norm))
        if kind == "stack"
        else Transformer(TransformerConfig(**SIZES, pre_norm=pre_norm))
    ).eval()
    both = (tokens, layout) if kind == "stack" else (tokens, layout, tokens, layout)
    blocks = model.blocks if kind == "stack" else [*model.encoder, *model.decoder]
    seen: list[torch.dtype] = []
    for block in blocks:
        block.register_forward_hook(lambda module, given, found: seen.append(found.dtype))
    with torch.no_grad():
        exact = model(*both)
        assert set(seen) == {torch.float32}
        seen.clear()
        with torch.autocast("cpu", torch.bfloat16):
            half = model(*both)
    assert set(seen) == {torch.bfloat16}
    assert (half.float() - exact).abs().mean() < 0.02 * exact.abs().mean()
