"""regard demo: the documents' own example, learnt."""


def demo() -> None:
    """Learn the documents' example on this machine and look at its attention."""
