"""python -m bench.crossvalidate RECIPE --folds 5: how good settings are, told by the training data alone."""

import json
import statistics
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from regard.data.files.labelled import Labelled, labelled_parts
from regard.data.files.splits import folds
from regard.errors import ConfigError, RegardError
from regard.learning.device import choose_device
from regard.runs.inheriting import read_recipe
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start


def main(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="of classification")],
    n_folds: Annotated[int, typer.Option("--folds", min=2)] = 5,
    first: Annotated[int, typer.Option(help="train only the first so many of the folds; 0: all")] = 0,
    from_: Annotated[Path | None, typer.Option("--from", metavar="RUN", help="begin with this run's weights")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="TABLE.NAME=VALUE")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N")] = None,
) -> None:
    """Train on all folds but one, validate on that one when all steps are done, for each fold in turn.

    Validation chooses nothing here, not even a checkpoint, so the figure is what another text of this kind would get.
    """
    try:
        chosen = read_recipe(recipe, set_ or [], from_)
        if chosen.kind != "classification":
            raise ConfigError(f"{recipe} is of the task {chosen.kind!r}; cross-validation is of classification")
        train = labelled_parts(chosen.data).train
        accuracies = []
        for i, (left, held_out) in enumerate(folds(train.texts, n_folds)[: first or n_folds]):
            overrides = [*(set_ or []), *once_at_the_end(chosen.training.steps)]
            accuracies.append(accuracy(recipe, overrides, train.take(left), train.take(held_out), from_, device))
            print(f"fold {i + 1}: {len(left):,} texts to train, {len(held_out):,} to validate: {accuracies[-1]:.2f} %")
    except RegardError as error:
        raise typer.BadParameter(str(error)) from None
    spread = statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0
    print(f"mean {statistics.mean(accuracies):.2f} %, standard deviation {spread:.2f}")


def once_at_the_end(steps: int) -> list[str]:
    return [f"training.validate_every={steps}", "training.patience=0", "training.average=0"]


def accuracy(
    recipe: str, overrides: list[str], train: Labelled, valid: Labelled, from_: Path | None, device: str | None
) -> float:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        for name, part in (("train", train), ("valid", valid)):
            pairs = zip(part.texts, part.labels, strict=True)
            lines = [json.dumps({"text": text, "label": label}) + "\n" for text, label in pairs]
            (root / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        files = ["data.train=['train.jsonl']", "data.valid=['valid.jsonl']", "data.test=[]"]
        shares = ["data.valid_share=0.0", "data.test_share=0.0", "data.columns=['text', 'label']"]
        fold = read_recipe(recipe, [*overrides, f"data.root='{root}'", *files, *shares], from_)
        prepared = prepare(fold, root / "run", weights_from=from_)
        silent = Screen(Console(quiet=True))
        result = start(prepared, root / "run", choose_device(device), resume=False, screen=silent)
        return result.values["accuracy"]


if __name__ == "__main__":
    typer.run(main)
