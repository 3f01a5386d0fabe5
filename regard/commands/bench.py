"""regard bench: side by side with the peers."""


def bench() -> None:
    """Measure regard side by side with the peers."""
