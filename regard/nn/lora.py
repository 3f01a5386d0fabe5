"""LoRA: what a model learned stays as it is, and each adapted product gets a small one beside it, which learns."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from regard.checks import not_negative, positive
from regard.errors import ConfigError
from regard.nn.linear import Linear
from regard.nn.recurrent import Cell

DOWN, UP = "lora_down", "lora_up"  # how A and B are named beside the weight that they adapt
OF_CELLS = {"U": "kernel.weight_ih_l0", "V": "kernel.weight_hh_l0"}  # what the equations call a recurrent cell's


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    rank: int = 0  # r, the width between the adapter's two products; 0: no adapters, all weights learn
    alpha: float = 16.0  # what an adapter adds is scaled by `alpha / rank`: the learning rate need not follow the rank
    # the products that are adapted (the paper's), by the last part of their name; also `to_keys`, `to_output`,
    # `expand`, `contract`, `gate`
    targets: tuple[str, ...] = ("to_queries", "to_values")
    # a finished run holds weights + adapters; `false`: adapter.safetensors alone, and origin.json names the adapted run
    merge: bool = True

    def __post_init__(self) -> None:
        not_negative(self, "rank")
        positive(self, "alpha")
        if self.rank and not self.targets:
            raise ConfigError("targets must name at least one product, such as to_queries")

    @property
    def scale(self) -> float:
        return self.alpha / max(self.rank, 1)


NO_ADAPTERS = LoraConfig()


class AdaptedLinear(Linear):
    """h = W x + b + (alpha / r) B A x, with W and b frozen  (Hu et al. 2022, eq. 3)

    B begins as zero, so that learning begins where the other run ended.
    """

    def __init__(self, frozen: nn.Linear, rank: int, scale: float):
        super().__init__(frozen.in_features, frozen.out_features, frozen.bias is not None, device="meta")
        self.weight, self.bias, self.scale = frozen.weight, frozen.bias, scale
        self.lora_down, self.lora_up = small_pair(frozen.weight, rank)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.scale * F.linear(F.linear(x, self.lora_down), self.lora_up)


class Adapter(nn.Module):
    """W + (alpha / r) B A, for the weights of a recurrent cell, which its kernel reads as one matrix."""

    def __init__(self, frozen: Tensor, rank: int, scale: float):
        super().__init__()
        self.lora_down, self.lora_up = small_pair(frozen, rank)
        self.scale = scale

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.scale * self.lora_up @ self.lora_down


def small_pair(frozen: Tensor, rank: int) -> tuple[nn.Parameter, nn.Parameter]:
    """A and B beside a weight (d_out, d_in)."""
    weight, (d_out, d_in) = frozen.detach(), frozen.shape
    down = weight.new_empty(rank, d_in).normal_(std=d_in**-0.5)
    return nn.Parameter(down), nn.Parameter(weight.new_zeros(d_out, rank))


def adapt(model: nn.Module, config: LoraConfig, also: Collection[str] = ()) -> None:
    """Give a model adapters, in place.  They learn, and so do the weights named in `also`; all others are frozen."""
    products: dict[str, nn.Module] = {
        name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)
    }
    for name, module in model.named_modules():
        products |= {f"{name}.{part}": module for part in OF_CELLS} if isinstance(module, Cell) else {}
    for target in config.targets:
        if not any(last_part(name) == target for name in products):
            names = ", ".join(sorted({last_part(name) for name in products})) or "none"
            raise ConfigError(f"[lora] targets: the model has no product {target!r}; its products are: {names}")
    for name, parameter in model.named_parameters():
        if name not in also:
            parameter.requires_grad = False
    weights = dict(model.named_parameters())
    for name, product in products.items():
        if last_part(name) in config.targets and weight_of(name) not in also:
            parent = model.get_submodule(name.rpartition(".")[0])
            adapted = (
                AdaptedLinear(product, config.rank, config.scale)
                if isinstance(product, nn.Linear)
                else Adapter(weights[weight_of(name)], config.rank, config.scale)
            )
            setattr(parent, last_part(name), adapted)


def weight_of(product: str) -> str:
    """The name of the matrix that a product is with."""
    of_cell = OF_CELLS.get(last_part(product))
    return f"{product}.weight" if of_cell is None else f"{product.rpartition('.')[0]}.{of_cell}"


def last_part(name: str) -> str:
    return name.rpartition(".")[2]


def merged(tensors: Mapping[str, Tensor], scale: float) -> dict[str, Tensor]:
    """W + (alpha / r) B A in place of W, A and B, under the names that the model has without adapters."""
    whole = {name: tensor for name, tensor in tensors.items() if last_part(name) not in (DOWN, UP)}
    for name, down in tensors.items():
        if last_part(name) == DOWN:
            product = name.rpartition(".")[0]
            added = scale * (tensors[f"{product}.{UP}"].double() @ down.double())
            weight = whole[weight_of(product)]
            whole[weight_of(product)] = (weight.double() + added).to(weight.dtype)
    return whole
