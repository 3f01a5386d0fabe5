"""How much memory a model and its training take, by the equation."""

import torch

from regard.runs.recipe import Recipe
from regard.training.recomputing import layers_of


def memory_of(model: torch.nn.Module) -> int:
    """Bytes of its weights and tables; it may be on the meta device."""
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))


def training_memory(recipe: Recipe, model: torch.nn.Module) -> int:
    """Bytes: weights, gradients and two moments in float32, and what a batch leaves for the backward pass."""
    weights = sum(p.numel() for p in model.parameters())
    # What a product makes is kept, and about as much again by the norm, the activation and the dropout after it.
    kept = 2.5 * made_per_row(model)
    n_layers = sum(1 for _ in layers_of(model))
    if recipe.training.checkpointing and n_layers > 1:  # the rows between layers, and all of one layer
        kept = kept / n_layers + n_layers * recipe.d_model
    return int(4 * (4 * weights + recipe.data.budget * kept))


def made_per_row(model: torch.nn.Module) -> int:
    """Numbers that products make of a row."""
    return sum(matrix.shape[0] for matrix in matrices(model))


def matrices(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The weights that rows are multiplied with.  Tables, which a batch only looks up, are embeddings and what belongs
    to the model itself and to no layer of it."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    tables |= {id(p) for p in model.parameters(recurse=False)}
    return [p for p in model.parameters() if p.ndim == 2 and id(p) not in tables]
