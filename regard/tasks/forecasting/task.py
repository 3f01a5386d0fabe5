"""Forecasting: the past of series in, what comes after it out, as a mean and as quantiles."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regard.checks import expect, not_negative, one_of
from regard.data.config import DataConfig
from regard.data.files.splits import Parts
from regard.data.report import Row
from regard.data.series.form import TableForm
from regard.data.series.recognizing import series_tables
from regard.data.series.report import series_rows
from regard.data.series.series import Scale
from regard.data.series.tables import Given
from regard.data.series.windows import Stretch, WindowSet, series_parts
from regard.errors import ConfigError, DataError
from regard.evaluation.forecasts import Errors, pinball
from regard.evaluation.measured import Measured, Metric
from regard.models.forecaster import Forecaster
from regard.nn.series import SeriesForm
from regard.tasks.forecasting.batches import WindowBatch, collate_windows, forecast_all
from regard.tasks.forecasting.comparison import comparison
from regard.tasks.forecasting.looking import look_at_history
from regard.tasks.forecasting.rivals import MOST, Rival, backtest, least_squares, repeat_last, seasonal_naive
from regard.tasks.forecasting.sizing import draft
from regard.tasks.forecasting.use import forecast_history, histories_of, name_of, read_history
from regard.tasks.forecasting.verbs import Forecast, Forecasted
from regard.tasks.setup import TaskConfig, Use, Verbs
from regard.tasks.task import Task
from regard.tasks.wire import HISTORY
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus

CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class ForecastingConfig(TaskConfig, TableForm):
    metric: str = "mse"  # the validation figure that chooses the best checkpoint: `mse`, `mae` or `loss`
    # levels such as [0.05, 0.5, 0.95], rising: of each value these quantiles are forecast besides its mean; empty: none
    quantiles: tuple[float, ...] = ()
    season: int = 0  # steps after which values are alike, for seasonal naive and MASE; 0: by the step between times
    step: str = ""  # between times; taken from the training data, as is all below
    means: tuple[float, ...] = ()  # of the columns in training: those that are forecast, seen and known
    deviations: tuple[float, ...] = ()  # likewise
    naive_errors: tuple[float, ...] = ()  # of each column in training: mean |x_t - x_(t - season)|

    def __post_init__(self) -> None:
        TableForm.__post_init__(self)
        one_of(self, ("mse", "mae", "loss"), "metric")
        not_negative(self, "season")
        levels = self.quantiles
        if list(levels) != sorted(set(levels)) or not all(0 < level < 1 for level in levels) or len(levels) == 1:
            raise ConfigError(f"quantiles must be at least two levels between 0 and 1, rising, got {list(levels)}")
        if len(self.means) != len(self.deviations) or not all(deviation > 0 for deviation in self.deviations):
            raise ConfigError("means and deviations belong together and come from the training data: leave both out")

    @property
    def series_widths(self) -> tuple[int, int, int, int]:
        n_known = len(self.known) + 2 * len(self.calendar)
        return max(1, len(self.columns)), len(self.seen), n_known, 1 + len(self.quantiles)

    @property
    def scale(self) -> Scale:
        return Scale(np.array(self.means), np.array(self.deviations))


class Forecasting(Task[Stretch, WindowSet, Forecaster, WindowBatch]):
    """(x - forecast)², and the pinball loss of the quantiles, of every column and step ahead, standardized."""

    settings = ForecastingConfig
    roles = ("forecaster",)
    reads_text, takes_files = False, True
    purpose = "was trained to forecast series"
    loss_unit = "squared error"
    commands = ("regard forecast RUN history.csv", "regard evaluate RUN", "regard look RUN history.csv")
    recognize = staticmethod(series_tables)
    draft = staticmethod(draft)
    listed = staticmethod(histories_of)
    wire = HISTORY
    config: ForecastingConfig

    @property
    def form(self) -> SeriesForm:
        """Which windows the model reads."""
        return expect(self.setup.series, SeriesForm)

    # Files.

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[Stretch]:
        if data.columns:
            raise ConfigError("data.columns is for texts and images: name what is forecast in task.columns")
        return series_parts(expect(config, ForecastingConfig), data)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        """There is none; a tokenizer is made all the same."""
        return ["series"]

    def settle(self, train: Stretch) -> ForecastingConfig:
        """With what the training part says of its columns: nothing after it is looked at."""
        series, scale = train.series, Scale.of(train.series, train.rows)
        season = self.config.season or series.step.season
        return replace(
            self.config,
            columns=series.names,
            season=season,
            step=str(series.step),
            means=tuple(scale.means.tolist()),
            deviations=tuple(scale.deviations.tolist()),
            naive_errors=naive_errors(train, season),
        )

    def part(self, raw: Stretch, to_learn: bool) -> WindowSet:
        if raw.series.names != self.config.columns or str(raw.series.step) != self.config.step:
            ours = f"{', '.join(self.config.columns)} in steps of {self.config.step}"
            raise DataError(f"{', '.join(raw.series.table.files)}: the run forecasts {ours}, this is another series")
        return WindowSet(raw, self.config.scale, self.config, self.form)

    # Learning.

    def collate(self, part: WindowSet, chosen: np.ndarray, epoch: int | None = None) -> WindowBatch:
        return collate_windows(part, chosen)

    def nats(self, model: Forecaster, batch: WindowBatch, smoothing: float) -> Tensor:
        return self.losses(model(batch.past, batch.features, batch.future).float(), batch).sum()

    def losses(self, outputs: Tensor, batch: WindowBatch) -> Tensor:
        """(B, H, C); 0 where nothing was measured."""
        errors = batch.future[..., None] - outputs
        losses = errors[..., 0].square()
        if self.config.quantiles:
            levels = outputs.new_tensor(self.config.quantiles)
            losses = losses + pinball(errors[..., 1:], levels).mean(-1)
        return losses if batch.measured is None else losses * batch.measured

    # Validation and measuring.

    @property
    def higher_is_better(self) -> bool:
        return False

    @torch.no_grad()
    def figures(self, model: Forecaster, part: WindowSet) -> dict[str, float]:
        """Of every window, standardized; the model reads its own forecasts where it writes step by step."""
        errors, loss, n = self.errors(part), 0.0, 0
        for batch, outputs in forecast_all(model, part, self.batch_tokens):
            errors.add(outputs, batch.future, batch.measured)
            loss += float(self.losses(outputs, batch).sum())
            n += batch.n_targets
        return {"loss": loss / n, "mse": errors.mse, "mae": errors.mae}

    def errors(self, part: WindowSet) -> Errors:
        return Errors(self.form.horizon, part.scale.deviations[: part.series.n_columns], self.config.quantiles)

    def measure(self, use: Use[Forecaster], files: Sequence[str] = ()) -> Measured:
        """A backtest on every window of the test, beside forecasts that anybody could make."""
        of, raw = self.test(files)
        part = self.part(raw, to_learn=False)
        errors = self.errors(part)
        for batch, outputs in forecast_all(use.model, part, self.batch_tokens):
            errors.add(outputs, batch.future, batch.measured)
        rivals, remarks = self.rivals(use.model.device)
        beside = {name: backtest(rival, part, use.model.device) for name, rival in rivals.items()}
        naive = np.array(self.config.naive_errors)
        values = {"mse": errors.mse, "mae": errors.mae, "mase": float(errors.mase(naive)), "crps": float(errors.crps())}
        if self.config.quantiles:
            values["coverage"] = float(errors.coverage())
        signature = self.signature(part)
        metrics = [Metric(name=name, value=value, signature=signature) for name, value in values.items()]
        tables, record, footing = comparison(errors, beside, self.config.columns, naive)
        record |= {"of": of, "windows": errors.n_windows, "metrics": [asdict(metric) for metric in metrics]}
        remarks = [*remarks, *part.notes.rows()]
        return Measured(of, metrics, record, tables, footing=[*footing, signature], remarks=remarks)

    def rivals(self, device: torch.device) -> tuple[dict[str, Rival], list[str]]:
        """By name; linear ones are fitted to the training data, and left out, with a remark, where these are gone."""
        form, season = self.form, self.config.season
        rivals = {"repeat the last value": repeat_last(form.horizon)}
        rivals["seasonal naive"] = seasonal_naive(form.horizon, season)
        try:
            parts = self.read_parts(self.config, self.setup.data)
            train = self.part(parts.train, to_learn=True)
            valid = None if parts.valid is None else self.part(parts.valid, to_learn=False)
        except DataError as error:
            return rivals, [f"NLinear and DLinear are not beside it, because training data are missing: {error}"]
        for name, is_relative in (("NLinear", True), ("DLinear", False)):
            rivals[f"{name}, least squares"] = least_squares(train, valid, is_relative, device)
        n_columns = train.series.n_columns
        if n_columns == 1:
            return rivals, []
        if n_columns * form.look_back**2 > MOST:
            return rivals, ["NLinear with a map for each column is not beside it: there are too many columns"]
        rivals["NLinear of each column, least squares"] = least_squares(train, valid, True, device, individual=True)
        return rivals, []

    def signature(self, part: WindowSet) -> str:
        form = self.form
        settings = f"look-back:{form.look_back}|horizon:{form.horizon}|season:{self.config.season}|windows:{len(part)}"
        return f"{settings}|standardized:training|stride:1"

    # For people.

    def inspect(self) -> list[Row]:
        rows = [row for name, part in self.parts().items() for row in series_rows(name, part, self.config.season)]
        if self.valid is None:
            return rows
        rivals = {name: backtest(rival, self.valid, CPU) for name, rival in self.rivals(CPU)[0].items()}
        return rows + [Row("valid", f"to beat: {name}", f"MSE {errors.mse:.4f}") for name, errors in rivals.items()]

    def settled_rows(self) -> list[tuple[str, str]]:
        form = self.form
        what = f"{form.horizon} steps ahead of {len(self.config.columns)} columns, from the last {form.look_back}"
        return [("forecasts", what), ("season", f"{self.config.season} steps")]

    # Use.

    @property
    def verbs(self) -> Verbs:
        return {"forecast": self.forecast}

    def forecast(self, use: Use[Forecaster], ask: Forecast) -> list[Forecasted]:
        config, scale = self.config, self.config.scale
        histories = [read_history(given, config, scale, use.model.form, config.step) for given in ask.history]
        levels = config.quantiles
        return [
            forecast_history(use.model, history, config.columns, scale, levels, config.id, ask.horizon, ask.quantiles)
            for history in histories
        ]

    def look(self, use: Use[Forecaster], source: Given, target: str | None, focus: Focus) -> Capture:
        """At the last window of a history; `target` is the column whose map is shown (None: the mean of all)."""
        history = read_history(source, self.config, self.config.scale, use.model.form, self.config.step)
        return look_at_history(use.model, history, self.config, name_of(source), target, focus)


def naive_errors(train: Stretch, season: int) -> tuple[float, ...]:
    """Of each column that is forecast: mean |x_t - x_(t - season)|; 0 where no two values are a season apart."""
    n = train.series.n_columns
    differences = [np.empty((0, n))]
    for rows in train.rows:
        values = train.series.values[rows, :n]
        differences.append(np.abs(values[season:] - values[:-season]))
    whole = np.concatenate(differences)
    counts = (~np.isnan(whole)).sum(0)
    return tuple((np.nansum(whole, 0) / np.maximum(counts, 1)).tolist())
