"""What a training step costs on one GPU and on many: FLOPs, bytes, what is done at once, and what has to wait.

`python -m bench scaling` holds compute and memory beside one GPU.  Communication is modeled from the stated
bandwidths: it was never measured on several GPUs.
"""

import math
from dataclasses import dataclass, replace
from typing import Self

from regard.models.interface import Model
from regard.training.footprint import made_per_row, matrices
from regard.training.recomputing import layers_of

FORWARD = 1 / 3  # of a pass: the backward pass takes twice as long
LOOKING = 3.5  # attention, forward and backward, in forward passes: the backward pass compares queries and keys again
PASSED = 15  # bytes for each number that a product makes: biases, activations, norms and sums, both ways
PASSED_LOGITS = 6  # bytes for each logit: written once, read once, its gradient written over it
UPDATED = 52  # bytes for each weight: its bfloat16 copy, its gradient, two moments, itself
KEPT = 3.5  # bytes for each number that a product makes, kept for the backward pass
LOGITS = 2**28 * 2  # bytes of the logits that are held at once, at most
STATE = 16  # bytes for each weight: itself, its gradient and two moments in float32
COPY = 2  # bytes for each weight: what products read, in bfloat16
FLOAT = 4  # bytes of a weight or a gradient that is sent
BUCKET = 25 * 2**20  # bytes of gradients that DDP sends at once
UNEVEN = 0.02  # of a pass: how much those of two processes differ, by the lengths of their texts (standard deviation)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One GPU, by what its kernels reach."""

    products: float  # FLOP/s in bfloat16, of products as wide as a model's
    attention: float  # FLOP/s of long sequences, ...
    half: float  # ... and the length at which it reaches half of that
    memory: float  # bytes/s
    begun: float  # seconds for each matrix: some kernels, which begin and end while not all of the GPU is busy
    room: float  # bytes
    watts: float

    def looks(self, length: float) -> float:
        return self.attention * length / (length + self.half)


@dataclass(frozen=True, kw_only=True)
class Network:
    """Stated, not measured: bytes/s of each GPU, in each direction."""

    n_inside: int = 8  # GPUs of a machine
    inside: float = 360e9  # between them: NVLink 4, 450 GB/s, of which 80 % is reached
    between: float = 40e9  # from machine to machine: a 400 Gb/s InfiniBand adapter each, of which 80 % is reached
    latency: float = 15e-6  # seconds of a message and its kernel

    def seconds(self, n_bytes: float, n: int) -> float:
        """To give n GPUs what each has a part of (all-gather), or each its part of the sum (reduce-scatter).

        First within machines, then between them, where each GPU of a machine sends its part by its own adapter."""
        n_near = min(n, self.n_inside)
        n_far = n / n_near
        near = n_bytes * (n_near - 1) / n_near / self.inside
        far = n_bytes / n_near * (n_far - 1) / n_far / self.between
        return near + far + self.latency * math.log2(n)


STATED = Network()


@dataclass(frozen=True, kw_only=True)
class Work:
    """Of one step of one GPU."""

    n_tokens: float
    length: float  # of a sequence
    n_weights: int
    n_layers: int  # that are gathered one after the other
    largest_layer: int  # weights
    n_matrices: int
    products: float  # FLOPs, forward and backward
    attention: float
    n_made: float  # numbers that products make, but for logits
    n_logits: float
    d_model: int

    @classmethod
    def of(cls, model: Model, d_model: int, length: int, n_tokens: float) -> Self:
        """A cost is a + b·length for each token: b is attention.  Where an image is read, which more tokens share, it
        falls with the length, and all of it counts as products."""
        once, twice = model.cost(length).forward, model.cost(2 * length).forward
        products = min(max(2 * once - twice, 0.0) or once, once)
        in_layers = [p.numel() for p in matrices(model)]
        layers = [sum(p.numel() for p in layer.parameters()) for layer in layers_of(model)] or [0]
        return cls(
            n_tokens=n_tokens,
            length=length,
            n_weights=sum(p.numel() for p in model.parameters()),
            n_layers=len(layers),
            largest_layer=max(layers),
            n_matrices=len(in_layers),
            products=3 * products * n_tokens,
            attention=LOOKING * (once - products) * n_tokens,
            n_made=made_per_row(model) * n_tokens,
            n_logits=max(products / 2 - sum(in_layers), 0.0) / d_model * n_tokens,  # what no layer of it multiplies
            d_model=d_model,
        )

    def shared_by(self, n: float) -> Self:
        """The same step, divided among n GPUs."""
        return replace(
            self,
            n_tokens=self.n_tokens / n,
            products=self.products / n,
            attention=self.attention / n,
            n_made=self.n_made / n,
            n_logits=self.n_logits / n,
        )


@dataclass(frozen=True)
class StepCost:
    """Seconds and bytes of a step on each of n GPUs."""

    n: int
    work: Work
    compute: float  # seconds of the forward and backward pass
    update: float
    sent: float  # seconds of communication, if nothing else were done
    waiting: float  # seconds in which a GPU has nothing to do: what is sent but not hidden, and for slower ones
    memory: float

    @property
    def seconds(self) -> float:
        return self.compute + self.update + self.waiting

    @property
    def tokens_per_second(self) -> float:
        return self.n * self.work.n_tokens / self.seconds

    @property
    def busy(self) -> float:
        """The share of time in which a GPU computes."""
        return 1 - self.waiting / self.seconds


def step_cost(
    work: Work,
    machine: Machine,
    n: int = 1,
    network: Network = STATED,
    kind: str = "data",
    checkpointing: bool = False,
) -> StepCost:
    """Kernels run one after the other, so their times add up; what is sent goes on beside them, where it can.

    data: gradients are summed (a reduce-scatter and an all-gather) while the backward pass computes others; the last
    bucket overlaps with nothing.  sharded: weights are gathered twice, gradients scattered once, a layer ahead of
    where they are needed; the first gathering and the last scattering overlap with nothing.
    """
    looking = work.attention / machine.looks(work.length) if work.attention else 0.0
    passed = PASSED * work.n_made + PASSED_LOGITS * work.n_logits
    compute = work.products / machine.products + looking + passed / machine.memory
    compute += machine.begun * work.n_matrices  # however few tokens there are
    compute *= 1 + FORWARD if checkpointing else 1
    n_own = work.n_weights / n if kind == "sharded" else work.n_weights
    update = UPDATED * n_own / machine.memory
    sent = exposed = 0.0
    if n > 1:
        n_bytes, hidden_by = FLOAT * work.n_weights, (1 - FORWARD) * compute
        if kind == "data":
            sent = 2 * network.seconds(n_bytes, n) + 2 * network.latency * n_bytes / BUCKET
            last = 2 * network.seconds(min(BUCKET, n_bytes), n)
        else:
            sent = 3 * network.seconds(n_bytes, n) + 3 * work.n_layers * network.latency * math.log2(n)
            last = 2 * network.seconds(FLOAT * work.largest_layer, n)
            hidden_by = compute
        exposed = max(sent - hidden_by, last)
    uneven = UNEVEN * compute * math.sqrt(2 * math.log(n))  # the slowest of n
    memory = state_memory(work, n, kind) + pass_memory(work, checkpointing)
    return StepCost(n, work, compute, update, sent, exposed + uneven, memory)


def state_memory(work: Work, n: int, kind: str) -> float:
    """Bytes that stay from step to step."""
    if n == 1:
        return (STATE + COPY) * work.n_weights
    if kind == "data":
        return (STATE + COPY + FLOAT) * work.n_weights  # and what is sent
    gathered = (FLOAT + COPY) * 2 * work.largest_layer
    return STATE * work.n_weights / n + FLOAT * work.n_weights + gathered  # and all weights once, to validate


def pass_memory(work: Work, checkpointing: bool) -> float:
    """Bytes at most while a batch is learned from."""
    kept = KEPT * work.n_made
    if checkpointing and work.n_layers > 1:  # the rows between layers, and all of one layer
        kept = kept / work.n_layers + COPY * work.n_layers * work.n_tokens * work.d_model
    return kept + min(LOGITS, COPY * work.n_logits)


# Rates as measured beside steps of two models, by which `begun` was chosen (docs/scaling.md); room and watts are the
# vendor's.
H200 = Machine(products=600e12, attention=340e12, half=330, memory=4.36e12, begun=48e-6, room=141e9, watts=700)
