"""CUDA graphs for training: a forward and backward pass is some thousand kernels, and a graph launches them at once.

Flat batches, filled up to round sizes, have few shapes: some tens in a training, unless batches are very small.  The
second time that a shape comes its pass is recorded, and from then on replayed.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic

import torch
from torch import Tensor

from regard.data.batching.batch import Batch, TensorSet
from regard.models.interface import Model
from regard.nn.attention import pads
from regard.nn.layout import TENSORS, Ragged
from regard.tasks.setup import B

KEPT = 64  # recordings at most; what has another shape is learned from as it comes

Learn = Callable[[B, Tensor], Tensor]  # a batch, and the number that its loss is divided by -> that loss


def can_be_recorded(model: Model, device: torch.device) -> bool:
    """Whether batches of one shape take the same kernels, and whether what fills them costs little."""
    return device.type == "cuda" and model.is_recordable and not pads(model)


@dataclass(frozen=True)
class Recording:
    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]  # what it reads: a batch, and the number
    loss: Tensor  # what it writes; the gradients are added to those of the weights


class Recorder(Generic[B]):
    """Does what `learn` does: adds a batch's gradients to those of the weights, and returns its loss.

    The gradients must stay where they are: set them to zero, not to None.
    """

    def __init__(self, learn: Learn[B]) -> None:
        self.learn = learn
        self.seen: set[Hashable] = set()
        self.recordings: dict[Hashable, Recording] = {}
        self.most = KEPT
        self.pool: Any = None  # PyTorch's, of memory, one for all recordings: they run one after the other

    def __call__(self, batch: B, n_targets: Tensor) -> Tensor:
        if not batch.is_fillable:
            return self.learn(batch, n_targets)
        shape = shape_of(batch)
        if shape not in self.seen:  # kernels are compiled and chosen, and gradients get their memory
            self.seen.add(shape)
            return self.learn(batch, n_targets)
        recording = self.recordings.get(shape) or self.record(shape, batch, n_targets)
        if recording is None:
            return self.learn(batch, n_targets)
        torch._foreach_copy_(recording.inputs, [*tensors_of(batch), n_targets])
        recording.graph.replay()
        return recording.loss.clone()

    def record(self, shape: Hashable, batch: B, n_targets: Tensor) -> Recording | None:
        """None: there are enough of them, there is no room, or it fails.  Nothing is learned yet."""
        if len(self.recordings) >= self.most or not has_room():
            self.most = len(self.recordings)
            return None
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        graph, batch, n_targets = torch.cuda.CUDAGraph(), copy_of(batch), n_targets.clone()  # to be written over
        try:
            # Batches are made in another thread, which goes on meanwhile.
            with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
                loss = self.learn(batch, n_targets)
        except RuntimeError:  # of memory, or what a graph cannot hold: the training goes on without
            self.most = len(self.recordings)
            return None
        self.recordings[shape] = Recording(graph, [*tensors_of(batch), n_targets], loss)
        return self.recordings[shape]


def has_room() -> bool:
    """Recordings have memory of their own, and so have passes that are not recorded: enough for both must be free."""
    torch.cuda.empty_cache()
    largest_pass = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
    return torch.cuda.mem_get_info()[0] > 2 * largest_pass


def tensors_of(batch: Batch) -> list[Tensor]:
    """All that a pass reads of a batch."""
    tensors: list[Tensor] = []
    for part in batch.parts().values():
        if isinstance(part, Ragged):
            tensors += [getattr(part, name) for name in TENSORS]
        elif isinstance(part, TensorSet):
            tensors += part.tensors()
        elif isinstance(part, Tensor):
            tensors.append(part)
    return tensors


def copy_of(batch: B) -> B:
    """With tensors of its own."""
    return batch.mapped(Tensor.clone, lambda layout: layout.mapped(Tensor.clone))


def shape_of(batch: Batch) -> Hashable:
    """All that its kernels depend on."""
    layouts = [part for part in batch.parts().values() if isinstance(part, Ragged)]
    sizes = [(layout.n_rows, layout.n_sequences, layout.longest, layout.is_full) for layout in layouts]
    return (*sizes, *(tuple(tensor.shape) for tensor in tensors_of(batch)))
