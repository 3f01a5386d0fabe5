"""What can be asked of a run that writes captions: one for each image, and where it looks while it writes nouns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from regard.decoding.config import DecodingConfig
from regard.decoding.outputs import Hypothesis
from regard.tasks.request import LineRequest, Request, Texts


@dataclass(frozen=True)
class Captioned:
    """One image's best caption, the others, and notes such as "hit the length limit"."""

    text: str
    best: Hypothesis
    n_best: list[tuple[str, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def score(self) -> float:
        """log P / length penalty"""
        return self.best.score

    @property
    def log_prob(self) -> float:
        return self.best.log_prob

    @property
    def log_prob_per_token(self) -> float | None:
        """The mean over all tokens that were written, the end included."""
        return self.log_prob / (len(self.best.tokens) + self.best.finished)


@dataclass(frozen=True)
class Caption(LineRequest[Captioned]):
    """Write a caption of each image: N images in, N lines out."""

    name, joins_runs, gives_n_best = "caption", True, True

    images: Texts  # in Python: paths, PIL images, arrays or tensors
    decoding: DecodingConfig | None = None  # None: the recipe's settings
    on_progress: Callable[[int, int], None] | None = None

    def line(self, answer: Captioned) -> str:
        return answer.text

    def record(self, number: int, text: str, answer: Captioned) -> dict[str, object]:
        record: dict[str, object] = {"line": number, "image": text, "caption": answer.text}
        record |= {"score": answer.score, "log_prob": answer.log_prob}
        record |= {"log_prob_per_token": answer.log_prob_per_token, "notes": answer.notes}
        if answer.n_best:
            record["n_best"] = [{"text": other, "score": score} for other, score in answer.n_best]
        return record


@dataclass(frozen=True)
class Point(Request[float]):
    """How often attention points at what a noun names, by a file of boxes; on test files, or those of the recipe."""

    name, in_routes = "point", False

    boxes: str
    files: Sequence[str] = ()
