"""What a model knows of positions, as tables to draw: rows added to embeddings, angles that turn queries and keys,
biases added to scores."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regard.errors import RegardError
from regard.models.interface import Model
from regard.nn.layout import Ragged
from regard.nn.positions import Position, sinusoids
from regard.nn.relative import RelativePlaces


@dataclass(frozen=True, eq=False)
class PositionTable:
    title: str
    values: np.ndarray  # (rows, columns)
    rows: str  # what a row is, such as "position"
    columns: str
    first_column: int = 0  # the number of the leftmost column
    is_angle: bool = False  # in 0 .. 2π, which are the same

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or not self.values.size:
            raise RegardError(f"a position table has rows and columns, got shape {self.values.shape}")


def lecture_table(n_positions: int = 60, n_channels: int = 32) -> PositionTable:
    """The sinusoids of the lectures, of no run: a run of another width has other wavelengths."""
    title = f"Sinusoids, {n_positions} positions by {n_channels} channels"
    return PositionTable(title, sinusoids(n_positions, n_channels).numpy(), "position", "channel")


@torch.no_grad()
def position_tables(model: Model, n_positions: int) -> list[PositionTable]:
    """What the model itself has for its first positions; source and target apart, where they differ."""
    tables: list[PositionTable] = []
    sides: list[list[str]] = []  # of each table
    for side, table in of_model(model, n_positions):
        same = next((i for i, known in enumerate(tables) if np.array_equal(known.values, table.values)), None)
        if same is None:
            tables.append(table)
            sides.append([side])
        else:
            sides[same].append(side)
    if not tables:
        raise RegardError("this model has no position encoding to draw")
    kind = model.config.position or "relative"
    names = [kind if "" in of_table else f"{kind}, {' and '.join(of_table)}" for of_table in sides]
    return [replace(table, title=f"{name}: {table.title}") for name, table in zip(names, tables, strict=True)]


def of_model(model: Model, n_positions: int) -> Iterator[tuple[str, PositionTable]]:
    """Every table, and what it is of, as the model names it: "source", "target", "generator", or "" for all of it."""
    for path, module in model.named_modules():
        if isinstance(module, Position):
            side = " ".join(part for part in re.split("[._]", path) if part not in ("reader", "position"))
            yield from ((side, table) for table in of_position(module, n_positions, model.device))
        elif isinstance(module, RelativePlaces):
            yield "", of_distances(module, n_positions, model.device)


def of_position(position: Position, n_positions: int, device: torch.device) -> Iterator[PositionTable]:
    """A table for each of the three sites at which the encoding acts."""
    space = position.space
    n = min(n_positions, space.max_length)
    places = torch.arange(n, device=device)
    what = f"{n} of {space.max_length:,} positions"

    added = position.embed(torch.zeros(n, space.d_model, device=device), places)
    if added.any():
        title = f"added to the embeddings, {what} by {space.d_model} channels"
        yield PositionTable(title, as_array(added), "position", "channel")

    # Of every pair of channels the vector (1, 0), which becomes (cos, sin) of its angle.
    pairs = torch.zeros(n, 1, space.width, device=device)
    pairs[..., 0::2] = 1
    turned = position.rotate(pairs, Ragged([n], device))
    if not torch.equal(turned, pairs):
        angles = torch.atan2(turned[:, 0, 1::2], turned[:, 0, 0::2]) % (2 * math.pi)
        title = f"angles that turn queries and keys, {what} by {angles.shape[1]} pairs of channels"
        yield PositionTable(title, as_array(angles), "position", "pair of channels", is_angle=True)

    if position.has_bias:  # of a query at n - 1, on keys before it, at it, and (where it may look ahead) after it
        keys = torch.arange(n if space.one_sided else 2 * n - 1, device=device)
        bias = position.bias(places[None, -1:], keys)[0, :, 0]  # H K
        title = f"added to the scores, {len(bias)} heads by distance"
        yield PositionTable(title, as_array(bias), "head", "distance from query to key", first_column=1 - n)


def of_distances(places: RelativePlaces, n_positions: int, device: torch.device) -> PositionTable:
    """R_d of `RelativeAttention`, from which every head computes its own bias."""
    n = min(n_positions, len(places.sines))
    distances = torch.arange(n, device=device)
    table = torch.cat([places.sines[distances], places.cosines[distances]], -1)
    title = f"sines, then cosines of the distance, {n} distances by {table.shape[1]} channels"
    return PositionTable(title, as_array(table), "distance", "channel")


def as_array(tensor: Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()
