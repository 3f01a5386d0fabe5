"""What can be asked of a run that turns a text into another: a translation, a summary, a score, an alignment."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from regard.decoding.config import DecodingConfig
from regard.decoding.outputs import Hypothesis
from regard.tasks.request import Help, LineRequest, Request, Texts
from regard.text.sentences import Token


@dataclass(frozen=True)
class Translated:
    """One line's answer: its best text, the others, and notes such as "empty", "split into 3" or "unknown: 'last'"."""

    text: str
    score: float = 0.0  # sum over its parts of log P / length penalty
    log_prob: float = 0.0
    n_best: list[tuple[str, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    parts: list[tuple[list[int], Hypothesis]] = field(default_factory=list)  # source ids with end, best hypothesis
    line: str = ""  # what was translated
    tokens: list[list[Token]] = field(default_factory=list)  # of the line, for each part
    alignment: list[tuple[int, int]] | None = None  # (source word, target word), if it was asked for

    @property
    def log_prob_per_token(self) -> float | None:
        """The mean over all tokens that were written, ends included; None where nothing was."""
        n_tokens = sum(len(best.tokens) + best.finished for _, best in self.parts)
        return self.log_prob / n_tokens if n_tokens else None


@dataclass(frozen=True)
class Translate(LineRequest[Translated]):
    """Translate lines: N lines in, N lines out."""

    name, joins_runs, takes_draft, gives_n_best, silent = "translate", True, True, True, ("empty",)

    lines: Texts
    decoding: DecodingConfig | None = None  # None: the recipe's settings
    prefixes: Annotated[
        Texts | None, Help(text="text with which every translation must begin", for_every_line="--prefix")
    ] = None
    on_progress: Callable[[int, int], None] | None = None
    alignments: Annotated[bool, Help(text="word alignments (Pharaoh) instead of text")] = False

    def line(self, answer: Translated) -> str:
        return answer.text if answer.alignment is None else pharaoh(answer.alignment)

    def record(self, number: int, text: str, answer: Translated) -> dict[str, object]:
        record: dict[str, object] = {"line": number, "source": text, "translation": answer.text}
        record |= {"score": answer.score, "log_prob": answer.log_prob}
        record |= {"log_prob_per_token": answer.log_prob_per_token, "notes": answer.notes}
        if answer.n_best:
            record["n_best"] = [{"text": other, "score": score} for other, score in answer.n_best]
        if answer.alignment is not None:
            record["alignment"] = pharaoh(answer.alignment)
        return record


@dataclass(frozen=True)
class Summarize(LineRequest[Translated]):
    """Summarize lines: N texts in, N summaries out, each a line."""

    name, takes_draft, takes_whole, silent = "summarize", True, True, ("empty",)

    texts: Texts
    decoding: DecodingConfig | None = None

    def line(self, answer: Translated) -> str:
        return answer.text

    def record(self, number: int, text: str, answer: Translated) -> dict[str, object]:
        record: dict[str, object] = {"line": number, "text": text, "summary": answer.text, "score": answer.score}
        return record | {"log_prob": answer.log_prob, "notes": answer.notes}


@dataclass(frozen=True)
class Align(Request[tuple[int, int]]):
    """(source word, target word) of one translation, by the mean of the cross-attention heads of a layer."""

    name, in_routes = "alignments", False

    translated: Translated
    layer: int | None = None  # None: the last but one, which aligns best in most translators (Garg et al. 2019)


@dataclass(frozen=True)
class ScorePairs(Request[list[float]]):
    """log P of each token of given targets and, last, of their end."""

    name = "score"

    sources: Texts
    targets: Texts


def pharaoh(pairs: Sequence[tuple[int, int]]) -> str:
    """ "0-0 1-2": source word 0 with target word 0, 1 with 2."""
    return " ".join(f"{source}-{target}" for source, target in sorted(pairs))
