"""What two sides write: greedy texts of the same sentences, and how good they are on a dev set."""

from dataclasses import dataclass
from typing import Protocol

from regard.data.files.reading import read_examples
from regard.errors import RegardError
from regard.evaluation.translation import bleu
from regard.interop.certifying.certificate import Finding, compare_ids
from regard.interop.certifying.samples import sentences
from regard.interop.certifying.sides import Ids
from regard.interop.families.settings import exchange_of
from regard.runs.run import Run

N_LINES = 200
LONGEST = 60  # tokens that are written
MOST_CHANGE = 0.1  # of BLEU, by the few sentences in which rounding decides


class Writer(Protocol):
    def greedy(self, prompts: Ids, length: int) -> list[list[int]]: ...


@dataclass(frozen=True)
class DevSet:
    """`references` are empty where there is no dev set and sentences stand in for it."""

    sources: list[str]
    references: list[str]
    name: str


def dev_set(run: Run) -> DevSet:
    """The first lines of the recipe's validation data, or test data, if they are here."""
    data = run.recipe.data
    for files in (data.valid, data.test) if exchange_of(run.recipe).has_references else ():
        try:
            columns = read_examples(files, data.columns, data.root).columns
        except RegardError:
            continue
        pairs = [pair for pair in zip(columns[0], columns[1], strict=True) if all(side.strip() for side in pair)]
        if pairs:
            sources, references = zip(*pairs[:N_LINES], strict=True)
            return DevSet(list(sources), list(references), ", ".join(files))
    return DevSet(sentences(N_LINES), [], "sentences of the demo's grammar, because the recipe's dev set is not here")


def compare_written(ours: Writer, theirs: Writer, run: Run) -> list[Finding]:
    """Token for token, and by the change of BLEU."""
    dev, exchange = dev_set(run), exchange_of(run.recipe)
    room = min(LONGEST, run.recipe.model.max_length // 2)
    if exchange.translates:
        longest = min(run.recipe.data.max_length, run.model.max_length - run.task.frame.n_around)
        prompts = [ids[:longest] for ids in run.tokenizer.encode_batch(dev.sources)]
    else:
        prompts = [ids for ids in map(run.task.encode, dev.sources) if len(ids) <= room]
    written = [side.greedy(prompts, room) for side in (ours, theirs)]
    of = f"{len(prompts)} lines of {dev.name}, up to {room} tokens each"
    findings = [compare_ids("greedy outputs", written[0], written[1], of)]
    if dev.references:
        before, after = (
            bleu([run.tokenizer.decode(ids) for ids in side], dev.references, resamples=0).value for side in written
        )
        change = after - before
        findings.append(
            Finding(
                what=f"change of greedy BLEU, from {before:.2f}",
                value=change,
                wanted=f"at most {MOST_CHANGE:g} either way",
                holds=abs(change) <= MOST_CHANGE,
                of=of,
            )
        )
    return findings
