"""Certificates of the fast tests compare fewer strings and lines; the slow ones as many as the commands do."""

from collections.abc import Iterator

import pytest

from regard.interop.certifying import in_transformers, samples, sides

N_STRINGS, N_LINES = 200, 20


@pytest.fixture(autouse=True)
def short_certificates(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("slow"):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_transformers, "strings", lambda n, seed=0: samples.strings(min(n, N_STRINGS), seed))
        patch.setattr(sides, "N_STRINGS", N_STRINGS)
        patch.setattr(samples, "N_LINES", N_LINES)
        yield
