"""A worker for `torchrun`: `regard`, which also writes down its process and, before each step, what it learns from."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from regard.__main__ import main
from regard.training.learner import Learner


def write_down(log: Path) -> None:
    """Rows (time, step, places) of each process of each start, and the process itself."""
    update, rank, process = Learner.update, os.environ["RANK"], os.getpid()
    rows = open(log / f"{rank}-{process}.jsonl", "w", encoding="utf-8")  # noqa: SIM115 (open to the end)
    (log / f"{rank}.process").write_text(str(process), encoding="utf-8")

    def updated(self: Learner, step: int, batches: list[Any], places: list[tuple[int, int]]) -> None:
        rows.write(json.dumps([time.time(), step, places, [batch.lines for batch in batches]]) + "\n")
        rows.flush()
        update(self, step, batches, places)
        time.sleep(PAUSE)

    Learner.update = updated  # type: ignore[method-assign]


PAUSE = 0.05  # seconds after each step, so that there are moments to be killed in

if __name__ == "__main__":
    folder = Path(sys.argv.pop(1))
    write_down(folder)
    main()
