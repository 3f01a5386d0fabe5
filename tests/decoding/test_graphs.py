"""CUDA graphs change the speed and nothing else."""

import pytest
import torch

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.decoding.graphs import Graphed, fastest, rounded
from regard.models.transformer import Transformer, TransformerConfig


def test_on_a_cpu_the_model_itself_decodes():
    model = Transformer(TransformerConfig(vocab_size=50, d_model=8, n_heads=1, n_layers=1, d_ff=8))
    assert fastest(model) is model
    assert [rounded(n) for n in (1, 32, 33)] == [32, 32, 64]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are of CUDA")
@pytest.mark.parametrize("beam", [1, 4])
def test_graphed_steps_write_what_eager_steps_write(beam):
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(vocab_size=50, d_model=64, n_heads=4, n_layers=2, d_ff=128)).cuda().eval()
    graphed = Graphed(model)
    config = DecodingConfig(beam=beam, extra_length=10)
    for seed, n in ((1, 5), (2, 5), (3, 9)):  # the second batch reuses the first one's graph
        draw = torch.Generator().manual_seed(seed)
        lengths = torch.randint(1, 12, (n,), generator=draw).tolist()
        prompts = [torch.randint(4, 50, (k,), generator=draw).tolist() for k in lengths]
        eager, fast = (generate(g, prompts, config, 1, 2) for g in (model, graphed))
        assert [h[0].tokens for h in fast] == [h[0].tokens for h in eager]
        assert [h[0].log_prob for h in fast] == pytest.approx([h[0].log_prob for h in eager], abs=1e-3)
    assert graphed.graphs
