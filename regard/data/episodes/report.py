"""What `regard doctor` says about episodes."""

import numpy as np

from regard.data.episodes.episodes import EpisodeSet
from regard.data.notes import Notes
from regard.data.report import AT, PERCENTILES, Row, note_rows


def episode_rows(name: str, raw: EpisodeSet, notes: Notes) -> list[Row]:
    lengths = np.percentile(raw.lengths, PERCENTILES, method="higher")
    returns = np.percentile(raw.returns, PERCENTILES)
    highest = int(raw.returns.argmax())
    at = AT.replace("longest", "highest")
    rows = [
        Row(name, "episodes, steps", f"{len(raw):,}, {raw.lengths.sum():,}"),
        Row(name, f"steps an episode, {AT}", "/".join(str(int(n)) for n in lengths)),
        Row(name, f"returns, {at}", "/".join(f"{number:.4g}" for number in returns), raw.places[highest]),
        Row(name, "returns, mean ± deviation", f"{raw.returns.mean():.4g} ± {raw.returns.std():.4g}"),
        Row(name, "different returns", f"{len(np.unique(raw.returns)):,}"),
        Row(name, "steps with a reward", f"{share_rewarded(raw):.2%}"),
        *state_rows(name, raw),
        *action_rows(name, raw),
    ]
    if len(np.unique(raw.returns)) == 1:
        rows.append(Row(name, "advice", "all returns are equal: a return to go says nothing, set conditioned = false"))
    return rows + note_rows(name, notes)


def share_rewarded(raw: EpisodeSet) -> float:
    return float(np.mean(np.concatenate([episode.rewards for episode in raw.all]) != 0))


def state_rows(name: str, raw: EpisodeSet) -> list[Row]:
    if raw.has_symbols:
        n_symbols = [len(np.unique(column)) for column in raw.states.T]
        return [Row(name, "symbols in each column of a state", ", ".join(map(str, n_symbols)))]
    still = np.flatnonzero(np.ptp(raw.states, axis=0) == 0)
    rows = [Row(name, "numbers of a state", str(raw.states.shape[1]))]
    if len(still):
        rows.append(Row(name, "numbers that never change, counted from 1", ", ".join(str(i + 1) for i in still)))
    return rows


def action_rows(name: str, raw: EpisodeSet) -> list[Row]:
    if not raw.is_discrete:
        low, high = raw.actions.min(0), raw.actions.max(0)
        ranges = ", ".join(f"{a:.4g} to {b:.4g}" for a, b in zip(low, high, strict=True))
        return [Row(name, "numbers of an action", ranges)]
    shares = np.bincount(raw.actions) / len(raw.actions)
    rows = [Row(name, "actions", ", ".join(f"{action}: {share:.1%}" for action, share in enumerate(shares[:20])))]
    never = np.flatnonzero(shares == 0)
    if len(never):
        rows.append(Row(name, "actions never taken", ", ".join(map(str, never[:20]))))
    return rows
