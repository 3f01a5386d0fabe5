"""Attention in segments, as the bench runs it: equal to full attention with the rule of a memory."""

import pytest
import torch

from bench import long
from bench.report import Report
from bench.timing import Figures
from regard.nn.attention import Attend, Memory
from regard.nn.layout import Ragged
from regard.nn.positions import POSITIONS, Space
from regard.nn.scores import SCORES
from regard.nn.sight import Sight, causal


class Remembered(Sight):
    """A segment and the one before it."""

    def allows(self, q, k, b):
        return (k <= q) & (q // 4 - k // 4 <= 1)


def test_segments_see_the_segment_before(monkeypatch):
    monkeypatch.setattr(long, "SEGMENT", 4)
    attend, layout = Attend(SCORES["scaled_dot"](8, 16), POSITIONS["none"](Space(16, 2, 16))), Ragged([14])
    rows = [torch.randn(14, 2, 8, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    memory = Memory(rows[1], rows[2], layout)
    torch.testing.assert_close(
        long.in_segments(attend, rows, compresses=False), attend.readable(rows[0], layout, memory, Remembered())
    )
    compressed = long.in_segments(attend, rows, compresses=True)
    torch.testing.assert_close(compressed[:8], attend.readable(rows[0], layout, memory, causal)[:8])
    means = [part[:4].mean(0, keepdim=True) for part in rows[1:]]  # of the first segment, which the third reads
    keys, values = (torch.cat([mean, part[4:9]]) for mean, part in zip(means, rows[1:], strict=True))
    weights = torch.einsum("he,khe->hk", rows[0][8], keys).div(8**0.5).softmax(-1)
    torch.testing.assert_close(compressed[8], torch.einsum("hk,khe->he", weights, values))


@pytest.mark.slow  # drawn by Matplotlib
def test_time_and_memory_are_drawn(tmp_path):
    report = Report("long", "ms", "work", less_is_better=True)
    for name in long.RULES:
        for n in (512, 1024):
            for work in ("forward", "both ways"):
                point = long.Point(case="", contender=name, figures=Figures([1.0]), memory=n, n=n, work=work)
                report.rows.append(point)
    long.draw(report, tmp_path / "long.png")
    assert (tmp_path / "long.png").read_bytes().startswith(b"\x89PNG")
