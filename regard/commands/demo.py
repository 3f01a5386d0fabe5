"""regard demo: the documents' own example, learnt and looked into."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from regard.data.grammar import Corpus
    from regard.run import Run
    from regard.viewer.reference import HeadScore

MARK = "demo.json"  # is in every folder that this command made, so that it knows which ones it may remove
N_CHOOSING = 1000  # training pairs on which the head is chosen


def demo(
    run: Annotated[Path, typer.Option(help="the run folder")] = Path("runs/demo"),
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N (default: a GPU if there is one)")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="train for fewer steps (default: the recipe's)")] = None,
    again: Annotated[bool, typer.Option("--again", help="remove the demo that is there and start anew")] = False,
) -> None:
    """Learn the documents' example on this machine and look at its attention (about three minutes on two cores)."""
    from rich.console import Console

    from regard.data.grammar import generate
    from regard.run import load
    from regard.viewer.reference import best_head, only_meaning_tells, score_heads

    console = Console(highlight=False)
    corpus = generate()
    make_ready(run, again)
    if (run / "model.safetensors").is_file():
        check_steps(run, steps)
        console.print(f"{run} holds a finished demo; here is what it learnt. `regard demo --again` starts anew.")
    else:
        learn(corpus, run, device, steps, console)

    learnt = load(run, device)
    show_figures(learnt, corpus, console)
    show_pronouns(learnt, console)
    telling = [pair for pair in corpus.train if only_meaning_tells(pair)][:N_CHOOSING]
    held_out = [pair for pair in corpus.held_out if only_meaning_tells(pair)]
    chosen = best_head(score_heads(learnt.model, learnt.tokenizer, telling))
    scores = score_heads(learnt.model, learnt.tokenizer, held_out)
    show_head(chosen, next(score for score in scores if score.name == chosen.name), console)
    show_files(learnt, chosen, console)
