"""The contenders in training, with the weights of one of our Transformers, at their best sensible settings."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.data import IGNORED, PaddedBatch, padded
from bench.peers import TorchTransformer, marian
from regard.models.transformer import Transformer
from regard.tasks.translation.batches import PairBatch
from regard.tasks.translation.framed import pair_loss
from regard.training.environment import compile_model, reproducible
from regard.training.recording import Learn, Recorder

SMOOTHING = 0.1


class Trainer:
    """A model, how it takes a batch, and its loss summed over the real target tokens.

    Weights are float32; on a GPU the products are bfloat16 by autocast.  AdamW is the fused one.
    """

    def __init__(
        self,
        model: nn.Module,
        prepare: Callable[[PairBatch], Any],
        loss: Callable[[Any], Tensor],
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
        is_recorded: bool = False,
    ):
        self.model, self.prepare, self.loss, self.around = model, prepare, loss, around
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        self.device = next(model.parameters()).device
        self.is_recorded = is_recorded
        self.learn: Learn = Recorder(self.forward_and_backward) if is_recorded else self.forward_and_backward

    def prepared(self, batches: list[PairBatch]) -> list[tuple[Any, Tensor]]:
        """The batches on the device, as this contender wants them, with their real target tokens."""
        counts = [torch.tensor(float(batch.n_targets), device=self.device) for batch in batches]
        if self.is_recorded:
            batches = [batch.filled() for batch in batches]
        return [(self.prepare(batch.to(self.device)), n) for batch, n in zip(batches, counts, strict=True)]

    def train(self, prepared: list[tuple[Any, Tensor]]) -> None:
        """A step on each batch: forward, backward, update."""
        with self.around():
            for batch, n_targets in prepared:
                self.learn(batch, n_targets)
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=not self.is_recorded)

    def forward_and_backward(self, batch: Any, n_targets: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.type == "cuda"):
            loss = self.loss(batch) / n_targets
        loss.backward()
        return loss.detach()


def same_work(make: Callable[[str], Trainer], names: Sequence[str], few: list[Any]) -> str:
    """Without dropout, in float32, all must find the same loss of a batch and as large a gradient; what was checked.

    Compiled ones are left out, for they would be compiled once more; `tests/nn/test_compiled.py` is for them.
    """
    figures = {}
    for name in names:
        trainer = make(name)
        trainer.model.eval()
        ((batch, n_targets),) = trainer.prepared(few)
        loss = trainer.loss(batch) / n_targets
        loss.backward()
        gradients = [weight.grad for weight in trainer.model.parameters() if weight.grad is not None]
        figures[name] = float(loss.detach()), float(nn.utils.get_total_norm(gradients))
    if len(figures) < 2:
        return "not checked that all do the same work: there is nobody to compare with"
    losses, norms = zip(*figures.values(), strict=True)
    if max(losses) - min(losses) > 1e-4 or max(norms) > 1.001 * min(norms):
        raise AssertionError(f"the contenders do not do the same work: their losses and gradients' norms are {figures}")
    return "checked before timing: without dropout all find the same loss, to 1e-4, and as large a gradient, to 0.1 %"


def ours(model: Transformer, compiled: bool) -> Trainer:
    """As the training loop does it: on CPU also with deterministic algorithms, compiled also recorded."""
    device = model.embedding.weight.device
    if compiled:
        done = compile_model(model, "on", device)
        if done != "compiled":
            raise RuntimeError(done)
    return Trainer(
        model,
        lambda batch: batch,
        lambda batch: pair_loss(model, batch, SMOOTHING),
        lambda: reproducible(device),
        is_recorded=compiled,
    )


def transformers_marian(model: Transformer, compiled: bool, multiple: int = 1) -> Trainer:
    """Padded on the right, so that the decoder needs no mask but the causal one, which its kernel has as a flag.

    Padded to a multiple of 8 there are fewer shapes, which suit the kernels better, but there is more padding.
    """
    made = marian(model).to(model.embedding.weight.device)

    def loss(source: Tensor, mask: Tensor, target: Tensor, labels: Tensor) -> Tensor:
        output = made(input_ids=source, attention_mask=mask, decoder_input_ids=target, use_cache=False)
        return smoothed_loss(output.logits, labels)

    if not compiled:
        return padded_trainer(made, loss)
    # LayerDrop, at 0 too, draws a number before every layer and so cuts the graph in pieces.  Without it model and
    # loss are one graph; the price is Marian's dropout on the embeddings, which makes it a little faster still.
    made.model.encoder.training = made.model.decoder.training = False
    return padded_trainer(made, torch.compile(loss, dynamic=True), multiple)


def torch_transformer(model: Transformer) -> Trainer:
    made = TorchTransformer(model).to(model.embedding.weight.device)

    def loss(source: Tensor, mask: Tensor, target: Tensor, labels: Tensor) -> Tensor:
        return smoothed_loss(made(source, mask, target), labels)

    return padded_trainer(made, loss)


def padded_trainer(model: nn.Module, loss: Callable[..., Tensor], multiple: int = 1) -> Trainer:
    def loss_of(batch: PaddedBatch) -> Tensor:
        return loss(batch.source, batch.source_mask, batch.target, batch.labels)

    return Trainer(model, lambda batch: padded(batch, multiple), loss_of)


def smoothed_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, label_smoothing=SMOOTHING, reduction="sum"
    )


CONTENDERS: dict[str, Callable[[Transformer], Trainer]] = {
    "regard": lambda model: ours(model, compiled=False),
    "regard compiled": lambda model: ours(model, compiled=True),
    "transformers": lambda model: transformers_marian(model, compiled=False),
    "transformers compiled": lambda model: transformers_marian(model, compiled=True),
    "transformers compiled, 8s": lambda model: transformers_marian(model, compiled=True, multiple=8),
    "nn.Transformer": torch_transformer,
}
COMPILED = ("regard compiled", "transformers compiled", "transformers compiled, 8s")
PACKAGES = {name: ("transformers",) for name in CONTENDERS if name.startswith("transformers")}
