"""What the cost model says of 8 to 1,024 GPUs, drawn; nothing of it was measured."""

from pathlib import Path

import torch

from bench.report import Report
from regard.runs.recipe import Recipe
from regard.training.scaling import H200, STATED, Work, step_cost

DRAWN = (("gpt2", 1024, 32_768), ("transformer-base", 28, 25_000), ("transformer-big", 28, 25_000))
WHOLE = 2**20  # tokens of the batch that is divided
MANY = (8, 16, 32, 64, 128, 256, 512, 1024)


def draw(report: Report, path: Path) -> None:
    """What the model says of 8 to 1,024 GPUs: as many tokens on each, however many there are; and one batch divided."""
    from regard.viewer import style  # matplotlib takes a second to import

    figure = style.blank(10.4, 4.2)
    panels = figure.subplots(1, 2)
    for (name, work), color in zip(drawn_works().items(), style.LINES, strict=False):
        whole = work.shared_by(work.n_tokens / WHOLE)
        for kind, line in (("data", "-"), ("sharded", "--")):
            shares = [
                [efficiency(work, work, n, kind) for n in MANY],
                [efficiency(whole.shared_by(n), whole, n, kind) for n in MANY],
            ]
            for axes, drawn in zip(panels, shares, strict=True):
                axes.plot(MANY, drawn, line, color=color, marker="o", markersize=3, label=f"{name}, {kind}")
    titles = ("25,000 to 32,768 tokens on each", f"a batch of {WHOLE:,} tokens, divided")
    for axes, title in zip(panels, titles, strict=True):
        axes.set_xscale("log", base=2)
        axes.set_xticks(MANY, [f"{n:,}" for n in MANY], fontsize=8)
        axes.set_xlabel("GPUs", fontsize=8)
        axes.set_ylim(0, 100)
        axes.set_title(f"% of the speed of as many single GPUs: {title}", fontsize=9, color=style.INK, loc="left")
        axes.grid(color=style.RULE, linewidth=0.6)
        style.plain(axes)
    panels[0].legend(fontsize=7, frameon=False)
    figure.suptitle(
        f"MODELED, not measured: H200s, {STATED.n_inside} in a machine; {STATED.inside / 1e9:g} GB/s within, "
        f"{STATED.between / 1e9:g} GB/s between machines",
        fontsize=10,
        color=style.INK,
    )
    figure.savefig(path, format="png")


def efficiency(work: Work, alone: Work, n: int, kind: str) -> float:
    """Tokens a second of n GPUs, each with this work, in percent of n times those of one that is alone."""
    many, one = step_cost(work, H200, n, kind=kind), step_cost(alone, H200)
    return 100 * many.tokens_per_second / (n * one.tokens_per_second)


def drawn_works() -> dict[str, Work]:
    """As many tokens on each GPU as were measured on one."""
    works = {}
    for name, length, n_tokens in DRAWN:
        recipe = Recipe.read(name)
        with torch.device("meta"):
            model = recipe.build_model()
        works[name] = Work.of(model, recipe.d_model, length, n_tokens)
    return works
