"""BLEU, chrF and exact match of translations and captions, through sacreBLEU with its signatures.

Intervals and comparisons resample the sentences (Koehn 2004) with sacreBLEU's fixed seed, so the same files give the
same figures.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from regard.errors import DataError
from regard.evaluation.measured import Measured, Metric, Versus, proportion

RESAMPLES = 1000
ORDERS = (1, 2, 3, 4)  # of n-grams, as papers on captions give BLEU


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two systems on the same sentences; a p below 0.05 means that chance seldom makes so large a difference."""

    name: str
    value_a: float
    value_b: float
    p: float
    signature: str


class PlainCHRF(CHRF):
    """chrF as a float: sacreBLEU's own is NumPy's where something matches, and of a mixture it takes no mean."""

    def _compute_f_score(self, statistics: list[int]) -> float:
        return float(super()._compute_f_score(statistics))


METRICS: dict[str, Callable[[], Any]] = {
    "BLEU": BLEU,  # Papineni et al. 2002, tokenized by 13a
    "BLEU lower-cased": partial(BLEU, lowercase=True),
    "chrF": PlainCHRF,  # F-score of character n-grams, Popović 2015
}


def bleu(outputs: list[str], references: list[str], lowercase: bool = False, resamples: int = RESAMPLES) -> Metric:
    """`resamples` 0: no interval."""
    return corpus_score("BLEU lower-cased" if lowercase else "BLEU", outputs, references, resamples)


def chrf(outputs: list[str], references: list[str], resamples: int = RESAMPLES) -> Metric:
    """`resamples` 0: no interval."""
    return corpus_score("chrF", outputs, references, resamples)


def exact_match(outputs: list[str], references: list[str]) -> Metric:
    """The share of outputs that equal their reference, in percent; space at the ends does not count."""
    check(outputs, references)
    n_equal = sum(output.strip() == reference.strip() for output, reference in zip(outputs, references, strict=True))
    value = 100 * n_equal / len(outputs)
    return Metric(name="exact match", value=value, signature=f"n:{len(outputs)}|case:mixed|strip:yes")


def paired(outputs_a: list[str], outputs_b: list[str], references: list[str]) -> list[Comparison]:
    """The paired bootstrap test, by every metric."""
    check(outputs_a, references)
    check(outputs_b, references)
    return [compare(name, make(), outputs_a, outputs_b, [references]) for name, make in METRICS.items()]


def compare(
    name: str, metric: Any, outputs_a: list[str], outputs_b: list[str], streams: Sequence[Sequence[Any]]
) -> Comparison:
    """`streams` as in `corpus_metric`."""
    systems = [("a", outputs_a), ("b", outputs_b)]
    signatures, table = PairedTest(systems, {name: metric}, streams, test_type="bs", n_samples=RESAMPLES)()
    [(key, signature)] = signatures.items()
    a, b = table[key]
    p = 1.0 if a.score == b.score else b.p_value  # sacreBLEU gives no difference a small p
    return Comparison(name=name, value_a=a.score, value_b=b.score, p=p, signature=str(signature))


def side_by_side(comparisons: Sequence[Comparison], sides: Sequence[Measured]) -> Versus:
    """The figures of both systems, then how they compare."""
    rows: list[tuple[str, ...]] = [
        ("metric", "first", "second", "change", "p"),
        *(
            (c.name, f"{c.value_a:.2f}", f"{c.value_b:.2f}", f"{c.value_b - c.value_a:+.2f}", f"{c.p:.3f}")
            for c in comparisons
        ),
    ]
    title = "Paired bootstrap test: p is the chance of such a difference by luck"
    record: dict[str, object] = {"paired": [asdict(comparison) for comparison in comparisons]}
    return Versus(record, [side.record for side in sides], [(title, rows)], sides)


def caption_bleu(
    outputs: list[str], references: Sequence[Sequence[str]], order: int = 4, resamples: int = RESAMPLES
) -> Metric:
    """BLEU of n-grams up to `order`, lower-cased, each output with all of its references; `resamples` 0: no interval.

    Papers on captions give BLEU-1 to BLEU-4 so.
    """
    check(outputs, references)
    scored = corpus_metric(f"BLEU-{order}", of_captions(order), outputs, streams_of(references), resamples)
    return replace(scored, signature=f"{scored.signature}|order:{order}")


def of_captions(order: int) -> BLEU:
    return BLEU(lowercase=True, max_ngram_order=order, force=True)  # captions of data sets end in " .", so do ours


def streams_of(references: Sequence[Sequence[str]]) -> list[tuple[str | None, ...]]:
    """The first reference of every output, then the second, and so on; None: this output has no such reference."""
    return list(zip_longest(*references))


def paired_captions(
    outputs_a: list[str], outputs_b: list[str], references: Sequence[Sequence[str]]
) -> list[Comparison]:
    """The paired bootstrap test by BLEU-1 to BLEU-4, each output with all of its references."""
    check(outputs_a, references)
    check(outputs_b, references)
    streams = streams_of(references)
    compared = [compare(f"BLEU-{n}", of_captions(n), outputs_a, outputs_b, streams) for n in ORDERS]
    return [replace(c, signature=f"{c.signature}|order:{n}") for c, n in zip(compared, ORDERS, strict=True)]


def caption_match(outputs: list[str], references: Sequence[Sequence[str]]) -> Metric:
    """The share of outputs that equal one of their references, in percent; space at the ends does not count."""
    check(outputs, references)
    n_equal = sum(output.strip() in map(str.strip, own) for output, own in zip(outputs, references, strict=True))
    return proportion("exact match", n_equal, len(outputs), f"n:{len(outputs)}|case:mixed|strip:yes")


def corpus_score(name: str, outputs: list[str], references: list[str], resamples: int) -> Metric:
    check(outputs, references)
    return corpus_metric(name, METRICS[name](), outputs, [references], resamples)


def corpus_metric(
    name: str, metric: Any, outputs: list[str], streams: Sequence[Sequence[Any]], resamples: int
) -> Metric:
    """`streams` are the first reference of every output, then the second, and so on."""
    score = metric.corpus_score(outputs, streams, n_bootstrap=max(resamples, 1))
    low, high = max(score._mean - score._ci, 0.0), min(score._mean + score._ci, 100.0)  # a mean ± may leave the scale
    interval = (float(low), float(high)) if resamples > 1 else None
    return Metric(name=name, value=float(score.score), signature=str(metric.get_signature()), interval=interval)


def check(outputs: list[str], references: Sequence[object]) -> None:
    if len(outputs) != len(references):
        counts = f"{len(outputs)} outputs cannot be compared with {len(references)} references"
        raise DataError(f"{counts}: each output needs its own")
    if not outputs:
        raise DataError("there is nothing to evaluate: no outputs and no references")
