"""One update, and the tensors that it changes."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Generic

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from regard.errors import ConfigError
from regard.learning.config import TrainingConfig
from regard.learning.device import PRECISIONS
from regard.learning.optimizers import (
    SEPARATING,
    make_optimizer,
    optimizer_tensors,
    restore_optimizer,
    set_learning_rate,
)
from regard.learning.schedules import SCHEDULES, Course
from regard.models.interface import Model
from regard.processes import sharing
from regard.runs.checkpoints import Tensors
from regard.runs.weights import set_weights, weights_of
from regard.tasks.setup import B
from regard.tasks.task import BatchTask
from regard.training.averaging import RunningAverage, rising
from regard.training.consistency import consistent_loss
from regard.training.dividing import Divider
from regard.training.exact import ExactGradients
from regard.training.finite import Guard, NonFinite, first_bad_layer, noting_bad_outputs
from regard.training.recomputing import recompute
from regard.training.recording import Recorder, can_be_recorded
from regard.training.sharded import ShardedGradients
from regard.training.team import LONE, Team
from regard.training.together import ReplicatedGradients, Together
from regard.training.unread import StepRecord, Unread, is_too_much

# How several processes compute gradients, by `Team.way`.
WAYS: dict[str, type[Together]] = {"exact": ExactGradients, "data": ReplicatedGradients, "sharded": ShardedGradients}

NOWHERE = "none in a second run (a fault of the device?)"

Loss = Callable[[Model, B], Tensor]  # what a model's step brings down, summed over the targets of a batch


class Learner(Generic[B]):
    """A model with its optimizer."""

    averaged_since: int | None = None  # with `average_after`, the step from which on all weights count alike

    def __init__(
        self,
        model: Model,
        task: BatchTask[B],
        config: TrainingConfig,
        device: torch.device,
        d_model: int,
        is_compiled: bool = False,
        loss: Loss[B] | None = None,
        team: Team = LONE,
    ) -> None:
        self.model = model
        self.task = task
        self.team = team
        task.shards = team.shards
        self.config = config
        self.loss = loss or (partial(consistent_loss, task, config.r_drop) if config.r_drop else task.loss)
        self.device = device
        self.precision_name = "bfloat16" if PRECISIONS[config.precision](device) else "float32"
        self.together = WAYS[team.way](model, self.sum_loss, team, config.seed, device) if team.way else None
        if config.checkpointing:
            recompute(model)
        self.course = Course(steps=config.steps, warmup=config.warmup, d_model=d_model)
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if config.optimizer in SEPARATING and team.way == "sharded" and team.processes.are_joined:
            raise ConfigError(
                f'training.optimizer = "{config.optimizer}" needs whole matrices, and distribution.kind = "sharded" '
                'divides them: set distribution.kind = "data"'
            )
        self.optimizer = make_optimizer(
            config.optimizer,
            model,
            config.betas,
            config.epsilon,
            config.weight_decay,
            config.layer_decay,
            config.momentum,
        )
        self.divider: Divider[B] = Divider(device)
        self.guard = Guard(self.optimizer, device)
        self.average: RunningAverage | None = None
        if config.ema or config.average_after:
            self.average = RunningAverage(model, partial(rising, config.ema) if config.ema else self.mean_since)
        self.unread: list[Unread] = []
        is_recorded = is_compiled and self.precision_name == "bfloat16" and can_be_recorded(model, device)
        # A loss that is not the task's own, such as a teacher's, may count rows that fill up a batch.
        self.recorder = Recorder(self.learn) if is_recorded and self.together is None and loss is None else None

    def is_idle(self) -> bool:
        """Whether the device has done all that it was given."""
        return self.device.type != "cuda" or torch.cuda.current_stream(self.device).query()

    def ready(self, batch: B) -> B:
        """A batch of the task, on the device."""
        return (batch.filled() if self.recorder else batch).to(self.device)

    def update(self, step: int, batches: list[B], places: list[tuple[int, int]]) -> None:
        """The gradient of the mean loss over all targets of all the batches, then one step of the optimizer."""
        self.task.step = step
        random, carried = random_states(self.device), self.task.tensors()
        if self.together is None:
            reset = partial(self.begin_again, random, carried)
            loss = self.divider(batches, self.recorder or self.learn, reset)
            n_tokens = sum(batch.n_tokens for batch in batches)
        else:
            loss, n_tokens = self.together(step, batches)
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        norm = self.together.norm(gradients) if self.together else get_total_norm(gradients)
        bad = self.guard.watch(loss, norm)
        if self.config.clip:
            clip_grads_with_norm_(self.parameters, self.config.clip, norm)
        rate = self.learning_rate(step)
        set_learning_rate(self.optimizer, rate)
        self.optimizer.step()
        self.clear_gradients()
        if self.average:
            self.average.update(step)
        self.unread.append(Unread(step, rate, n_tokens, torch.stack([loss, norm, bad]), places, random, carried))

    def clear_gradients(self) -> None:
        is_kept = self.recorder is not None and bool(self.recorder.seen)
        self.optimizer.zero_grad(set_to_none=not is_kept)  # a recording adds to gradients where they are

    def begin_again(self, random: dict[str, Tensor], carried: dict[str, Tensor]) -> None:
        """After a step that ran out of memory, all is as it was before it."""
        self.clear_gradients()
        set_random_states(random, self.device)
        self.task.restore(carried, self.model)

    def learn(self, batch: B, n_targets: Tensor) -> Tensor:
        loss = self.sum_loss(batch) / n_targets
        loss.backward()
        return loss.detach()

    def sum_loss(self, batch: B) -> Tensor:
        """Of all targets of a batch."""
        with self.precision():
            return self.loss(self.model, batch)

    def learning_rate(self, step: int) -> float:
        return self.config.learning_rate * SCHEDULES[self.config.schedule](step, self.course)

    def precision(self) -> AbstractContextManager[object]:
        if self.precision_name == "bfloat16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def mean_since(self, step: int) -> float:
        """d of an average in which all weights since a step count alike; before that step it is the weights."""
        n = 0 if self.averaged_since is None else step - self.averaged_since
        return n / (n + 1)

    def unite(self) -> None:
        """After the last step, give the model whole weights in every process."""
        self.model = self.whole_model()

    def whole_model(self) -> Model:
        return self.model if self.together is None else self.together.united()

    @contextmanager
    def resting(self) -> Iterator[Model]:
        """While this lasts the model does not learn, and draws nothing from the generators of the training."""
        random = random_states(self.device)
        model = self.whole_model()
        model.eval()
        try:
            # Eagerly: to compile the model once more, without gradients, takes longer than most validations.
            eagerly = torch.compiler.set_stance("force_eager")
            with torch.no_grad(), self.precision(), eagerly, sharing(self.team.sharing):
                yield model
        finally:
            model.train()
            set_random_states(random, self.device)

    def must_read(self) -> bool:
        """Whether figures are to be read now: on a CPU that is free, elsewhere when unread steps hold too much."""
        if self.device.type == "cpu":
            return True
        return is_too_much(self.unread, torch.cuda.get_device_properties(self.device).total_memory)

    def read(self) -> list[StepRecord]:
        """The figures of the steps since the last call.  Waits for the device; raises if a step was not finite."""
        if not self.unread:
            return []
        figures = torch.stack([row.figures for row in self.unread]).tolist()
        rows = []
        for unread, (loss, norm, bad) in zip(self.unread, figures, strict=True):
            if bad:
                raise self.explain(unread, loss, norm)
            rows.append(StepRecord(unread.step, loss, unread.lr, norm, unread.n_tokens))
        self.unread = []
        return rows

    def explain(self, bad: Unread, loss: float, norm: float) -> NonFinite:
        """Run a bad step again, with the same chance, to name its lines and the first layer that went wrong."""
        set_random_states(bad.random, self.device)
        self.task.step = bad.step
        self.task.restore(bad.carried, self.whole_model())
        batches = [self.ready(self.task.batch(*place)) for place in bad.places]
        lines = [line for batch in batches for line in batch.lines]
        layer = NOWHERE
        with noting_bad_outputs(self.model) as seen:
            for batch in batches if self.team.way in ("", "exact") else []:  # others look only with all processes
                self.optimizer.zero_grad()
                bad_layer = first_bad_layer(self.model, self.divider([batch], self.learn, self.clear_gradients), seen)
                if bad_layer:
                    lines, layer = batch.lines, bad_layer
                    break
        self.optimizer.zero_grad()
        reports = self.team.processes.gather((lines, layer))  # the first process that knows more than NOWHERE
        lines, layer = next((row for row in reports if row[1] != NOWHERE), reports[0])
        named = ", ".join(lines[:10]) + (f" and {len(lines) - 10} more" if len(lines) > 10 else "")
        return NonFinite(
            f"step {bad.step}: the loss is {loss}, the gradient norm {norm}; stopped before the update.\n"
            f"First bad: {layer}.\nLines: {named}.",
            lines,
            layer,
        )

    def tensors(self) -> Tensors:
        """All that a checkpoint needs to go on as if nothing had happened, or what this process writes of it."""
        tensors = {
            "model": weights_of(self.model),
            "optimizer": optimizer_tensors(self.optimizer, self.model),
            **({"ema": self.average.tensors} if self.average else {}),
        }
        if self.together:
            tensors = {name: self.together.gathered(content) for name, content in tensors.items()}
        carried = self.team.processes.gather_tensors(self.task.tensors())
        if not self.team.is_leader:
            return {name: content for name, content in tensors.items() if content}
        return {**tensors, "random": random_states(self.device), **({"task": carried} if carried else {})}

    def restore(self, tensors: Tensors, where: str) -> None:
        if self.together:
            tensors = {
                name: self.together.divided(content) if name in ("model", "optimizer", "ema") else content
                for name, content in tensors.items()
            }
        set_weights(self.model, tensors["model"], where)
        restore_optimizer(self.optimizer, self.model, tensors["optimizer"])
        set_random_states(tensors["random"], self.device)
        carried = {name: tensor.to(self.device) for name, tensor in tensors.get("task", {}).items()}
        self.task.restore(carried, self.whole_model())
        if self.average:
            self.average.restore(tensors.get("ema", tensors["model"]))

    def price(self) -> list[str]:
        """What the processes paid for working together, in words, where it is known."""
        return [price for price in [self.together.price()] if price] if self.together else []

    def smoothed(self) -> AbstractContextManager[None]:
        """While this lasts the model has the weights that are validated: the running average, where there is one."""
        return self.average.in_place(self.model) if self.average else nullcontext()


def random_states(device: torch.device) -> dict[str, Tensor]:
    """Of every generator that dropout may draw from, as bytes."""
    states = {"cpu": torch.get_rng_state()}
    return {**states, "cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else states


def set_random_states(states: dict[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
