import pytest

from bench import recall as bench
from regard.data.corpora import recall


class Remembering:
    """Answers what it still has in its memory."""

    def __init__(self):
        self.model = self
        self.reader = self
        self.config = bench.Answers(0, 0, 0, 0)  # something with a memory, to be replaced

    def generate(self, asked, length):
        (text,) = asked
        kept = text[-self.config.memory :]
        place = kept[:-1].find(text[-1])
        answer = type("Answer", (), {"text": kept[place + 1] if place >= 0 else "?"})
        return [[answer]]


def test_only_a_memory_as_long_as_the_line_answers(tmp_path):
    found = bench.ask_all(Remembering(), [4096], n=3, n_whole=2)
    assert [(each.memory, each.n_right, each.n) for each in found] == [(64, 0, 3), (512, 0, 3), (4096, 2, 2)]
    bench.draw(found, tmp_path / "recall.png")
    assert (tmp_path / "recall.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("length", recall.FAR)
def test_a_line_has_its_length(length):
    assert [len(text) for text in recall.far_lines(length, 2)] == [length] * 2
