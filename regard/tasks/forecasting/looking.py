"""A forecaster watched while it forecasts: which past steps, patches or columns it looks at."""

from collections.abc import Sequence

import torch

from regard.data.series.form import TableForm
from regard.errors import RegardError
from regard.models.forecaster import Forecaster, LookWeights
from regard.nn.watch import Sighting, watch
from regard.tasks.forecasting.use import History
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus
from regard.viewer.map_set import Map


@torch.no_grad()
def look_at_history(
    model: Forecaster, history: History, form: TableForm, name: str, column: str | None, focus: Focus
) -> Capture:
    """The last window of the first series.  A model that writes step by step is shown its own forecast, so that one
    pass has all of its steps."""
    focus.check(model)
    if column is not None and column not in form.columns:
        raise RegardError(f"--target names a column that is forecast: {', '.join(form.columns)}; got {column!r:.60}")
    past, features = history.past[:1].to(model.device), history.features[:1].to(model.device)
    forecast = model(past, features)[..., 0]
    with watch(model, focus.layers, focus.heads, focus.vectors) as seen:
        model(past, features, forecast)
    looks = model.looks(*names_of_steps(history, model), names_of_columns(form))
    if column is not None and not any(look.of_each_column for look in looks.values()):
        raise RegardError("this model reads all columns together: leave out --target")
    maps = [map for sighting in seen.sightings for map in maps_of(sighting, looks[sighting.kind], form.columns, column)]
    which = f", {column}" if column else ""
    return Capture(title=f"{name}{which}", maps=maps)


def maps_of(sighting: Sighting, looks: LookWeights, columns: Sequence[str], column: str | None) -> list[Map]:
    """Of each head; where each column has its own, that of one column or the mean of all."""
    if looks.of_each_column:
        weights = sighting.weights.mean(0) if column is None else sighting.weights[columns.index(column)]
    else:
        weights = sighting.weights[0]
    return [
        Map(
            kind=looks.kind,
            layer=sighting.layer,
            head=head,
            queries=looks.queries,
            keys=looks.keys,
            weights=weights[i].float().cpu().numpy(),
        )
        for i, head in enumerate(sighting.heads)
    ]


def names_of_steps(history: History, model: Forecaster) -> tuple[list[str], list[str]]:
    """The times of past and future; without times, steps counted from the last value, which is 0."""
    if history.times:
        return history.past_times[0], history.times[0]
    form = model.form
    return [str(i) for i in range(1 - form.look_back, 1)], [f"+{i}" for i in range(1, form.horizon + 1)]


def names_of_columns(form: TableForm) -> list[str]:
    calendar = [f"{wave} of the {period}" for period in form.calendar for wave in ("sine", "cosine")]
    return [*form.columns, *form.seen, *form.known, *calendar]
