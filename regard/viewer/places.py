"""The position encoding of a model as a table that can be drawn."""

import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.errors import RegardError
from regard.nn.positions import Position, Sinusoidal, sinusoids


def position_table(model: Any, n_positions: int, n_channels: int) -> np.ndarray:
    """What is added to the embeddings at each of the first places, (positions, channels)."""
    position = first_position(model)
    if type(position) is Sinusoidal:  # the documents' table, which is the same for every width and length
        return sinusoids(n_positions, n_channels).numpy()
    places = torch.arange(min(n_positions, position.max_length))
    nothing = torch.zeros(len(places), model.config.d_model)
    table = copy.deepcopy(position).cpu().embed(nothing, places)
    if not table.any():
        name = model.config.position
        raise RegardError(f"the position encoding {name!r} adds nothing to the embeddings: no table to draw")
    return table[:, :n_channels].detach().numpy()


def first_position(model: nn.Module) -> Position:
    """The encoding that the model's input meets first: of an encoder-decoder, its encoder's."""
    return next(module for module in model.modules() if isinstance(module, Position))
