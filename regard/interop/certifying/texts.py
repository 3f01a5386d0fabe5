"""From text to text: what a user of another tool gets by its own defaults, beside what the run gives."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import tokenizers

from regard.config import as_settings
from regard.decoding.config import DecodingConfig
from regard.interop.certifying.certificate import Finding, compare_ids
from regard.interop.certifying.samples import sentences
from regard.interop.certifying.sides import AnsweringSide, TokenLists
from regard.interop.families.settings import exchange_of
from regard.runs.run import Run
from regard.tasks.language.use import following, usual_length
from regard.text.vocabulary import TOKENIZER_FILE

N_TEXTS = 5  # that are answered
N_READ = 100  # that are read
NO_ANSWER = ("batch_tokens", "seed")  # settings of decoding that are not about what is written


def fitting(run: Run, texts: Sequence[str]) -> list[str]:
    """Those that are read whole, with room for what is written; where none is, the first words that are."""
    n_places = run.recipe.model.max_length
    most = n_places - usual_length(n_places) if exchange_of(run.recipe).writes else n_places

    def fits(text: str) -> bool:
        return len(run.task.encode(text)) <= min(most, run.recipe.data.max_length)

    return list(filter(fits, texts)) or list(filter(fits, (text.split()[0] for text in texts)))


def typed(run: Run, n: int) -> list[str]:
    """Sentences in which special tokens are typed, between words and within."""
    names = list(run.tokenizer.special)
    return [
        text.replace(" ", (f" {name} ", name)[i % 2], 1)
        for i, (text, name) in enumerate(zip(sentences(n), names * n, strict=False))
    ]


def searched_greedily(config: DecodingConfig) -> DecodingConfig:
    return replace(config, sample=False, beam=1, n_best=1)


class GreedyText(NamedTuple):
    text: str
    is_near_tie: bool = False  # rounding decides it
    alone: str | None = None  # the same where the prompt before it is not looked at


def own_settings(run: Run, length: int) -> DecodingConfig:
    """Those of the run, without beams and chance."""
    config = replace(searched_greedily(run.recipe.decoding), length_ratio=0.0, extra_length=length, max_length=0)
    return replace(config, min_length=length) if run.recipe.task.is_endless else config


def left_to_callers(run: Run) -> tuple[str, ...]:
    """A note on the run's settings of decoding, where the other tool's folder has no place for them."""
    own, plain = as_settings(run.recipe.decoding), as_settings(DecodingConfig())
    named = [f"{name} = {own[name]!r}" for name in own if own[name] != plain[name] and name not in NO_ANSWER]
    return (f"such a folder holds no settings of decoding; this run's are: {', '.join(named)}",) if named else ()


def write_texts(run: Run, texts: Sequence[str], config: DecodingConfig) -> list[GreedyText]:
    tokenizer, read = run.tokenizer, [run.task.encode(text) for text in texts]
    if exchange_of(run.recipe).translates:
        hypotheses = run.engine.generate(read, config, run.task.frame.start, run.task.frame.end)
        return [GreedyText(tokenizer.decode(best.tokens), best.near_ties > 0) for (best,) in hypotheses]
    hypotheses = run.engine.generate(read, config, tokenizer.start_id, tokenizer.end_id)
    answers = zip(tokenizer.encode_batch(texts), hypotheses, strict=True)
    return [
        GreedyText(following(ids, best.tokens, tokenizer), best.near_ties > 0, tokenizer.decode(best.tokens))
        for ids, (best,) in answers
    ]


def compare_answers(what: str, ours: Sequence[GreedyText], theirs: Sequence[str], of: str) -> Finding:
    same = [answer.is_near_tie or answer.text == text for answer, text in zip(ours, theirs, strict=True)]
    share = sum(same) / max(1, len(same))
    return Finding(what=f"share of identical {what}", value=share, wanted="1", holds=all(same), of=of)


def compare_read(run: Run, texts: Sequence[str], theirs: TokenLists, frames: bool = True) -> Finding:
    """What the other tool's tokenizer makes of a text, without being told anything, and what the run reads."""
    ours = [run.task.encode(text) if frames else run.tokenizer.encode(text) for text in texts]
    return compare_ids("texts as they are read", ours, theirs, f"{len(texts)} texts, by the tokenizer's defaults")


def compare_by_file(theirs: AnsweringSide, run: Run, folder: Path, frames: bool) -> list[Finding]:
    """A user's texts through tokenizer.json, the model of the other tool, and tokenizer.json again.  With `frames` the
    file puts around a text what belongs there; without, the other tool does."""
    if not (folder / TOKENIZER_FILE).is_file():
        return []  # an imported folder has the tokenizer in files of its own
    library = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    texts = fitting(run, sentences(N_READ))
    if not texts:
        return []
    read = [library.encode(text).ids for text in texts]
    findings = [compare_read(run, texts, read, frames)]
    exchange = exchange_of(run.recipe)
    if exchange.writes or exchange.translates:
        length = usual_length(run.recipe.model.max_length)
        few = texts[:N_TEXTS]
        config = DecodingConfig(length_ratio=0.0, extra_length=length)
        if exchange.translates:
            config = replace(config, never=run.recipe.decoding.never)
        written = [library.decode(ids) for ids in theirs.answer(read[:N_TEXTS], length)]
        of = f"{len(few)} texts, up to {length} tokens each"
        findings.append(compare_answers("answers, from text to text", write_texts(run, few, config), written, of))
    return findings
