"""What the demo shows of its trained run: figures, two pronouns, the head that knows what "it" is, and files."""

import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

from rich.console import Console
from rich.text import Text

from regard.data.corpora.grammar import TIRED, WIDE, Pair, PairCorpus, Sentence, make_pair
from regard.evaluation.translation import bleu, exact_match
from regard.runs.card import duration
from regard.runs.run import Run
from regard.tasks.translation.reference import WHEN, HeadScore, best_head, only_meaning_tells, score_heads
from regard.training.prepare import parameters_by_part
from regard.viewer import page, picture

N_CHOOSING = 1000  # training pairs on which the head is chosen


class Printer:
    """Titles, paragraphs and rows for a person; nothing in a text is taken for a style."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True)

    def line(self, *parts: str | tuple[str, str] | Text) -> None:
        """Texts, some with a style."""
        self.console.print(Text.assemble(*parts))

    def title(self, text: str) -> None:
        self.line()
        self.line((text, "bold underline"))

    def row(self, name: str, value: str, note: str = "") -> None:
        self.line(f"  {name:12}", (f"{value:>9}", "bold"), (f"  {note}" if note else "", "dim"))

    def paragraph(self, text: str) -> None:
        """At most 100 letters a line."""
        self.line()
        for part in textwrap.wrap(text, min(self.console.width, 100) - 2 if self.console.is_terminal else 98):
            self.line("  ", part)


class Tour:
    def __init__(self, run: Run, corpus: PairCorpus, printer: Printer):
        self.run, self.corpus, self.printer = run, corpus, printer

    def give(self) -> None:
        self.show_figures()
        self.show_pronouns()
        self.show_files(self.show_head())

    def translate(self, pairs: Sequence[Pair]) -> list[str]:
        return [answer.text for answer in self.run.translate([pair.source for pair in pairs])]

    def show_figures(self) -> None:
        outputs = self.translate(self.corpus.held_out)
        references = [pair.target for pair in self.corpus.held_out]
        exact, score = exact_match(outputs, references), bleu(outputs, references)
        result = json.loads((self.run.folder / "result.json").read_text(encoding="utf-8"))
        row = self.printer.row
        self.printer.title("Sentences it has never seen")
        row("exact match", f"{exact.value:.1f} %", f"of {len(references):,} held-out sentences")
        row("BLEU", f"{score.value:.1f}", score.signature)
        row("weights", f"{parameters_by_part(self.run.model)['all']:,}", self.run.weights)
        row("trained in", duration(result["seconds"]), f"{result['steps']:,} steps, {result['tokens']:,} tokens")

    def show_pronouns(self) -> None:
        """The lecture's two sentences; then the same with a feminine subject."""
        masculine = [TIRED, WIDE]
        feminine = [replace(sentence, subject="turtle") for sentence in masculine]
        pairs = [make_pair(sentence) for sentence in masculine + feminine]
        outputs = self.translate(pairs)

        self.printer.title('What is "it"?')
        for sentence, output in zip(masculine, outputs[:2], strict=True):
            self.show_translation(sentence, output)
        self.printer.paragraph("Now a turtle, which is feminine in French, instead of the animal, which is masculine:")
        for sentence, old, new in zip(feminine, outputs[:2], outputs[2:], strict=True):
            self.show_translation(sentence, new)
            changes = ", ".join(f"{a or '(nothing)'} → {b or '(nothing)'}" for a, b in differences(old, new))
            self.printer.line((f"  changed: {changes or 'nothing'}", "dim"))
        n_wrong = sum(output != pair.target for output, pair in zip(outputs, pairs, strict=True))
        self.printer.paragraph(
            f"{n_wrong} of these 4 translations are wrong; longer training should fix that."
            if n_wrong
            else "Only the first pronoun and its adjective changed: there, it was the animal. In the second, it is the "
            "street."
        )

    def show_translation(self, sentence: Sentence, output: str) -> None:
        pair = make_pair(sentence)
        english, french = Text(f"  {pair.source}"), Text(f"  {output}")
        english.highlight_regex(rf"\bit\b|{sentence.adjective}", "bold cyan")
        french.highlight_regex(r"\b(ils?|elles?)\b", "bold magenta")
        for text in (Text(), english, french):
            self.printer.line(text)
        if output != pair.target:
            self.printer.line(("  should be: ", "yellow"), pair.target)

    def score_head(self, head: HeadScore, pairs: Sequence[Pair]) -> HeadScore:
        scores = score_heads(self.run.model, self.run.tokenizer, pairs)
        return next(score for score in scores if score.place == head.place)

    def show_head(self) -> HeadScore:
        """The head that best knows what "it" is: chosen on training pairs, scored on held-out ones."""
        choosing = [pair for pair in self.corpus.train if only_meaning_tells(pair)][:N_CHOOSING]
        candidates = score_heads(self.run.model, self.run.tokenizer, choosing)
        chosen = best_head(candidates)
        held_out = self.score_head(chosen, [pair for pair in self.corpus.held_out if only_meaning_tells(pair)])
        row = self.printer.row
        self.printer.title("Which head knows it?")
        self.printer.paragraph(
            "A head is right about a pair if it attends more to the noun that is meant than to the other one. The "
            "pairs that count are those whose nouns differ in gender but not in number: there, only the adjective "
            "decides."
        )
        self.printer.line()
        self.printer.line("  ", (chosen.name, "bold"), f", while {WHEN[chosen.kind]}")
        row("held out", percent(held_out.share), f"right in {held_out.n_right:,} of {held_out.n_pairs:,} pairs")
        row("chance", percent(0.5))
        row("training", percent(chosen.share), f"{chosen.n_pairs:,} pairs that chose it, of {len(candidates)} heads")
        row("attention", percent(held_out.right), f"to the right noun, {percent(held_out.wrong)} to the wrong one")
        for sentence in (TIRED, WIDE):
            score = self.score_head(chosen, [make_pair(sentence)])
            meant, other = (sentence.subject, sentence.object)[:: 1 if sentence.about_subject else -1]
            row(f"too {sentence.adjective}", percent(score.right), f"to {meant}, {percent(score.wrong)} to {other}")
        return chosen

    def show_files(self, chosen: HeadScore) -> None:
        folder, line = self.run.folder, self.printer.line
        capture = self.run.look(make_pair(TIRED).source)
        page.write_page(capture, folder / "attention.html")
        picture.attention(capture.pick(*chosen.place), folder / "attention.png")
        self.printer.title("Look for yourself")
        line(f"  {folder / 'attention.html'}", (f"  the page: open it in a browser, choose {chosen.name}", "dim"))
        line(f"  {folder / 'attention.png'} ", ("  a picture of that head", "dim"))
        line()
        sentence = "The cow didn't eat the apple because it was too sour."
        for command in (
            f'echo "{sentence}" | regard translate {folder}',
            f'regard look {folder} "{sentence}"',
            f"regard neighbours {folder} cow",
            f"regard evaluate {folder}",
        ):
            line("  $ ", (command, "bold"))
        if shutil.which("regard") is None:
            activate = Path(sys.executable).with_name("activate")
            line((f"  (regard is not on your path yet: source {activate})", "dim"))


def differences(before: str, after: str) -> list[tuple[str, str]]:
    """The words that changed: [("L'animal", "La tortue"), ("qu'il", "qu'elle")]."""
    old, new = (text.rstrip(" .?").split() for text in (before, after))
    return [
        (" ".join(old[a:b]), " ".join(new[c:d]))
        for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if kind != "equal"
    ]


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"
