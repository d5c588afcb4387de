"""All signals of all servers at one time: what the command prints, the pages show and the rules judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from telemetry.facts import ModelState
from telemetry.identity import GpuKey, ModelKey
from telemetry.scrape import Notice

SignalValue = float | dict[str, float] | None
"""A number in the unit its name says, a mapping (by reason, by batch size, by device), or not reported."""


@dataclass(frozen=True, slots=True)
class Signals:
    """Signal values by name. A signal that was not reported is there, as None."""

    values: Mapping[str, SignalValue]

    def number(self, name: str) -> float | None:
        """One number in the unit of its name, None = not reported. KeyError for an unknown signal."""
        value = self.values[name]
        if isinstance(value, dict):
            raise TypeError(f"signal {name} is a mapping, not a number")
        return value

    def mapping(self, name: str) -> dict[str, float] | None:
        """One mapping signal, None = not reported. KeyError for an unknown signal."""
        value = self.values[name]
        if isinstance(value, float | int):
            raise TypeError(f"signal {name} is a number, not a mapping")
        return value


@dataclass(frozen=True, slots=True)
class ServerSignals:
    """One server's figures: sums over sums; quantiles the largest of its models."""

    server: str
    signals: Signals


@dataclass(frozen=True, slots=True)
class ModelSignals:
    """One model version's figures; `state` None when no repository index was read."""

    key: ModelKey
    state: ModelState | None
    signals: Signals


@dataclass(frozen=True, slots=True)
class GpuSignals:
    """One GPU's figures as one server reports them."""

    key: GpuKey
    signals: Signals


@dataclass(frozen=True, slots=True)
class OtherSample:
    """One sample of a custom or unknown family; `text` as printed, `mean` of histograms and summaries."""

    server: str
    family: str
    kind: str
    labels: Mapping[str, str]
    value: float | None
    mean: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """Everything known at `at` (unix seconds). `window_seconds` None: one scrape only, totals since start."""

    at: float
    window_seconds: float | None
    servers: tuple[ServerSignals, ...] = ()
    models: tuple[ModelSignals, ...] = ()
    gpus: tuple[GpuSignals, ...] = ()
    host: tuple[ServerSignals, ...] = ()
    other: tuple[OtherSample, ...] = ()
    notices: tuple[Notice, ...] = field(default=())

    def model(self, key: ModelKey) -> ModelSignals | None:
        """One model's figures, None if it is not in this report."""
        return next((row for row in self.models if row.key == key), None)
