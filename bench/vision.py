"""Training a Vision Transformer: images a second, of one size beside transformers, and of many sizes beside padding.

A step is forward, backward and AdamW.  All contenders get the same pixels and begin with the same weights.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bench.machine import reason, which_can_run
from bench.report import Report, Row
from bench.timing import say, take_turns, wait
from bench.trainers import Trainer, same_work
from regard.checks import expect
from regard.interop.families.vit import VIT
from regard.nn.grid import Grid, GridForm, Shape
from regard.runs.recipe import Recipe
from regard.tasks.images.task import LabeledImageBatch
from regard.training.environment import compile_model, reproducible

N_LABELS = 10
SMALL = ("model.d_model=384", "model.n_heads=6", "model.n_layers=12", "model.d_ff=1536")
TINY = ("model.d_model=16", "model.n_heads=2", "model.n_layers=2", "model.d_ff=32")


@dataclass(frozen=True, kw_only=True)
class Case:
    side: int  # pixels, of the largest image
    patch: int
    n_images: int  # of a step
    is_mixed: bool = False  # sizes from a third of the side on

    @property
    def name(self) -> str:
        return f"{self.n_images} x {self.side} x {self.side}" + (", mixed" if self.is_mixed else "")

    @property
    def n_sides(self) -> int:
        """Patches of the largest side."""
        return self.side // self.patch


@dataclass(frozen=True, kw_only=True)
class Plan:
    settings: tuple[str, ...]
    cases: tuple[Case, ...]
    n_batches: int  # steps a round
    rounds: int


PLANS = {
    "cuda": Plan(
        settings=SMALL,
        cases=(
            Case(side=32, patch=4, n_images=512),
            Case(side=224, patch=16, n_images=128),
            Case(side=224, patch=16, n_images=128, is_mixed=True),
        ),
        n_batches=8,
        rounds=5,
    ),
    "cpu": Plan(
        settings=("model.d_model=128", "model.n_heads=4", "model.n_layers=4", "model.d_ff=256"),
        cases=(Case(side=32, patch=4, n_images=32), Case(side=96, patch=8, n_images=8, is_mixed=True)),
        n_batches=4,
        rounds=3,
    ),
    "tiny": Plan(
        settings=TINY,
        cases=(Case(side=8, patch=4, n_images=3), Case(side=16, patch=4, n_images=3, is_mixed=True)),
        n_batches=2,
        rounds=2,
    ),
}


class PaddingTrainer(Trainer):
    def prepared(self, batches: list[LabeledImageBatch]) -> list[tuple[Any, Tensor]]:
        return super().prepared([padded(batch) for batch in batches])


def ours(model: Any, compiled: bool, kind: type[Trainer] = Trainer) -> Trainer:
    """As the training loop does it: on CPU also with deterministic algorithms, compiled also recorded."""
    if compiled:
        done = compile_model(model, "on", model.device)
        if done != "compiled":
            raise RuntimeError(done)

    def loss(batch: LabeledImageBatch) -> Tensor:
        return F.cross_entropy(model(batch.patches(), batch.layout).float(), batch.labels, reduction="sum")

    return kind(model, lambda batch: batch, loss, lambda: reproducible(model.device), is_recorded=compiled)


def transformers_vit(model: Any, recipe: Recipe, compiled: bool) -> Trainer:
    """Model and loss in one graph; sdpa chooses the kernel.  Its images come normalized."""
    import transformers

    transformers.logging.set_verbosity_error()
    settings = {name: value for name, value in VIT.write_config(recipe).items() if "label" not in name}
    config = transformers.ViTConfig(**settings, num_labels=N_LABELS)
    made = transformers.ViTForImageClassification(config).to(model.device).train()
    load(made, VIT.give(model.state_dict(), recipe))

    def loss(pixels: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(made(pixel_values=pixels).logits.float(), labels, reduction="sum")

    run = torch.compile(loss) if compiled else loss
    return Trainer(made, normalized, lambda batch: run(*batch))


def load(model: Any, weights: dict[str, Tensor]) -> None:
    """By way of a file, as a user of transformers would: names in memory differ from those of files."""
    import tempfile

    from safetensors.torch import save_file

    with tempfile.TemporaryDirectory() as folder:
        model.config.save_pretrained(folder)
        save_file({name: tensor.contiguous() for name, tensor in weights.items()}, f"{folder}/model.safetensors")
        model.load_state_dict(type(model).from_pretrained(folder).state_dict())


def normalized(batch: LabeledImageBatch) -> tuple[Tensor, Tensor]:
    (block,) = expect(batch.layout, Grid).blocks(batch.pixels)
    return ((block / 255 - 0.5) / 0.5).contiguous(), batch.labels


def padded(batch: LabeledImageBatch) -> LabeledImageBatch:
    """All images as large as the largest size, the rest black."""
    grid = expect(batch.layout, Grid)
    form, blocks = grid.form, grid.blocks(batch.pixels)
    whole = [
        F.pad(block, (0, form.side * form.patch - block.shape[3], 0, form.side * form.patch - block.shape[2]))
        for block in blocks
    ]
    pixels = torch.cat([block.permute(0, 2, 3, 1).reshape(-1) for block in whole])
    layout = Grid([(form.side, form.side)] * grid.n_sequences, form).to(pixels.device)
    return LabeledImageBatch([], pixels, layout, None, batch.labels)


CONTENDERS: dict[str, Callable[[Any, Recipe], Trainer]] = {
    "regard": lambda model, recipe: ours(model, compiled=False),
    "regard compiled": lambda model, recipe: ours(model, compiled=True),
    "regard, padded": lambda model, recipe: ours(model, model.device.type == "cuda", PaddingTrainer),
    "transformers": lambda model, recipe: transformers_vit(model, recipe, compiled=False),
    "transformers compiled": lambda model, recipe: transformers_vit(model, recipe, compiled=True),
}
COMPILED = ("regard compiled", "transformers compiled")
PACKAGES = {name: ("transformers",) for name in CONTENDERS if name.startswith("transformers")}


def fits(name: str, case: Case, device: torch.device) -> bool:
    if name in COMPILED and device.type != "cuda":
        return False
    return name.startswith("regard") if case.is_mixed else name != "regard, padded"


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    plan = PLANS["tiny" if tiny else device.type]
    names, notes = which_can_run(CONTENDERS, PACKAGES, skip)
    kind = "bfloat16" if device.type == "cuda" else "float32"
    report = Report("vision", "images/s", f"{', '.join(plan.settings)}, no dropout, {kind}", notes=notes)
    for case in plan.cases:
        recipe = make_recipe(plan, case)
        chosen = [name for name in names if fits(name, case, device)]
        if not case.is_mixed:
            few = make_batches(plan, recipe, case)[:1]
            notes.append(same_work(partial(make, recipe, device), [n for n in chosen if n not in COMPILED], few))
        trainers, batches = {}, make_batches(plan, recipe, case)
        for name in chosen:
            say(f"warming up: {case.name}, {name}")
            begin = time.perf_counter()
            try:
                trainers[name] = make(recipe, device, name)
                for _ in range(3):  # then all is compiled and recorded
                    trainers[name].train(trainers[name].prepared(batches))
                wait(device)
            except Exception as error:  # a peer that fails is named in the report; the others go on
                if name == "regard":
                    raise
                trainers.pop(name, None)
                notes.append(f"{name}: does not run here ({reason(error)})")
            say(f"{name}: ready after {time.perf_counter() - begin:.0f} s")
        runs = {name: a_round(trainer, batches) for name, trainer in trainers.items()}
        taken = take_turns(runs, rounds or plan.rounds, device)
        n_images = plan.n_batches * case.n_images
        report.rows += [Row(case=case.name, contender=name, figures=taken[name].rates(n_images)) for name in trainers]
        del trainers, runs
    return report


def make_recipe(plan: Plan, case: Case) -> Recipe:
    labels = ", ".join(f'"{i}"' for i in range(N_LABELS))
    more = [f"model.patch={case.patch}", f"model.side={case.n_sides}", "model.dropout=0.0", f"task.labels=[{labels}]"]
    usual = ["model.mean=[0.5]", "model.deviation=[0.5]", f"task.names=[{labels}]", f"task.size={case.side}"]
    stretched = ['task.resize="stretch"']
    return Recipe.read("cifar10-vit", [*plan.settings, *more, *usual, *stretched])


def make_batches(plan: Plan, recipe: Recipe, case: Case) -> list[LabeledImageBatch]:
    draw = torch.Generator().manual_seed(case.n_images)
    form: GridForm = recipe.model.grid  # type: ignore[assignment]
    batches = []
    for _ in range(plan.n_batches):
        least = max(1, case.n_sides // 3) if case.is_mixed else case.n_sides
        sides = torch.randint(least, case.n_sides + 1, (case.n_images, 2), generator=draw).tolist()
        shapes: list[Shape] = sorted((height, width) for height, width in sides)
        layout = Grid(shapes, form)
        n_numbers = sum(height * width for height, width in shapes) * form.d_patch
        pixels = torch.randint(256, (n_numbers,), dtype=torch.uint8, generator=draw)
        labels = torch.randint(N_LABELS, (case.n_images,), generator=draw)
        batches.append(LabeledImageBatch([], pixels, layout, None, labels))
    return batches


def make(recipe: Recipe, device: torch.device, name: str) -> Trainer:
    """A contender, ready to train."""
    torch.manual_seed(0)
    return CONTENDERS[name](recipe.build_model().to(device), recipe)


def a_round(trainer: Trainer, batches: list[LabeledImageBatch]) -> Callable[[], None]:
    prepared = trainer.prepared(batches)
    return lambda: trainer.train(prepared)
