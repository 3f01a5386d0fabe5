"""Counting n-grams, beside NLTK on the same text and orders; and what a large text takes."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from bench.machine import is_there
from bench.memory import process_peak
from bench.report import Report, Row
from bench.timing import take_turns
from regard.models.counting import NGrams, count
from regard.models.markov import Markov, MarkovConfig

ROUNDS = 3
ORDERS = (1, 2, 3)
SENTENCE = 25  # words
LARGE = {  # what 10 million tokens with a vocabulary of 50,000 take
    "order 3": {"order": 3},
    "skips, 8 words back": {"kind": "skips", "reach": 8},
    "masked, 16 words back": {"kind": "masked", "reach": 16},
}


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    """On the CPU, whatever the device: counting is sorting."""
    small = (2_000, 100) if tiny else (300_000, 10_000)
    large = (5_000, 100) if tiny else (10_000_000, 50_000)
    report = Report("ngrams", "tokens/s", "count all n-grams of a text whose words are drawn by Zipf's law")
    contenders = {"regard": ours, "regard with smoothing": smoothed, **({"NLTK": nltk} if is_there("nltk") else {})}
    if not is_there("nltk"):
        report.notes.append("NLTK: missing, because nltk is not installed")
    contenders = {name: make for name, make in contenders.items() if name not in skip}
    for order in ORDERS:
        runs = {name: make(*small, order) for name, make in contenders.items()}
        counted = {name: go() for name, go in runs.items()}  # warms up, too
        assert len(set(counted.values())) == 1, f"they count different n-grams: {counted}"
        for name, seconds in take_turns(runs, rounds or ROUNDS, torch.device("cpu")).items():
            case = f"order {order}, {small[0]:,} tokens"
            report.rows.append(Row(case=case, contender=name, figures=seconds.rates(small[0])))
    report.notes.append("all count the same: as many different n-grams, as often")
    if "large" not in skip:
        for name, settings in list(LARGE.items())[: 1 if tiny else None]:
            seconds = take_turns({"regard": prepare(*large, settings)}, 1, torch.device("cpu"))["regard"]
            memory = process_peak(prepare, *large, settings)
            case = f"{name}, {large[0]:,} tokens, {large[1]:,} words"
            report.rows.append(Row(case=case, contender="regard", figures=seconds.rates(large[0]), memory=memory))
        report.notes.append("the large text: with smoothing and, for masked, the mask; memory beside the text's own")
    return report


def text(n_tokens: int, n_words: int) -> tuple[np.ndarray, np.ndarray]:
    shares = 1 / np.arange(1, n_words + 1)
    tokens = np.random.default_rng(0).choice(n_words, n_tokens, p=shares / shares.sum())
    return tokens.astype(np.int32), np.full(n_tokens // SENTENCE, SENTENCE)


def ours(n_tokens: int, n_words: int, order: int) -> Callable[[], tuple[int, int]]:
    """Count, and say how many longest n-grams there are and how often they come."""
    sentences = text(n_tokens, n_words)

    def go() -> tuple[int, int]:
        counter = NGrams(n_words, order)
        count([sentences], n_words, [counter], needed=order + 1)
        _, counts = counter.total()[-1]
        return len(counts), int(counts.sum())

    return go


def smoothed(n_tokens: int, n_words: int, order: int) -> Callable[[], tuple[int, int]]:
    """The same, and all that scoring needs: `nltk.lm` leaves that to every score."""
    sentences = text(n_tokens, n_words)

    def go() -> tuple[int, int]:
        model = Markov(MarkovConfig(vocab_size=n_words, order=order))
        model.count([sentences])
        counts = model.predictor.levels[order].counts
        return len(counts), int(counts.sum())

    return go


def nltk(n_tokens: int, n_words: int, order: int) -> Callable[[], tuple[int, int]]:
    """The same for `nltk.lm`, which takes words.  A text begins with boundaries there as it does with us."""
    from nltk.lm import NgramCounter
    from nltk.util import everygrams

    tokens, _ = text(n_tokens, n_words)
    words = [str(word) for word in tokens.tolist()]
    sentences = [["<s>"] * (order - 1) + words[i : i + SENTENCE] for i in range(0, len(words), SENTENCE)]

    def go() -> tuple[int, int]:
        counts = NgramCounter(everygrams(sentence, max_len=order + 1) for sentence in sentences)
        longest = counts[order + 1].values()
        return sum(len(following) for following in longest), sum(following.N() for following in longest)

    return go


def prepare(n_tokens: int, n_words: int, settings: dict[str, str | int]) -> Callable[[], object]:
    sentences = text(n_tokens, n_words)
    return partial(Markov(MarkovConfig(vocab_size=n_words, **settings)).count, [sentences])  # type: ignore[arg-type]
