"""What each step of a search chose, kept for the end: appended on the device, moved to the host in one go."""

import numpy as np
import torch
from torch import Tensor


class Record:
    """Columns of shape (steps, prompts, width), one for each tensor that `add` is given."""

    def __init__(self, n_prompts: int) -> None:
        self.n_prompts = n_prompts
        self.waiting: list[tuple[Tensor, ...]] = []
        self.blocks: list[tuple[np.ndarray, ...]] = []

    def add(self, *columns: Tensor) -> None:
        """The tensors (active prompts, width) of one step."""
        self.waiting.append(columns)

    def move(self, active: np.ndarray) -> None:
        """To the host, before the active prompts (indices) change."""
        if not self.waiting:
            return
        block = []
        for column in zip(*self.waiting, strict=True):
            part = torch.stack(column).cpu().numpy()
            whole = np.zeros((len(part), self.n_prompts, part.shape[2]), part.dtype)
            whole[:, active] = part
            block.append(whole)
        self.blocks.append(tuple(block))
        self.waiting.clear()

    def columns(self) -> list[np.ndarray]:
        return [np.concatenate(column) for column in zip(*self.blocks, strict=True)]
