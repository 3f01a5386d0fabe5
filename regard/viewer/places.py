"""The position encoding of a model as a table that can be drawn."""

import copy

import numpy as np
import torch

from regard.errors import RegardError
from regard.models.interface import Model
from regard.nn.positions import Position, Sinusoidal, sinusoids


def position_table(model: Model, n_positions: int, n_channels: int) -> np.ndarray:
    """What is added to the embeddings at each of the first places, (positions, channels)."""
    name = model.config.position
    if name is None:
        raise RegardError("this model has no position encoding to draw")
    # What the input meets first: of an encoder-decoder, its encoder's.
    position = next(module for module in model.modules() if isinstance(module, Position))
    if type(position) is Sinusoidal:  # the same for every width and length
        return sinusoids(n_positions, n_channels).numpy()
    places = torch.arange(min(n_positions, position.max_length))
    nothing = torch.zeros(len(places), model.config.d_model)
    table = copy.deepcopy(position).cpu().embed(nothing, places)
    if not table.any():
        raise RegardError(f"the position encoding {name!r} adds nothing to the embeddings: no table to draw")
    return table[:, :n_channels].detach().numpy()
