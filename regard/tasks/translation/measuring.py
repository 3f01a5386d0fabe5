"""What is measured of translations: BLEU, chrF, exact match and ROUGE with their settings, and two runs on one test."""

from collections.abc import Sequence
from dataclasses import asdict

from regard.data.files.reading import Examples
from regard.decoding.config import DecodingConfig
from regard.evaluation.metric import Measured, Versus, count_notes, metric_row
from regard.evaluation.rouge import rouge
from regard.evaluation.translation import bleu, chrf, exact_match, paired
from regard.tasks.translation.verbs import Translated


def measure_translations(
    answers: Sequence[Translated], of: str, test: Examples, decoding: DecodingConfig, seconds: float, with_rouge: bool
) -> Measured:
    """`seconds` is how long the translations took."""
    outputs, references = [answer.text for answer in answers], test.columns[1]
    n_tokens = sum(len(hypothesis.tokens) + 1 for answer in answers for _, hypothesis in answer.parts)
    notes = count_notes((note for answer in answers for note in answer.notes), (":", " in"))
    metrics = [
        *(rouge(outputs, references) if with_rouge else ()),
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


def compare_translations(sides: list[Measured], references: list[str]) -> Versus:
    """The paired bootstrap test of both runs' outputs."""
    comparisons = paired(list(sides[0].outputs), list(sides[1].outputs), references)
    rows: list[tuple[str, ...]] = [
        ("metric", "first", "second", "p"),
        *((c.name, f"{c.value_a:.2f}", f"{c.value_b:.2f}", f"{c.p:.3f}") for c in comparisons),
    ]
    title = "Paired bootstrap test: p is the chance of such a difference by luck"
    record: dict[str, object] = {"paired": [asdict(comparison) for comparison in comparisons]}
    return Versus(record, [side.record for side in sides], [(title, rows)], sides)
