"""How fast a model uses up the budget of its objective: what failed or was slow over what may.

Failures are counted. What was slow is taken from the histogram of first responses if it has a bucket that
ends at the objective's time, else from the summary (at least 1 - q are slow while the quantile q is above
the time), else from the mean (all are called slow while it is above): `Burn.source` says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from history.protocol import By, Frame, Grid, GroupKey, History, Vector
from signals.definitions import definition
from signals.evaluation import MODEL, Evaluation, Expression
from signals.facts import SignalFacts
from signals.latency import QUANTILES
from telemetry.identity import ModelKey
from telemetry.objective import Objective
from telemetry.scrape import FloatArray
from triage.measures import MEASURES

HISTOGRAM = "nv_inference_first_response_histogram_ms"
SUMMARY = "nv_inference_request_summary_us"
USUAL_DAYS = 30.0
"""Burn rates are told as if every budget were for so many days."""
MEAN_SECONDS = 300.0
"""Window of the mean, where nothing better tells what was slow."""
_STEP_SECONDS = 15.0
_US_PER_MS = 1e3


class Kind(StrEnum):
    """What an objective is about."""

    ERRORS = "errors"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class Burn:
    """What happened to one objective within a window.

    `bad_ratio` of the requests failed or were slow, `budget_ratio` may. `rate` is their quotient, scaled to
    a period of 30 days: at 1 the budget lasts exactly for its period. `source`: counters, histogram, summary
    or mean.
    """

    kind: Kind
    bad_ratio: float
    budget_ratio: float
    days: float
    source: str

    @property
    def rate(self) -> float:
        """How many times faster than allowed."""
        return self.bad_ratio / self.budget_ratio * USUAL_DAYS / self.days

    @property
    def lasts_days(self) -> float | None:
        """Days until the whole budget is used up at this rate; None if nothing is used."""
        return self.days * self.budget_ratio / self.bad_ratio if self.bad_ratio > 0 else None


_ERRORS_RATIO = next(row.expression for row in MEASURES if row.name == "errors_ratio")
_REQUEST_MEAN = definition("request_us_mean").expression


class Burns:
    """Burn rates at one time; every family is read once for all models."""

    def __init__(self, history: History, facts: SignalFacts, at: float) -> None:
        self._history, self._facts, self._at = history, facts, at
        self._frames: dict[tuple[object, ...], Frame] = {}
        self._increases: dict[tuple[object, ...], Vector] = {}

    def of(self, objective: Objective, key: ModelKey, kind: Kind, window_seconds: float) -> Burn | None:
        """How the objective fared in the window; None without requests or without such an objective."""
        row = (key.server, key.name, key.version)
        if kind is Kind.ERRORS:
            if objective.errors_budget_ratio is None:
                return None
            bad = self._last(_ERRORS_RATIO, row, window_seconds)
            return (
                None
                if bad is None
                else Burn(kind, bad, objective.errors_budget_ratio, objective.days, "counters")
            )
        if objective.latency_us is None or objective.slow_budget_ratio is None:
            return None
        slow = self._slow(objective.latency_us, row, window_seconds)
        return (
            None
            if slow is None
            else Burn(kind, slow[0], objective.slow_budget_ratio, objective.days, slow[1])
        )

    def _slow(self, limit_us: float, row: GroupKey, window: float) -> tuple[float, str] | None:
        """Share of slow requests, and from what."""
        for source, share in (
            ("histogram", self._of_histogram),
            ("summary", self._of_summary),
            ("mean", self._of_mean),
        ):
            found = share(limit_us, row, window)
            if found is not None:
                return found, source
        return None

    def _of_histogram(self, limit_us: float, row: GroupKey, window: float) -> float | None:
        total = self._increase(f"{HISTOGRAM}_count", MODEL, window).get(row)
        within = [
            value
            for key, value in self._increase(f"{HISTOGRAM}_bucket", (*MODEL, "le"), window).items()
            if key[:-1] == row and _is(key[-1], limit_us / _US_PER_MS)
        ]
        return max(0.0, 1.0 - within[0] / total) if total and within else None

    def _of_summary(self, limit_us: float, row: GroupKey, window: float) -> float | None:
        shares: list[FloatArray] = []
        for text in QUANTILES.values():
            column = self._quantile(text, window).column(row)
            if column is not None:
                with np.errstate(invalid="ignore"):
                    share = np.where(column > limit_us, 1.0 - float(text), 0.0)
                shares.append(np.where(np.isnan(column), np.nan, share))
        return _mean(np.fmax.reduce(shares)) if shares else None

    def _of_mean(self, limit_us: float, row: GroupKey, window: float) -> float | None:
        column = self._means(window).column(row)
        if column is None:
            return None
        with np.errstate(invalid="ignore"):
            return _mean(np.where(np.isnan(column), np.nan, column > limit_us))

    # ---- reading

    def _last(self, expression: Expression, row: GroupKey, window: float) -> float | None:
        place = ("last", id(expression), window)
        if place not in self._frames:
            self._frames[place] = self._evaluated(expression, Grid(self._at, self._at, 1.0), window)
        column = self._frames[place].column(row)
        return float(column[0]) if column is not None and column[0] == column[0] else None

    def _means(self, window: float) -> Frame:
        place = ("means", window)
        if place not in self._frames:
            inner = min(window, MEAN_SECONDS)
            grid = Grid(self._at - window + inner, self._at, _STEP_SECONDS)
            self._frames[place] = self._evaluated(_REQUEST_MEAN, grid, inner)
        return self._frames[place]

    def _quantile(self, quantile: str, window: float) -> Frame:
        place = ("quantile", quantile, window)
        if place not in self._frames:
            grid = Grid(self._at - window, self._at, _STEP_SECONDS)
            where = (("quantile", quantile),)
            self._frames[place] = self._history.gauge_range(SUMMARY, MODEL, grid, where=where)
        return self._frames[place]

    def _increase(self, family: str, by: By, window: float) -> Vector:
        place = (family, window)
        if place not in self._increases:
            self._increases[place] = self._history.increase(family, by, window, self._at)
        return self._increases[place]

    def _evaluated(self, expression: Expression, grid: Grid, window: float) -> Frame:
        return Evaluation(self._history, self._facts, window, grid).of(expression)


def _is(le: str, limit_ms: float) -> bool:
    try:
        return abs(float(le) - limit_ms) < 1e-6
    except ValueError:
        return False


def _mean(values: FloatArray) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None
