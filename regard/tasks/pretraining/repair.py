"""A text with gaps, repaired by an encoder-decoder: BART writes the whole text, T5 what stands in each gap."""

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from regard.decoding.outputs import Hypothesis
from regard.errors import RegardError
from regard.models.interface import AnyTranslator
from regard.tasks.framing import Frame, MarkedTexts
from regard.tasks.pretraining.verbs import Fill, Filled
from regard.tasks.setup import Use
from regard.text.tokenizer import Tokenizer

LEAST = 8  # texts that are compared at least: what fills a gap does not depend on how many are shown
MASK, SENTINEL = "<mask>", "<extra_{}>"
GAP = re.compile(r"\[MASK\]|<mask>|<extra_(?:id_)?\d+>")  # gaps are numbered in their order, whatever they are called


def can_repair(tokenizer: Tokenizer) -> bool:
    return MASK in tokenizer.special or writes_gaps_alone(tokenizer)


def writes_gaps_alone(tokenizer: Tokenizer) -> bool:
    """As T5 does, by what an imported model has tokens for."""
    return SENTINEL.format(0) in tokenizer.special


def repair(tokenizer: Tokenizer, frame: Frame, writes_gaps: bool, use: Use[AnyTranslator], ask: Fill) -> list[Filled]:
    """One answer per text, in order.  A model that `writes_gaps` writes only what stands in each."""
    room = use.engine.max_length - frame.n_around
    read = [with_gaps(text, tokenizer, writes_gaps) for text in ask.texts]
    sources = [ids[:room] for ids in read]
    n_best = max(ask.top, LEAST) if writes_gaps else 1
    config = replace(use.decoding, sample=False, n_best=n_best, beam=max(use.decoding.beam, n_best))
    config = config.within(use.engine.max_length)
    prompts = [frame.source(ids) for ids in sources]
    written = use.engine.generate(prompts, config, frame.start, frame.end)
    answers = []
    for ids, source, hypotheses in zip(read, sources, written, strict=True):
        notes = [] if hypotheses[0].finished else ["hit the length limit"]
        if len(ids) > room:
            notes.append(f"cut to the first {room:,} of {len(ids):,} tokens")
        if writes_gaps:
            answers.append(put_in(source, hypotheses, ask.top, tokenizer, notes))
        else:
            answers.append(Filled(tokenizer.decode(hypotheses[0].tokens).strip(), [], notes))
    return answers


def with_gaps(text: str, tokenizer: Tokenizer, numbered: bool) -> list[int]:
    """The tokens of a text, its gaps being <mask>, or <extra_0>, <extra_1>, … in this order."""
    ids: list[int] = []
    parts = GAP.split(text)
    for number, part in enumerate(parts):
        is_before_gap = number < len(parts) - 1
        if is_before_gap and MarkedTexts(tokenizer).mask_takes_space:
            part = part.rstrip()
        ids += tokenizer.encode(part)
        if is_before_gap:
            name = SENTINEL.format(number) if numbered else MASK
            if name not in tokenizer.special:
                raise RegardError(f"this run has no token {name} for gap {number + 1} of the text; leave fewer gaps")
            ids.append(tokenizer.special_id(name))
    return ids


def put_in(
    source: list[int], hypotheses: Sequence[Hypothesis], top: int, tokenizer: Tokenizer, notes: list[str]
) -> Filled:
    """The text with what is likeliest for all gaps together; and for each gap the `top` likeliest.  What hypotheses say
    alike counts as often as it is said; what they write of gaps that are not there does not."""
    names = [name for name in map(SENTINEL.format, range(len(tokenizer.special))) if name in tokenizer.special]
    numbers = {tokenizer.special_id(name): number for number, name in enumerate(names)}
    gaps = [i for i in source if i in numbers]
    together: dict[tuple[tuple[int, ...], ...], float] = defaultdict(float)  # what stands in the gaps, and how likely
    for hypothesis in hypotheses:
        spans = spans_of(hypothesis.tokens, numbers)
        together[tuple(tuple(spans.get(gap, ())) for gap in gaps)] += math.exp(hypothesis.log_prob)
    words = []
    for place in range(len(gaps)):
        shares: dict[str, float] = defaultdict(float)
        for fillings, share in together.items():
            shares[tokenizer.decode(list(fillings[place]))] += share
        words.append(sorted(shares.items(), key=lambda pair: -pair[1])[:top])
    likeliest, _ = max(together.items(), key=lambda pair: pair[1])
    best = dict(zip(gaps, likeliest, strict=True))
    empty = [str(place) for place, gap in enumerate(gaps, start=1) if not best[gap]]
    notes += [f"nothing was written for gap {', '.join(empty)}"] if empty else []
    filled = [token for i in source for token in (best[i] if i in numbers else [i])]
    return Filled(tokenizer.decode(filled).strip(), words, notes if gaps else [*notes, "nothing is masked"])


def spans_of(tokens: Sequence[int], numbers: dict[int, int]) -> dict[int, list[int]]:
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
