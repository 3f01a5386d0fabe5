"""What was decided about the data: every kind is counted and remembers where it first happened."""


class Notes:
    """Decisions such as "dropped: empty", each with its count and the file and line of its first case."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.first: dict[str, str] = {}

    def add(self, decision: str, where: str, n: int = 1) -> None:
        self.counts[decision] = self.counts.get(decision, 0) + n
        self.first.setdefault(decision, where)

    def update(self, other: "Notes", prefix: str = "") -> None:
        for decision, n in other.counts.items():
            self.add(prefix + decision, other.first[decision], n)

    def rows(self) -> list[str]:
        """One readable line per kind of decision."""
        return [
            f"{decision}: {n:,}" + (f" (first at {self.first[decision]})" if n else "")
            for decision, n in self.counts.items()
        ]
