"""Weights, gradients and moments divided among the processes: FSDP2 of PyTorch (`fully_shard`).

Blocks and feed-forward layers are gathered one after the other, when they are needed; all other weights, once a pass.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.utils import get_total_norm

from regard.errors import ConfigError
from regard.models.interface import Model
from regard.nn.blocks import EncoderBlock, FeedForward, GatedFeedForward
from regard.processes import others_noticed
from regard.runs.shards import shares
from regard.tasks.setup import B
from regard.training.team import Team, seed_shard
from regard.training.together import LossModule, Together


def gathered_apart(module: nn.Module) -> Iterator[nn.Module]:
    """What is called by its `forward` alone, in every pass as often in every process: there PyTorch gathers weights.
    The attention of a decoder is not, as its memory is made beforehand."""
    for child in module.children():
        if isinstance(child, EncoderBlock | FeedForward | GatedFeedForward):
            yield child
        else:
            yield from gathered_apart(child)


def shared_by(layer: nn.Module, model: nn.Module) -> set[nn.Parameter]:
    """Weights that a layer shares with other parts, such as a table of positions: they belong to no layer."""
    inside = Counter(parameter for _, parameter in layer.named_parameters(remove_duplicate=False))
    everywhere = Counter(parameter for _, parameter in model.named_parameters(remove_duplicate=False))
    return {parameter for parameter, n in inside.items() if n < everywhere[parameter]}


class ShardedGradients(Together[B]):
    def __init__(self, model: Model, loss: Callable[[B], Tensor], team: Team, seed: int, device: torch.device) -> None:
        super().__init__(model, loss, team, seed, device)
        self.n = team.processes.n
        self.plain = copy.deepcopy(model) if team.processes.are_joined else model  # what is validated and written
        self.wrapped: nn.Module = LossModule(model, loss)
        if not team.processes.are_joined:
            return
        if any(isinstance(module, nn.RNNBase) for module in model.modules()):
            raise ConfigError(
                "recurrent networks cannot be sharded, because their kernels keep a list of their weights: "
                'set distribution.kind = "data"'
            )
        if any(not parameter.requires_grad for parameter in model.parameters()):
            raise ConfigError('weights that do not learn cannot be sharded: set distribution.kind = "data"')
        with others_noticed():
            mesh = init_device_mesh(device.type, (self.n,))
            for part in list(gathered_apart(model)):
                fully_shard(part, mesh=mesh, ignored_params=shared_by(part, model))
            fully_shard(self.wrapped, mesh=mesh)

    def add_gradients(self, step: int, batches: Sequence[B], n_targets: Tensor) -> Tensor:
        """PyTorch takes the mean of what the n processes find, so each finds n times its share."""
        total, n_left = torch.zeros((), device=self.device), len(batches)
        for shard, own in self.of_shards(batches):
            seed_shard(self.seed, step, shard)
            for batch in own:
                n_left -= 1
                if isinstance(self.wrapped, FSDPModule):
                    self.wrapped.set_requires_gradient_sync(not n_left)
                with others_noticed():
                    loss = self.wrapped(batch) / n_targets
                    (self.n * loss).backward()
                total += loss.detach()
        if isinstance(self.wrapped, FSDPModule):
            with others_noticed():
                distributed.all_reduce(total)
        return total

    def norm(self, gradients: list[Tensor]) -> Tensor:
        return whole(get_total_norm(gradients))

    def gathered(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """One after the other, so that nobody holds more than one beside those that are its own to write."""
        owners, kept = shares(tensors, self.n), {}
        for name, tensor in tensors.items():
            united = whole(tensor)
            if owners[name] == self.processes.rank:
                kept[name] = united.cpu()
        return kept

    def divided(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        own = dict(self.model.named_parameters())
        return {name: like(tensor, own.get(name.partition("/")[0])) for name, tensor in tensors.items()}

    @torch.no_grad()
    def united(self) -> Model:
        theirs = dict(self.plain.named_parameters())
        for name, parameter in self.model.named_parameters() if self.plain is not self.model else ():
            theirs[name].copy_(whole(parameter))
        return self.plain


def whole(tensor: Tensor) -> Tensor:
    """A tensor of which each process has a part, gathered; all processes must ask for it."""
    with others_noticed():
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(tensor: Tensor, own: Tensor | None) -> Tensor:
    """A whole tensor divided as the weight that it belongs to; numbers that count steps are not."""
    if not isinstance(own, DTensor) or tensor.shape != own.shape:
        return tensor
    return distribute_tensor(tensor.to(own.device), own.device_mesh, own.placements, src_data_rank=None)
