"""What the demo shows of its trained run: figures, two pronouns, the head that looks at what "it" is, what switching it
off changes, and files."""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

from rich.console import Console
from rich.text import Text

from regard.checks import expect
from regard.data.corpora.grammar import TIRED, WIDE, Pair, PairCorpus, Sentence, make_pair
from regard.evaluation.translation import bleu, exact_match
from regard.models.transformer import Transformer
from regard.nn.watch import switched_off
from regard.runs.card import duration
from regard.runs.records import read_result
from regard.runs.run import Run
from regard.tasks.translation.reference import (
    PRONOUN,
    WHEN,
    BothReadings,
    best_head,
    only_meaning_tells,
    right_pronouns,
    score_heads,
    score_readings,
)
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
        self.references = [pair.target for pair in corpus.held_out]

    def give(self) -> None:
        outputs = self.translate(self.corpus.held_out)
        self.show_figures(outputs)
        self.show_pronouns()
        chosen = self.show_head()
        self.show_without(chosen, outputs)
        self.show_files(chosen)

    def translate(self, pairs: Sequence[Pair]) -> list[str]:
        return [answer.text for answer in self.run.translate([pair.source for pair in pairs])]

    def show_figures(self, outputs: list[str]) -> None:
        exact, score = exact_match(outputs, self.references), bleu(outputs, self.references)
        result = read_result(self.run.folder)
        row = self.printer.row
        self.printer.title("Sentences it has never seen")
        row("exact match", f"{exact.value:.1f} %", f"of {len(outputs):,} held-out sentences")
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
        french.highlight_regex(PRONOUN, "bold magenta")
        for text in (Text(), english, french):
            self.printer.line(text)
        if output != pair.target:
            self.printer.line(("  should be: ", "yellow"), pair.target)

    def show_head(self) -> BothReadings:
        """The head that best tells what "it" is: chosen on training pairs, scored on held-out ones."""
        model, tokenizer, row = expect(self.run.model, Transformer), self.run.tokenizer, self.printer.row
        candidates = score_readings(model, tokenizer, telling(self.corpus.train)[:N_CHOOSING])
        chosen = best_head(candidates)
        scores = score_readings(model, tokenizer, telling(self.corpus.held_out))
        held_out = next(score for score in scores if score.place == chosen.place)
        self.printer.title('Which head looks at what "it" is?')
        self.printer.paragraph(
            "A head is right about a pair if it attends more to the noun that is meant than to the other one. The "
            "pairs that count are those whose nouns differ in gender but not in number: there, only the adjective "
            "decides. The head is chosen by how much more the right noun gets in the reading where that is less."
        )
        self.printer.line()
        self.printer.line("  ", (chosen.name, "bold"), f", while {WHEN[chosen.place[0]]}")
        row("held out", percent(held_out.share), f"right in {held_out.n_right:,} of {held_out.n_pairs:,} pairs")
        row("chance", percent(0.5))
        row("training", percent(chosen.share), f"{chosen.n_pairs:,} pairs that chose it, of {len(candidates)} heads")
        self.printer.line()
        self.printer.line('  Its attention to the right noun on held-out pairs, where "it" is')
        for what, score in (("the subject", held_out.subject), ("the object", held_out.object)):
            note = f"{percent(score.wrong)} to the wrong one; right in {score.n_right:,} of {score.n_pairs:,} pairs"
            row(what, percent(score.right), note)
        for sentence in (TIRED, WIDE):
            scores_of_one = score_heads(model, tokenizer, [make_pair(sentence)])
            score = next(score for score in scores_of_one if score.place == chosen.place)
            meant, other = (sentence.subject, sentence.object)[:: 1 if sentence.about_subject else -1]
            row(f"too {sentence.adjective}", percent(score.right), f"to {meant}, {percent(score.wrong)} to {other}")
        return chosen

    def show_without(self, chosen: BothReadings, outputs: list[str]) -> None:
        """What the translations lose when the head's output is removed."""
        with switched_off(self.run.model, *chosen.place):
            without = self.translate(self.corpus.held_out)
        counted = [i for i, pair in enumerate(self.corpus.held_out) if only_meaning_tells(pair)]
        pairs = [self.corpus.held_out[i] for i in counted]
        exact, exact_without = (exact_match(texts, self.references).value for texts in (outputs, without))
        right, right_without = (right_pronouns([texts[i] for i in counted], pairs) for texts in (outputs, without))
        row = self.printer.row
        self.printer.title("And without this head?")
        self.printer.paragraph("The same sentences, translated with the output of this one head removed:")
        self.printer.line()
        row("exact match", f"{exact_without:.1f} %", f"instead of {exact:.1f} %")
        row(
            "pronouns",
            f"{right_without:,}",
            f"right of {len(pairs):,} that only the adjective decides, instead of {right:,}",
        )
        self.printer.paragraph(dependence(right - right_without, len(pairs)))

    def show_files(self, chosen: BothReadings) -> None:
        folder, line = self.run.folder, self.printer.line
        capture = replace(self.run.look(make_pair(TIRED).source), opens=chosen.place)
        page.write_page(capture, folder / "attention.html")
        picture.attention(capture.pick(*chosen.place), folder / "attention.png")
        self.printer.title("Look for yourself")
        line(
            f"  {folder / 'attention.html'}", (f"  the page: open it in a browser; it begins with {chosen.name}", "dim")
        )
        line(f"  {folder / 'attention.png'} ", ("  a picture of that head", "dim"))
        line()
        sentence = "The cow didn't eat the apple because it was too sour."
        for command in (
            f'echo "{sentence}" | regard translate {folder}',
            f'regard look {folder} "{sentence}"',
            f"regard look {folder} --positions positions.png",
            f"regard neighbors {folder} cow",
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


def telling(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if only_meaning_tells(pair)]


def dependence(n_lost: int, n: int) -> str:
    """What can be said of a head without which so many of n pronouns more are wrong."""
    if n_lost <= 0:
        return "Switching it off loses no pronoun: the translator does not depend on this head."
    how_much = "hardly depends" if n_lost < n / 10 else "depends"
    return f"Switching it off loses {n_lost:,} of {n:,} pronouns: the translator {how_much} on this head."


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"
