"""What can be asked of a model that was pre-trained: the words in place of each [MASK], and what follows a text."""

from dataclasses import dataclass
from typing import Annotated

from regard.errors import ConfigError, DataError
from regard.tasks.request import Help, LineRequest, Texts


@dataclass(frozen=True)
class Filled:
    text: str  # with the likeliest word in every place
    words: list[list[tuple[str, float]]]  # for every [MASK] the likeliest words and their probabilities; BART: none
    notes: list[str]  # what happened to the text: "nothing is masked", "cut to the first 128 of 140 tokens"


@dataclass(frozen=True)
class Fill(LineRequest[Filled]):
    """Predict the word in place of each [MASK]: N lines in, N lines out; [SEP] divides two texts.

    Texts that come as lines give lines, filled with the likeliest words.  Texts given as arguments also give other
    likely words for each [MASK], with their probabilities.  BART and T5 may write several words for each, BART anew
    also the rest of the text.
    """

    name, takes_texts = "fill", True

    texts: Texts
    top: Annotated[int, Help(text="so many words for each [MASK]", least=1)] = 5

    def line(self, answer: Filled) -> str:
        return answer.text

    def record(self, number: int, text: str, answer: Filled) -> dict[str, object]:
        words = [[{"word": word, "probability": share} for word, share in options] for options in answer.words]
        return {"line": number, "source": text, "text": answer.text, "words": words, "notes": answer.notes}

    def more(self, answer: Filled) -> list[str]:
        return [
            f"  {place}: " + ", ".join(f"{word.strip()} {share:.3f}" for word, share in options)
            for place, options in enumerate(answer.words, start=1)
        ]


@dataclass(frozen=True)
class Followed:
    probability: float  # that the second text follows the first
    notes: list[str]  # "empty", "cut to 128 of 140 tokens"


@dataclass(frozen=True)
class Follow(LineRequest[Followed]):
    """Give the probability that a text follows another: N lines in, N probabilities out.

    Without --next, a tab or [SEP] divides the two texts of each line.
    """

    name, takes_texts = "follow", True

    texts: Texts
    nexts: Annotated[Texts, Help(text="the text that may follow", for_every_line="--next")]

    def read(self, line: str, where: str) -> dict[str, str]:
        marks = ("\t", "[SEP]")
        if self.nexts:  # one for every line
            if any(mark in line for mark in marks):
                hint = "leave out --next, or give one text per line"
                raise DataError(f"{where or repr(line[:60])}: a tab or [SEP] already divides two texts; {hint}")
            return super().read(line, where)
        for mark in marks:
            first, separator, second = line.partition(mark)
            if separator and mark in second:
                raise DataError(f"{where or repr(line[:60])}: more than two texts; one tab or [SEP] divides them")
            if separator:
                return {"texts": first.strip(), "nexts": second.strip()}
        hint = "give the text that may follow it with --next, or after a tab or [SEP]"
        if where:
            raise DataError(f"{where} is one text, {line[:60]!r}; {hint}")
        raise ConfigError(f"{line[:60]!r} is one text; {hint}")

    def line(self, answer: Followed) -> str:
        return f"{answer.probability:.4f}"

    def record(self, number: int, text: str, answer: Followed) -> dict[str, object]:
        return {"line": number, "text": text, "probability": answer.probability, "notes": answer.notes}
