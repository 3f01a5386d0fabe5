"""How many tokens a request made a model read and write: counted where they are read and written."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.decoding.outputs import Hypothesis
from regard.decoding.search import Search
from regard.runs.run import Run
from regard.tasks.embedding import read_in_pieces


@dataclass
class Usage:
    """Prompts count with what stands before them, and as far as the model reads them; what is written counts without
    the end, and with the tokens that complete a stop string."""

    n_read: int = 0
    n_written: int = 0
    finished: bool = False  # the last text has its end; False: the length limit came first

    def count(self, search: Search, hypotheses: Sequence[Hypothesis]) -> None:
        self.n_read += len(search.prompt)
        self.n_written += sum(len(hypothesis.tokens) for hypothesis in hypotheses)
        self.finished = hypotheses[0].finished

    def record(self) -> dict[str, int]:
        total = self.n_read + self.n_written
        return {"prompt_tokens": self.n_read, "completion_tokens": self.n_written, "total_tokens": total}


def n_embedded(run: Run, texts: Sequence[str]) -> int:
    """Tokens that a model reads to embed these texts."""
    pieces = (read_in_pieces(text, run.task.encode, run.model.max_length) for text in texts)
    return sum(len(ids) for parts in pieces for ids in parts)
