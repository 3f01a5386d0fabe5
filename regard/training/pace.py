"""How fast a training goes and when it will end."""

import time

MEASURED = 5  # steps before an estimate is given


class Pace:
    def __init__(self, steps_left: int) -> None:
        self.steps_left = steps_left
        self.n_measured = 0
        self.began: float | None = None  # after the first steps, which compile and warm up and so do not count
        self.window_began = time.monotonic()
        self.window_tokens = 0

    def note(self, n_steps: int, n_tokens: int) -> None:
        """Steps that the device has finished."""
        self.steps_left -= n_steps
        self.window_tokens += n_tokens
        if self.began is None:
            self.began = time.monotonic()
        else:
            self.n_measured += n_steps

    def tokens_per_second(self) -> float:
        """Since the last call."""
        now = time.monotonic()
        rate = self.window_tokens / max(now - self.window_began, 1e-9)
        self.window_began, self.window_tokens = now, 0
        return rate

    def seconds_left(self) -> float | None:
        if self.began is None or self.n_measured < MEASURED:
            return None
        return (time.monotonic() - self.began) / self.n_measured * self.steps_left
