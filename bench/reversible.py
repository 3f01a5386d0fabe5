"""python -m bench.reversible: what is kept for the gradient, by the number of layers, plain and reversible."""

import torch
from torch import Tensor

from regard.models.stack import Stack, StackConfig
from regard.nn.layout import Ragged

LAYERS, LENGTH = (2, 4, 8), 4096
SIZES = {"vocab_size": 256, "d_model": 256, "n_heads": 4, "d_ff": 1024, "max_length": LENGTH, "attention_window": 256}


def kept(model: Stack, length: int) -> int:
    """Bytes beside the weights."""
    own = {weight.data_ptr() for weight in model.parameters()}
    sizes: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in own:
            sizes[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = model(torch.zeros(length, dtype=torch.long), Ragged([length]))
    del out
    return sum(sizes.values())


if __name__ == "__main__":
    print(f"one sequence of {LENGTH:,} tokens, width 256, a window of 256, float32")
    for n_layers in LAYERS:
        figures = []
        for reversible in (False, True):
            config = StackConfig(**SIZES, n_layers=n_layers, dropout=0.0, position="rotary", reversible=reversible)  # type: ignore[arg-type]
            figures.append(kept(Stack(config), LENGTH) / 2**20)
        print(f"{n_layers} layers: plain {figures[0]:.0f} MiB, reversible {figures[1]:.0f} MiB")
