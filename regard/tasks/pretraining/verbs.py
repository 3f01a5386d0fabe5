"""What can be asked of a model of masked words: the words in place of each [MASK]."""

from dataclasses import dataclass
from typing import Annotated

from regard.tasks.request import Help, LineRequest, Texts


@dataclass(frozen=True)
class Filled:
    text: str  # with the likeliest word in every place
    words: list[list[tuple[str, float]]]  # for every [MASK] the likeliest words and their probabilities
    notes: list[str]  # what happened to the text: "nothing is masked", "cut to the first 128 of 140 tokens"


@dataclass(frozen=True)
class Fill(LineRequest[Filled]):
    """Predict the word in place of each [MASK]: N lines in, N lines out; [SEP] divides two texts.

    Texts that come as lines give lines, filled with the likeliest words.  Texts given as arguments also give other
    likely words for each [MASK], with their probabilities.
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
