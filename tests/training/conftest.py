from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than the trainings of these tests; one test draws."""

    def stand_in(run: Path, metric: str) -> None:
        (run / "curves.png").write_bytes(b"")

    monkeypatch.setattr("regard.training.loop.draw_curves", stand_in)
