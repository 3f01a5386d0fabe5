"""regard demo: the documents' own example, learnt and looked into."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from regard.data.corpora.grammar import Pair, PairCorpus, Sentence
    from regard.runs.run import Run
    from regard.viewer.reference import HeadScore

MARK = "demo.json"  # in every folder that this command made: only such a folder is ever removed
N_CHOOSING = 1000  # training pairs on which the head is chosen


def demo(
    run: Annotated[Path, typer.Option(help="the run folder")] = Path("runs/demo"),
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N (default: a GPU if there is one)")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="training steps (default: the recipe's)")] = None,
    again: Annotated[bool, typer.Option("--again", help="remove the demo that is there and start anew")] = False,
) -> None:
    """Learn the documents' example on this machine and look at its attention (under three minutes on two cores)."""
    from rich.console import Console

    from regard.data.corpora.grammar import generate
    from regard.learning.device import choose_device
    from regard.runs.run import load

    console = Console(highlight=False, soft_wrap=True)
    choose_device(device)  # a wrong name is said before anything is written
    make_ready(run, again)
    corpus = generate()
    if (run / "model.safetensors").is_file():
        check_steps(run, steps)
        line(console, f"{run} holds a finished demo: here it is again. To start anew: regard demo --again")
    else:
        learn(corpus, run, device, steps, console)
    learnt = load(run, device)
    show_figures(learnt, corpus, console)
    show_pronouns(learnt, console)
    show_files(learnt, show_head(learnt, corpus, console), console)


def make_ready(run: Path, again: bool) -> None:
    """A folder for the demo, empty or with an earlier demo in it."""
    import json
    import shutil

    from regard.errors import RunError
    from regard.runs.durable import write_file

    is_demo = (run / MARK).is_file()
    if run.exists() and not is_demo and (not run.is_dir() or any(run.iterdir())):
        raise RunError(
            f"{run} holds something that `regard demo` did not make, and is left as it is; "
            "name another folder: regard demo --run FOLDER"
        )
    if again and is_demo:
        shutil.rmtree(run)
    run.mkdir(parents=True, exist_ok=True)
    write_file(run / MARK, json.dumps({"made by": "regard demo"}).encode())


def check_steps(run: Path, steps: int | None) -> None:
    from regard.errors import RunError
    from regard.runs.recipe import Recipe

    planned = Recipe.read(str(run.resolve())).training.steps
    if steps not in (None, planned):
        raise RunError(f"the demo in {run} is one of {planned:,} steps; --again starts anew with {steps:,}")


def learn(corpus: "PairCorpus", run: Path, device: str | None, steps: int | None, console: "Console") -> None:
    """Write the corpus into the run's folder and train on it, or go on with a training that was stopped."""
    import json

    from regard.learning.device import choose_device
    from regard.runs.durable import only_one
    from regard.runs.recipe import Recipe
    from regard.training.prepare import prepare
    from regard.training.screen import open_screen
    from regard.training.start import start

    resume = (run / "recipe.toml").is_file()
    overrides = [f"data.root={json.dumps(str(run / 'data'))}"]
    if resume:
        check_steps(run, steps)
    elif steps is not None:
        overrides.append(f"training.steps={steps}")
    title(console, "Learning, from where it stopped" if resume else "Learning")
    say(
        console,
        f"A grammar makes {len(corpus.train):,} English sentences with their French to learn from, and "
        f"{len(corpus.held_out):,} that are held out: what happens in these, who does what to what and why, "
        "happens nowhere in training.",
    )
    with only_one(run):
        corpus.write(run / "data")
        prepared = prepare(Recipe.read(str(run.resolve()) if resume else "demo", overrides), run, resume)
        start(prepared, run, choose_device(device), resume, open_screen(console))


def show_figures(learnt: "Run", corpus: "PairCorpus", console: "Console") -> None:
    import json

    from regard.evaluation.translation import bleu, exact_match
    from regard.runs.card import duration
    from regard.training.prepare import parameters_by_part

    references = [pair.target for pair in corpus.held_out]
    outputs = [answer.text for answer in learnt.translate([pair.source for pair in corpus.held_out])]
    exact, score = exact_match(outputs, references), bleu(outputs, references)
    result = json.loads((learnt.folder / "result.json").read_text(encoding="utf-8"))
    title(console, "Sentences it has never seen")
    row(console, "exact match", f"{exact.value:.1f} %", f"of {len(references):,} held-out sentences")
    row(console, "BLEU", f"{score.value:.1f}", score.signature)
    row(console, "weights", f"{parameters_by_part(learnt.model)['all']:,}", learnt.weights)
    row(console, "learnt in", duration(result["seconds"]), f"{result['steps']:,} steps, {result['tokens']:,} tokens")


def show_pronouns(learnt: "Run", console: "Console") -> None:
    """The documents' two sentences; then the same with a feminine subject."""
    from dataclasses import replace

    from regard.data.corpora.grammar import TIRED, WIDE, make_pair

    before = [TIRED, WIDE]
    after = [replace(sentence, subject="turtle") for sentence in before]
    references = [make_pair(sentence).target for sentence in before + after]
    outputs = [answer.text for answer in learnt.translate([make_pair(sentence).source for sentence in before + after])]

    title(console, 'What is "it"?')
    for sentence, output in zip(before, outputs[:2], strict=True):
        show_translation(sentence, output, console)
    say(console, "Now a turtle, which is feminine in French, in place of the animal, which is masculine:")
    for sentence, old, new in zip(after, outputs[:2], outputs[2:], strict=True):
        show_translation(sentence, new, console)
        changes = ", ".join(f"{a or '(nothing)'} → {b or '(nothing)'}" for a, b in differences(old, new))
        line(console, ("  changed: ", "dim"), (changes or "nothing", "dim"))
    n_wrong = sum(output != reference for output, reference in zip(outputs, references, strict=True))
    say(
        console,
        "Only the first pronoun changed, and its adjective: there it was the animal. In the second it is the street."
        if n_wrong == 0
        else f"{n_wrong} of these 4 translations are not right; a longer training should mend that.",
    )


def show_translation(sentence: "Sentence", output: str, console: "Console") -> None:
    from rich.text import Text

    from regard.data.corpora.grammar import make_pair

    pair = make_pair(sentence)
    english, french = Text(f"  {pair.source}"), Text(f"  {output}")
    english.highlight_regex(rf"\bit\b|{sentence.adjective}", "bold cyan")
    french.highlight_regex(r"\b(ils?|elles?)\b", "bold magenta")
    console.print()
    console.print(english)
    console.print(french)
    if output != pair.target:
        line(console, ("  should be: ", "yellow"), pair.target)


def differences(before: str, after: str) -> list[tuple[str, str]]:
    """The words that changed: [("L'animal", "La tortue"), ("qu'il", "qu'elle")]."""
    from difflib import SequenceMatcher

    old, new = (text.rstrip(" .?").split() for text in (before, after))
    return [
        (" ".join(old[a:b]), " ".join(new[c:d]))
        for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if kind != "equal"
    ]


def show_head(learnt: "Run", corpus: "PairCorpus", console: "Console") -> "HeadScore":
    """The head that best tells what "it" is: chosen on training pairs, scored on held-out ones."""
    from regard.data.corpora.grammar import TIRED, WIDE, make_pair
    from regard.viewer.reference import WHEN, best_head, only_meaning_tells, score_heads

    choosing = [pair for pair in corpus.train if only_meaning_tells(pair)][:N_CHOOSING]
    testing = [pair for pair in corpus.held_out if only_meaning_tells(pair)]
    candidates = score_heads(learnt.model, learnt.tokenizer, choosing)
    chosen = best_head(candidates)

    def measured(pairs: "list[Pair]") -> "HeadScore":
        scores = score_heads(learnt.model, learnt.tokenizer, pairs)
        return next(score for score in scores if score.place == chosen.place)

    held_out = measured(testing)
    title(console, "Which head knows it?")
    say(
        console,
        "A head is right about a pair where it looks more at the noun that is meant than at the other one. The pairs "
        "that count are those whose nouns differ in gender and not in number: there, only the adjective tells.",
    )
    console.print()
    line(console, "  ", (chosen.name, "bold"), f", while {WHEN[chosen.kind]}")
    row(console, "held out", percent(held_out.share), f"right in {held_out.n_right:,} of {held_out.n_pairs:,} pairs")
    row(console, "chance", percent(0.5))
    row(
        console,
        "training",
        percent(chosen.share),
        f"{chosen.n_pairs:,} pairs that chose it, of {len(candidates)} heads",
    )
    row(console, "attention", percent(held_out.right), f"to the right noun, {percent(held_out.wrong)} to the wrong one")
    for sentence in (TIRED, WIDE):
        one = measured([make_pair(sentence)])
        meant, other = (sentence.subject, sentence.object)[:: 1 if sentence.about_subject else -1]
        row(console, f"too {sentence.adjective}", percent(one.right), f"to {meant}, {percent(one.wrong)} to {other}")
    return chosen


def show_files(learnt: "Run", chosen: "HeadScore", console: "Console") -> None:
    import shutil
    import sys

    from regard.data.corpora.grammar import TIRED, make_pair
    from regard.viewer import page, picture

    folder = learnt.folder
    capture = learnt.look(make_pair(TIRED).source)
    page.write_page(capture, folder / "attention.html")
    picture.attention(capture, folder / "attention.png", *chosen.place)
    title(console, "Look for yourself")
    line(console, f"  {folder / 'attention.html'}", (f"  the page: open it in a browser, choose {chosen.name}", "dim"))
    line(console, f"  {folder / 'attention.png'} ", ("  a picture of that head", "dim"))
    sentence = "The cow didn't eat the apple because it was too sour."
    console.print()
    for command in (
        f'echo "{sentence}" | regard translate {folder}',
        f'regard look {folder} "{sentence}"',
        f"regard neighbours {folder} cow",
        f"regard evaluate {folder}",
    ):
        line(console, "  $ ", (command, "bold"))
    if shutil.which("regard") is None:
        activate = Path(sys.executable).with_name("activate")
        line(console, (f"  (regard is not on your path yet: source {activate})", "dim"))


def title(console: "Console", text: str) -> None:
    console.print()
    line(console, (text, "bold underline"))


def line(console: "Console", *parts: str | tuple[str, str]) -> None:
    """Texts, each with its style; nothing in them is taken for a style."""
    from rich.text import Text

    console.print(Text.assemble(*parts))


def row(console: "Console", name: str, value: str, note: str = "") -> None:
    line(console, f"  {name:12}", (f"{value:>9}", "bold"), (f"  {note}" if note else "", "dim"))


def say(console: "Console", text: str) -> None:
    """A paragraph of at most 100 letters a line."""
    import textwrap

    console.print()
    for part in textwrap.wrap(text, min(console.width, 100) - 2 if console.is_terminal else 98):
        line(console, "  ", part)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"
