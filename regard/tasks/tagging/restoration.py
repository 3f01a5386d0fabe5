"""Restoration of case and punctuation: tagging, with tags that say how each word is written."""

from dataclasses import dataclass
from typing import ClassVar

from regard.data.batching.restoring import NEUTRAL, TAGS, restore, strip, stripped
from regard.data.batching.streams import PlainText, read_parts
from regard.data.config import DataConfig
from regard.data.files.tagged import Tagged
from regard.tasks.tagging.task import TaggerConfig, Tagging


@dataclass(frozen=True, kw_only=True)
class RestorationConfig(TaggerConfig):
    tags: ClassVar[tuple[str, ...]] = TAGS
    neutral: ClassVar[str] = NEUTRAL


class Restoration(Tagging):
    """Plain text is its own teacher: words in lower case without punctuation, tagged with what was taken away."""

    @staticmethod
    def read(data: DataConfig) -> tuple[Tagged, Tagged | None, Tagged | None]:
        train, valid, test = read_parts(data, "lines")
        if data.test:
            test = PlainText.read(data.test, data.root, data.columns)
        rest = [None if text is None else stripped(text) for text in (valid, test)]
        return stripped(train), rest[0], rest[1]

    @staticmethod
    def settle(config: RestorationConfig, train: Tagged) -> RestorationConfig:
        return config  # the tags are what text may need, whether or not the training text has them

    @staticmethod
    def words_of(line: str) -> list[str]:
        return strip(line)[0]

    @staticmethod
    def write(words: list[str], tags: list[str]) -> str:
        return restore(words, tags)

    def purpose(self) -> str:
        return "learnt to write case and punctuation into a text"
