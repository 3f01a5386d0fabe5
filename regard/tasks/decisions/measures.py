"""What playing is worth: returns with their intervals, and what was reached against what was asked for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from regard.evaluation.measured import Measured, Metric, Z, metric_row, proportion
from regard.tasks.decisions.verbs import Played


def report(
    of: str, played: Mapping[float | None, Sequence[Played]], goal: float, predicted: Mapping[str, float], settings: str
) -> Measured:
    """The episodes by what was asked for; the first are those of the recipe's own goal, which a run that imitates is
    measured by, too."""
    metrics, tables = [], []
    for episodes in list(played.values())[:1]:
        metrics.append(mean_return("return", episodes, settings))
        n = sum(episode.reached >= goal for episode in episodes)
        metrics.append(proportion(f"reached {goal:g} or more, %", n, len(episodes), settings))
    by_goal = {
        goal: mean_return(f"{goal:g}", episodes, settings) for goal, episodes in played.items() if goal is not None
    }
    agreement = correlation(list(by_goal), [metric.value for metric in by_goal.values()])
    if agreement is not None:
        metrics.append(Metric(name="correlation of asked and reached", value=agreement, signature=settings))
    metrics += [Metric(name=name, value=value, signature=settings) for name, value in predicted.items()]
    rows = [("what", "value", "95 % interval"), *(metric_row(metric, "{:.4g}") for metric in metrics)]
    tables.append(("", rows))
    if len(by_goal) > 1:
        reached = [metric_row(by_goal[goal], "{:.4g}") for goal in sorted(by_goal)]
        tables.append(("", [("asked", "reached", "95 % interval"), *reached]))
    record: dict[str, object] = {"of": of, "metrics": [asdict(metric) for metric in metrics]}
    record["asked"] = [{"asked": goal, "reached": asdict(metric)} for goal, metric in sorted(by_goal.items())]
    record["notes"] = sorted({note for episodes in played.values() for episode in episodes for note in episode.notes})
    return Measured(of, metrics, record, tables, footing=[settings], remarks=record["notes"])  # type: ignore[arg-type]


def mean_return(name: str, episodes: Sequence[Played], settings: str) -> Metric:
    """The mean ± z s / √n"""
    reached = np.array([episode.reached for episode in episodes])
    mean = float(reached.mean())
    half = Z * float(reached.std(ddof=1)) / math.sqrt(len(reached)) if len(reached) > 1 else math.inf
    interval = (mean - half, mean + half) if math.isfinite(half) else None
    return Metric(name=name, value=mean, signature=settings, interval=interval)


def correlation(asked: Sequence[float], reached: Sequence[float]) -> float | None:
    """Pearson's, of what was asked for and the mean that was reached; None of two points, or of what never changes."""
    if len(asked) < 3 or np.ptp(asked) == 0 or np.ptp(reached) == 0:
        return None
    return round(float(np.corrcoef(asked, reached)[0, 1]), 6)
