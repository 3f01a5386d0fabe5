"""A recipe for series of one's own: a linear map where there are few rows, which PatchTST does not beat there
(docs/series.md), and PatchTST where there are many."""

from regard.checks import expect
from regard.config import Settings
from regard.data.series.form import TableForm
from regard.data.series.windows import series_parts
from regard.tasks.sizing import Brief, Draft, Plan, RecipeTables, in_steps, schedule

MANY = 30_000  # rows
LONGEST = 96  # steps ahead
WINDOWS = 32  # of a batch
LINEAR: Settings = {"architecture": "nlinear", "normalize": "window"}
PATCHES: Settings = {"architecture": "patchtst"}
LARGE: Settings = {**PATCHES, "d_model": 128, "n_heads": 16, "d_ff": 256, "dropout": 0.2}


def draft(brief: Brief) -> Draft:
    train = series_parts(expect(brief.task, TableForm), brief.data).train
    n_rows = max(rows.stop - rows.start for rows in train.rows)
    season = train.series.step.season
    horizon = min(LONGEST, max(1, n_rows // 40))
    if season > 1:
        horizon = max(1, horizon // season) * season if horizon >= season else horizon
    look_back = max(2, min(512, in_steps(4 * horizon, max(season, 1)), n_rows // 4))
    models = [LINEAR] if len(train) < MANY or look_back < 64 else [LINEAR, PATCHES, LARGE]
    per_batch = WINDOWS * (look_back + horizon)

    def tables(plan: Plan) -> RecipeTables:
        model = models[plan.size]
        rate = 0.003 if model is LINEAR else 0.0007 if model is PATCHES else 0.0002
        return {
            "task": {"quantiles": [0.05, 0.25, 0.5, 0.75, 0.95], "metric": "loss"},
            "data": {"batch_tokens": plan.batch_tokens},
            "model": {**model, "look_back": look_back, "horizon": horizon},
            "training": schedule(plan, rate, optimizer="adam", betas=[0.9, 0.99]),
        }

    return Draft(
        tables=tables,
        n_sizes=len(models),
        batch_tokens=(per_batch, 2 * per_batch),
        least_epochs=3,
        held_out="the last of all times",
        most_epochs=12,
        remarks={
            "task.quantiles": "5 % to 95 %: 90 of 100 values lie between",
            "task.metric": "of the mean and the quantiles, which are learned later than the mean",
            "data.batch_tokens": f"steps: {look_back} + {horizon} of a window",
            "model.look_back": "steps of the past that are read",
            "model.horizon": "steps ahead that are forecast: change it to what you need",
        },
    )
