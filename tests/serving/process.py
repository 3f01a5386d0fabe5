"""`regard serve` as a process of its own, on a free port of this machine."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Process:
    def __init__(self, runs: Mapping[str, Path], *options: str) -> None:
        named = [f"{name}={folder}" for name, folder in runs.items()]
        command = [sys.executable, "-m", "regard", "serve", *named, "--port", "0", "--device", "cpu", *options]
        self.child = subprocess.Popen(
            command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env={**os.environ, **ONE_THREAD}
        )
        self.lines: list[str] = []
        assert self.child.stderr is not None
        for line in self.child.stderr:
            self.lines.append(line)
            if found := re.search(r"on (http://\S+) ", line):
                self.url = found[1]
                break
        else:
            raise AssertionError("".join(self.lines))
        self.port = int(self.url.rpartition(":")[2])
        threading.Thread(target=self.keep, daemon=True).start()
        self.wait_until_ready()

    def keep(self) -> None:
        assert self.child.stderr is not None
        self.lines.extend(self.child.stderr)

    def wait_until_ready(self) -> None:
        for _ in range(200):
            try:
                if httpx.get(f"{self.url}/ready").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("".join(self.lines))

    @property
    def log(self) -> str:
        return "".join(self.lines)

    @property
    def memory(self) -> int:
        """Bytes that are resident."""
        pages = Path(f"/proc/{self.child.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def stop(self, seconds: float = 30) -> int:
        """Its exit code after SIGTERM."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.child.kill()
            raise


@contextmanager
def serving(runs: Mapping[str, Path], *options: str) -> Iterator[Process]:
    process = Process(runs, *options)
    try:
        yield process
    finally:
        process.stop()
