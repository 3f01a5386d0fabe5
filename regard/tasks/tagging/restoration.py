"""Restoration of case and punctuation: tagging, with tags that say how each word is written."""

from regard.data.batching.restoring import restore, strip, stripped
from regard.data.config import DataConfig
from regard.data.files.labelled import Tagged
from regard.data.files.plain import text_parts
from regard.data.files.splits import Parts
from regard.tasks.tagging.settings import RestorationConfig
from regard.tasks.tagging.task import WordTask


class Restoration(WordTask):
    """Plain text is its own teacher: words in lower case without punctuation, tagged with what was taken away."""

    settings = RestorationConfig
    config: RestorationConfig

    @classmethod
    def read_parts(cls, config: RestorationConfig, data: DataConfig) -> Parts[Tagged]:
        return text_parts(data, "lines").mapped(stripped)

    @staticmethod
    def words_of(line: str) -> list[str]:
        return strip(line)[0]

    @staticmethod
    def write(words: list[str], tags: list[str]) -> str:
        return restore(words, tags)

    def purpose(self) -> str:
        return "was trained to restore the case and punctuation of a text"
