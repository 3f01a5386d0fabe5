"""What all tasks on pairs of texts have in common: pairs of lines in, the target's tokens out.  Any pair of texts will
do: questions and answers, say."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
import torch

from regard.checks import not_negative, one_of, share
from regard.data.batching.computed_order import PooledEpochs
from regard.data.batching.packing import Packing
from regard.data.config import DataConfig
from regard.data.files.pairs import pair_parts, read_pairs
from regard.data.files.reading import Examples
from regard.data.files.splits import Parts
from regard.data.report import UNLIMITED, Row, note_rows, report
from regard.decoding.engine import Engine
from regard.decoding.forced import score
from regard.errors import ConfigError, RegardError
from regard.evaluation.measured import Measured, Versus, count_notes, metric_row
from regard.evaluation.rouge import rouge
from regard.evaluation.translation import bleu, chrf, exact_match, paired, side_by_side
from regard.models.heads import LanguageModel
from regard.models.interface import AnyTranslator
from regard.processes import spread_lines
from regard.tasks.setup import B, Sample, TaskConfig, Use, Verbs
from regard.tasks.task import AnyTask
from regard.tasks.translation.batches import LargePairSet, PairSet, Weigh
from regard.tasks.translation.framed import FramedConfig, FramedTask
from regard.tasks.translation.use import least_expected, translate, unusual
from regard.tasks.translation.verbs import Align, ScorePairs, Summarize, Translate, Translated
from regard.text.sentences import beginning, split
from regard.text.unicode import well_formed

W = TypeVar("W", bound=AnyTranslator | LanguageModel)  # what writes targets
N_EXPECTED = 200  # validation lines that say what translations are like
SHOWN = 300  # characters of a source that a validation shows

# What is also measured of the outputs of a validation.
MEASURES: dict[str, Callable[[list[str], list[str]], float]] = {
    "bleu": lambda outputs, references: bleu(outputs, references, resamples=0).value,
    "rouge": lambda outputs, references: rouge(outputs, references)[-1].value,  # ROUGE-L
}


@dataclass(frozen=True, kw_only=True)
class PairsConfig(FramedConfig):
    """What every task on pairs of texts may set."""

    source: str = "source"  # name of the source language, or of what is read, for people: it appears in the model card
    target: str = "target"  # name of the target language, or of what is written, likewise
    smoothing: float = 0.1  # label smoothing ε (section 5.4 of the paper): the label gets 1 - ε, the vocabulary ε
    validation_lines: int = 500  # how many validation pairs are also translated, greedily, for BLEU or ROUGE; 0: none
    shown: int = 3  # fixed validation samples printed at each validation
    # a source longer than data.max_length is `split` and joined again (in training: dropped), or `cut` to its beginning
    long: str = "split"
    metric: str = "loss"  # the validation figure that chooses the best checkpoint: `loss`, `bleu` or `rouge` (ROUGE-L)

    def __post_init__(self) -> None:
        one_of(self, ("loss", *MEASURES), "metric")
        one_of(self, ("split", "cut"), "long")
        not_negative(self, "validation_lines", "shown")
        share(self, "smoothing")
        if self.metric != "loss" and self.validation_lines < 1:
            raise ConfigError(f"metric = {self.metric!r} needs validation_lines above 0")

    @property
    def measured(self) -> str:
        """Which measure a validation takes of the outputs."""
        return self.metric if self.metric in MEASURES else "bleu"

    @property
    def languages(self) -> tuple[str, str] | None:
        return (self.source, self.target) if self.long == "split" else None  # what is cut is a summary

    @property
    def written(self) -> int:
        return self.validation_lines + self.shown

    @property
    def verb(self) -> str:
        return "summarize" if self.long == "cut" else "translate"


class PairTask(FramedTask[Examples, PairSet, W, B]):
    """What a translator and a language model that translates have in common."""

    compared_as, tests_on_validation, has_outputs = "pairs", False, True
    weigh: ClassVar[Weigh] = np.maximum
    config: PairsConfig

    # Files.

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[Examples]:
        if config.metric != "loss" and not (data.valid or data.valid_share):
            raise ConfigError(f"metric = {config.metric!r} needs validation pairs: set data.valid or data.valid_share")
        return pair_parts(data)

    def test(self, files: Sequence[str] = ()) -> tuple[str, Examples]:
        """Given files are a source and a reference, whatever columns those of the recipe have."""
        return (", ".join(files), read_pairs(tuple(files), (), ".")) if files else super().test()

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        """Both sides."""
        return (line for column in pair_parts(data).train.columns for line in column)

    def part(self, raw: Examples, to_learn: bool) -> PairSet:
        kind = LargePairSet if to_learn and self.setup.data.are_many(len(raw), raw.digest) else PairSet
        return kind(raw, self.setup, self.frame, type(self).weigh)

    def packing(self, part: PairSet, budget: int, order: str, seed: int) -> Packing | PooledEpochs:
        return part.packing(budget, order, seed)

    # Validation.

    @torch.no_grad()
    def figures(self, model: W, part: PairSet) -> dict[str, float]:
        """The loss in nats a token, without smoothing; BLEU or ROUGE-L of greedy outputs."""
        values = {
            "loss": self.mean_loss(model, part, self.packing(part, self.batch_tokens, "grouped", seed=0).epoch(0))
        }
        n = min(self.config.validation_lines, len(part))
        if n:
            outputs = spread_lines(part.texts(0)[:n], partial(self.greedily, model))
            values[self.config.measured] = MEASURES[self.config.measured](outputs, part.texts(1)[:n])
        return values

    def first_samples(self, model: W, valid: PairSet) -> list[Sample]:
        sources, references = (valid.texts(side)[: self.config.shown] for side in (0, 1))
        return list(zip(map(shortened, sources), references, self.greedily(model, sources), strict=True))

    def greedily(self, model: W, lines: list[str]) -> list[str]:
        """Greedy outputs, for validation."""
        return [answer.text for answer in self.answer_greedily(model, lines)]

    def answer_greedily(self, model: W, lines: list[str]) -> list[Translated]:
        quick = replace(self.setup.decoding, beam=1, n_best=1, sample=False)
        return self.translate(Use(model, Engine(model), quick), Translate(lines))

    def expected(self, model: W) -> dict[str, float]:
        """How likely its own translations of some validation lines, spread over all, are to the model."""
        lines = [] if self.valid is None else self.valid.texts(0)
        return least_expected(self.answer_greedily(model, lines[:: -(-len(lines) // N_EXPECTED) or 1]))

    # Measuring.

    def measure(self, use: Use[W], files: Sequence[str] = ()) -> Measured:
        return self.measure_pairs(use, *self.test(files))

    def write_down(self, use: Use[W], lines: list[str]) -> list[tuple[str, int, list[str]]]:
        """The output of each line, its tokens and its notes."""
        answers = self.translate(use, Translate(lines))
        counts = [sum(len(hypothesis.tokens) + 1 for _, hypothesis in answer.parts) for answer in answers]
        return [(answer.text, n, answer.notes) for answer, n in zip(answers, counts, strict=True)]

    def measure_pairs(self, use: Use[W], of: str, test: Examples) -> Measured:
        """BLEU, chrF, exact match and ROUGE with their settings, and the speed."""
        begin = time.perf_counter()
        written = spread_lines(test.columns[0], partial(self.write_down, use))
        seconds = time.perf_counter() - begin
        outputs, references, decoding = [text for text, _, _ in written], list(test.columns[1]), use.decoding
        n_tokens = sum(n for _, n, _ in written)
        notes = count_notes((note for _, _, own in written for note in own), (":", " in"))
        metrics = [
            *(rouge(outputs, references) if self.config.measured == "rouge" else ()),
            bleu(outputs, references),
            bleu(outputs, references, lowercase=True),
            chrf(outputs, references),
            exact_match(outputs, references),
        ]
        speed = {
            "target_tokens_per_second": round(n_tokens / seconds, 1),
            "lines_per_second": round(len(outputs) / seconds, 1),
            "seconds": round(seconds, 2),
        }
        record: dict[str, object] = {"lines": len(outputs), "metrics": [asdict(metric) for metric in metrics]}
        record |= {"decoding": asdict(decoding), **speed, "notes": notes}
        way = f"beam {decoding.beam}, length penalty {decoding.length_penalty}"
        rows = [
            ("what", "value", "95 % interval"),
            *(metric_row(metric, "{:.2f}", "{:.1f}") for metric in metrics),
            ("decoding", "sampling" if decoding.sample else way, ""),
            ("speed", f"{speed['target_tokens_per_second']:,} tokens/s, {speed['lines_per_second']:,} lines/s", ""),
            ("lines", f"{len(outputs):,}", ""),
            *((f"lines: {note}", f"{n:,}", "") for note, n in notes.items()),
        ]
        return Measured(
            of,
            metrics,
            record,
            [("", rows)],
            footing=[f"{metric.name}: {metric.signature}" for metric in metrics],
            outputs=outputs,
            remarks=list(test.notes.rows()),
            is_compared=True,
        )

    def versus(self, use: Use[W], other: AnyTask, its: Use, files: Sequence[str]) -> Versus:
        """The paired bootstrap test of both runs' outputs."""
        (of, ours), (_, theirs) = self.test(files), other.test(files)
        if ours.columns != theirs.columns:
            raise ConfigError(
                "the two runs have different test sets, so nothing was compared; name one for both: "
                "regard evaluate RUN RUN SOURCE REFERENCE"
            )
        sides = [self.measure_pairs(use, of, ours), other.measure(its, files)]
        return side_by_side(paired(list(sides[0].outputs), list(sides[1].outputs), list(ours.columns[1])), sides)

    # For people.

    def inspect(self) -> list[Row]:
        shown = {name: part.for_report() for name, part in self.parts().items()}
        if not self.frame.cut:
            return report(shown, self.tokenizer, self.max_length)
        cut = [row for row in note_rows("train", self.train.notes) if row.what.startswith("cut")]
        return report(shown, self.tokenizer, UNLIMITED) + cut

    @property
    def purpose(self) -> str:
        return f"was trained to turn {self.config.source} into {self.config.target}"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (f"regard {self.config.verb} {folder} < lines.txt", f"regard evaluate {folder}")

    # Use.

    @property
    def verbs(self) -> Verbs:
        return {"translate": self.translate, "summarize": self.summarize, "score": self.score, **super().verbs}

    def room(self, model: W) -> int:
        """Tokens of an answer that the model has room for: a decoder has its own."""
        return model.max_length

    def translate(self, use: Use[W], ask: Translate) -> list[Translated]:
        config = (ask.decoding or use.decoding).within(self.room(use.model))
        prefixes = None if ask.prefixes is None else list(ask.prefixes)
        longest = self.longest(use.model)
        answers = translate(
            use.engine, self.tokenizer, list(ask.lines), config, longest, self.frame, prefixes, ask.on_progress
        )
        for answer, prefix in zip(answers, prefixes or [""] * len(answers), strict=True):
            if not (prefix or config.sample):  # otherwise what was written is not the model's own choice
                answer.notes.extend(unusual(answer, use.expected))
        if ask.alignments:
            answers = [replace(answer, alignment=self.align(use, Align(answer))) for answer in answers]
        return answers

    def longest(self, model: W) -> int:
        """Tokens of a source that are read in one piece."""
        return min(self.max_length, model.max_length - self.frame.n_around)

    def pieces(self, model: W, source: str) -> list[str]:
        """As `translate` reads it."""
        read, line = beginning if self.frame.cut else split, well_formed(source)
        if len(self.tokenizer.encode(line)) <= self.longest(model):
            return [source]
        parts = read(line, self.tokenizer, self.longest(model))
        return [line[part[0].start : part[-1].end] for part in parts if part] or [source]

    def own_target(self, use: Use[W], source: str) -> str:
        return self.translate(use, Translate([source]))[0].text

    def summarize(self, use: Use[W], ask: Summarize) -> list[Translated]:
        return self.translate(use, Translate(ask.texts, ask.decoding))

    def align(self, use: Use[W], ask: Align) -> list[tuple[int, int]]:
        raise RegardError("words are aligned by cross-attention, which a model of one sequence does not have")

    def score(self, use: Use[W], ask: ScorePairs) -> list[list[float]]:
        sources = self.tokenizer.encode_batch(ask.sources)
        targets = self.tokenizer.of_targets.encode_batch(ask.targets)
        most = use.model.max_length
        limits = (most - self.frame.n_around, most - 1)  # what stands around a source, and a start
        for side, limit, lines in zip(("source", "target"), limits, (sources, targets), strict=True):
            for number, ids in enumerate(lines, start=1):
                if len(ids) > limit:
                    raise RegardError(f"{side} line {number} has {len(ids)} tokens, the model takes {limit}; split it")
        prompts = [self.frame.source(ids) for ids in sources]
        return score(use.engine.model, prompts, targets, self.frame.start, self.frame.end)


def shortened(text: str) -> str:
    """For the screen: one line, shortened."""
    line = " ".join(text.split("\n"))
    return line if len(line) <= SHOWN else line[:SHOWN] + " …"
