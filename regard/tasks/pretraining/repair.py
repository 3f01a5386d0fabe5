"""A text with gaps, repaired by an encoder-decoder: BART writes the whole text, T5 what stands in each gap."""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import count, takewhile

from regard.decoding.outputs import Hypothesis
from regard.models.interface import AnyTranslator
from regard.tasks.framing import Frame, MarkedTexts
from regard.tasks.language.use import unknown_words
from regard.tasks.pretraining.verbs import Fill, Filled
from regard.tasks.setup import Use
from regard.text.tokenizer import Tokenizer

COMPARED = 16  # texts that T5 writes: what is likeliest for a gap does not depend on how many are shown
MASK, SENTINEL = "<mask>", "<extra_{}>"
GAP = re.compile(r"\[MASK\]|<mask>|<extra_(?:id_)?\d+>")  # gaps are numbered in their order, whatever they are called


def can_repair(tokenizer: Tokenizer) -> bool:
    return MASK in tokenizer.special or writes_gaps_alone(tokenizer)


def writes_gaps_alone(tokenizer: Tokenizer) -> bool:
    """As T5 does, by what an imported model has tokens for."""
    return SENTINEL.format(0) in tokenizer.special


@dataclass(frozen=True)
class Gapped:
    """A text with gaps, and what a model reads of it."""

    parts: list[str]  # the text before, between and after the gaps
    marks: list[str]  # of the gaps, as they stand in the text
    ids: list[int]  # the gaps being <mask>, or <extra_0>, <extra_1>, … in this order
    notes: list[str]


def repair(tokenizer: Tokenizer, frame: Frame, writes_gaps: bool, use: Use[AnyTranslator], ask: Fill) -> list[Filled]:
    """One answer per text, in order.  A model that `writes_gaps` writes only what stands in each."""
    room = use.engine.max_length - frame.n_around
    read = [with_gaps(text, tokenizer, writes_gaps) for text in ask.texts]
    n_best = COMPARED if writes_gaps else 1
    config = replace(use.decoding, sample=False, n_best=n_best, beam=max(use.decoding.beam, n_best))
    config = config.within(use.engine.max_length)
    prompts = [frame.source(gapped.ids[:room]) for gapped in read]
    written = use.engine.generate(prompts, config, frame.start, frame.end)
    answers = []
    for gapped, hypotheses in zip(read, written, strict=True):
        notes, n = [*gapped.notes], len(gapped.ids)
        notes += [f"cut to the first {room:,} of {n:,} tokens"] if n > room else []
        cut = replace(gapped, ids=gapped.ids[:room], notes=notes)
        if writes_gaps:
            answers.append(put_in(cut, hypotheses, ask.top, tokenizer))
        elif not n:
            answers.append(Filled("", [], ["empty"]))
        else:
            notes += [] if hypotheses[0].finished else ["hit the length limit"]
            answers.append(Filled(tokenizer.decode(hypotheses[0].tokens).strip(), [], notes))
    return answers


def with_gaps(text: str, tokenizer: Tokenizer, numbered: bool) -> Gapped:
    marks, tokens = GAP.findall(text), sentinels(tokenizer)
    n_read = min(len(marks), len(tokens)) if numbered else len(marks)
    parts = GAP.split(text, maxsplit=n_read) if n_read else [text]
    notes = [] if marks else ["nothing is masked"]
    if n_read < len(marks):
        notes.append(f"only the first {n_read} of {len(marks)} gaps are filled: the model numbers no more")
    ids: list[int] = []
    for number, part in enumerate(parts):
        is_before_gap = number < n_read
        own = GAP.sub("", part)
        read = own.rstrip() if is_before_gap and MarkedTexts(tokenizer).mask_takes_space else own
        ids += tokenizer.encode(read)
        notes += unknown_words(read.rstrip(), tokenizer)
        if is_before_gap:
            ids.append(tokens[number] if numbered else tokenizer.special_id(MASK))
    return Gapped(parts, marks[:n_read], ids, notes)


def sentinels(tokenizer: Tokenizer) -> list[int]:
    """The tokens that number gaps, from the first."""
    names = takewhile(tokenizer.special.__contains__, map(SENTINEL.format, count()))
    return [tokenizer.special_id(name) for name in names]


def put_in(gapped: Gapped, hypotheses: Sequence[Hypothesis], top: int, tokenizer: Tokenizer) -> Filled:
    """The text with what is likeliest for all gaps together; and for each gap the `top` likeliest.  What hypotheses say
    alike counts as often as it is said; what they write of gaps that are not there does not."""
    numbers = sentinels(tokenizer)
    gaps = [i for i in numbers[: len(gapped.marks)] if i in gapped.ids]  # the last ones may have been cut off
    together: dict[tuple[str, ...], float] = defaultdict(float)  # what stands in the gaps, and how likely
    for hypothesis in hypotheses:
        spans = spans_of(hypothesis.tokens, numbers)
        together[tuple(tokenizer.decode(spans.get(gap, [])) for gap in gaps)] += math.exp(hypothesis.log_prob)
    words = []
    for place in range(len(gaps)):
        shares: dict[str, float] = defaultdict(float)
        for fillings, share in together.items():
            shares[fillings[place]] += share
        words.append(sorted(shares.items(), key=lambda pair: -pair[1])[:top])
    best, _ = max(together.items(), key=lambda pair: pair[1])
    empty = [str(place) for place, filling in enumerate(best, start=1) if not filling.strip()]
    notes = [*gapped.notes, *([f"nothing was written for gap {', '.join(empty)}"] if empty else [])]
    return Filled(joined(gapped.parts, [*best, *gapped.marks[len(best) :]]), words, notes)


def joined(parts: Sequence[str], fillings: Sequence[str]) -> str:
    """The text as it was given, with what fills its gaps."""
    text = parts[0]
    for filling, part in zip(fillings, parts[1:], strict=True):
        text += filling.lstrip() if not text or text[-1].isspace() else filling
        is_doubled = part[:1].isspace() and text[-1:].isspace()  # where nothing fills a gap
        text = (text.rstrip() if is_doubled else text) + part
    return text.strip()


def spans_of(tokens: Sequence[int], numbers: Collection[int]) -> dict[int, list[int]]:
    """What is written after each sentinel, up to the next one; of one that is written twice, the first."""
    spans: dict[int, list[int]] = {}
    current: list[int] = []  # before the first sentinel: nobody's
    for token in tokens:
        if token in numbers:
            current = []
            spans.setdefault(token, current)
        else:
            current.append(token)
    return spans
