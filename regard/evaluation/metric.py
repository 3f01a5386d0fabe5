"""A figure, always with the settings it was had by."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Metric:
    name: str
    value: float
    signature: str  # all settings, as sacreBLEU writes them
    interval: tuple[float, float] | None = None  # holds the true value with 95 % confidence
