"""python -m bench.positions: every position encoding on a task that is nothing but order: write the letters backwards.

One tiny Transformer per encoding, the same seed, data and settings.  "as trained" are new texts of the lengths seen in
training, "longer" are texts longer than any of them.
"""

import random
import sys
import time
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from bench import machine
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.learning.schedules import Course, cosine
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.positions import POSITIONS
from regard.tasks.framing import Frame
from regard.tasks.translation.batches import make_batch
from regard.tasks.translation.framed import pair_loss

START, END, FIRST_LETTER, N_LETTERS = 1, 2, 4, 20
TRAINED, LONGER = (4, 12), (13, 16)  # letters of a text, from and to
N_TEXTS, N_TESTED = 64, 300  # of a batch, of a test
RATE = 3e-3
LEARNED = 0.1  # nats a token


@dataclass(frozen=True)
class Measured:
    name: str
    steps: int | None  # until the mean loss of ten steps fell below LEARNED; None: it never did
    loss: float  # nats a token, the mean of the last tenth of the training
    as_trained: float  # share of texts written backwards without a mistake
    longer: float
    seconds: float


def texts(n: int, lengths: tuple[int, int], draw: random.Random) -> list[list[int]]:
    return [
        [FIRST_LETTER + draw.randrange(N_LETTERS) for _ in range(draw.randint(*lengths))]  # letters may repeat
        for _ in range(n)
    ]


def measure(name: str, steps: int, seed: int) -> Measured:
    torch.manual_seed(seed)
    draw = random.Random(seed)
    config = TransformerConfig(
        vocab_size=FIRST_LETTER + N_LETTERS,
        d_model=64, n_heads=4, n_layers=2, d_ff=128, dropout=0.0, max_length=64, position=name, pre_norm=True,
    )  # fmt: skip
    model = Transformer(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    course = Course(steps=steps, warmup=steps // 10, d_model=config.d_model)
    losses = []
    begin = time.perf_counter()
    for step in range(1, steps + 1):
        read = [np.array(text) for text in texts(N_TEXTS, TRAINED, draw)]
        batch = make_batch(read, [text[::-1] for text in read], [""] * N_TEXTS, Frame(START, END))
        for group in optimizer.param_groups:
            group["lr"] = RATE * cosine(step, course)
        loss = pair_loss(model, batch, smoothing=0.0) / batch.n_targets
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    seconds = time.perf_counter() - begin
    learned = (step for step in range(10, steps + 1) if sum(losses[step - 10 : step]) / 10 < LEARNED)
    tenth = losses[-max(1, steps // 10) :]
    shares = [
        share_right(model.eval(), texts(N_TESTED, lengths, random.Random(seed + 1))) for lengths in (TRAINED, LONGER)
    ]
    return Measured(name, next(learned, None), sum(tenth) / len(tenth), shares[0], shares[1], seconds)


def share_right(model: Transformer, tested: list[list[int]]) -> float:
    config = DecodingConfig(extra_length=5)
    answers = generate(model, [[*text, END] for text in tested], config, START, END)
    return sum(best[0].tokens == text[::-1] for best, text in zip(answers, tested, strict=True)) / len(tested)


def main(
    steps: Annotated[int, typer.Option(min=1, help="of each training")] = 1000,
    seed: Annotated[int, typer.Option(help="of weights and data, the same for all")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="of the CPU")] = 2,
    only: Annotated[list[str] | None, typer.Option(help=f"some of {', '.join(POSITIONS)}; repeatable")] = None,
) -> None:
    """Compare the position encodings on reversing letters; a few minutes on 2 cores."""
    torch.set_num_threads(threads)
    console = Console(width=None if sys.stdout.isatty() else 100)  # room for the table in a file, too
    here = machine.describe(torch.device("cpu"))
    console.print(", ".join(f"{name} {value}" for name, value in here.items()), highlight=False)
    table = Table(
        title=f"Letters backwards: {TRAINED[0]} to {TRAINED[1]} of {N_LETTERS}, {steps:,} steps of {N_TEXTS} texts",
        title_justify="left",
        box=box.MARKDOWN,
    )
    table.add_column("position")
    for head in (
        f"steps to {LEARNED} nats",
        "loss at the end",
        "as trained",
        f"longer ({LONGER[0]} to {LONGER[1]})",
        "seconds",
    ):
        table.add_column(head, justify="right")
    for name in only or POSITIONS:
        outcome = measure(name, steps, seed)
        table.add_row(
            name,
            "never" if outcome.steps is None else f"{outcome.steps:,}",
            f"{outcome.loss:.3f}",
            f"{outcome.as_trained:.1%}",
            f"{outcome.longer:.1%}",
            f"{outcome.seconds:.0f}",
        )
        console.print(f"{name}: loss {outcome.loss:.3f}, {outcome.as_trained:.1%} right", highlight=False)
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
