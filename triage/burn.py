"""How fast a model uses up the budget of its objective: what failed or was slow over what may.

Failures are counted. What was slow is taken from the histogram of first responses if it has a bucket that
ends at the objective's time, else from the summary (at least 1 - q are slow while the quantile q is
above the time), else from the mean (all are called slow while it is above): `Burn.source` says which.

Budgets are judged over pairs of windows, up to three days, as far as the history reaches: that of the process
itself, and what lies before it where there is a Prometheus.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from triage.finding import Severity
from triage.measures import MEASURES

HISTOGRAM = "nv_inference_first_response_histogram_ms"
SUMMARY = "nv_inference_request_summary_us"
HOUR, DAY = 3600.0, 86400.0
USUAL_DAYS = 30.0
"""Burn rates are told as if every budget were for so many days."""
MEAN_SECONDS = 300.0
"""Window of the mean, where nothing better tells what was slow."""
_STEP_SECONDS = 15.0
_LEAST_STEPS = 240
"""Courses over long windows are read in at least so many steps."""
_US_PER_MS = 1e3
_REACHED_RATIO = 0.9
"""A window of which the history holds so much can be judged."""
_LEAST_MOVE_SECONDS = 60.0
_MOVES_PER_WINDOW = 60
"""A window of what lies before the process is asked for anew when it has moved by so small a part."""


class Kind(StrEnum):
    """What an objective is about."""

    ERRORS = "errors"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class Burn:
    """What happened to one objective within a window.

    `bad_ratio` of the requests failed or were slow, `budget_ratio` may. `rate` is their quotient, scaled to
    a period of 30 days: at 1 the budget lasts exactly for its period. `source`: counters, histogram, summary
    or mean. `window_seconds` is the time it happened in.
    """

    kind: Kind
    bad_ratio: float
    budget_ratio: float
    days: float
    source: str
    window_seconds: float = HOUR

    @property
    def rate(self) -> float:
        """How many times faster than allowed."""
        return self.bad_ratio / self.budget_ratio * USUAL_DAYS / self.days

    @property
    def lasts_days(self) -> float | None:
        """Days until the whole budget is used up at this rate; None if nothing is used."""
        return self.days * self.budget_ratio / self.bad_ratio if self.bad_ratio > 0 else None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two windows that must both be above the rate at which `share` of the budget goes in the long one."""

    severity: Severity
    share: float
    long_seconds: float
    short_seconds: float

    def rate(self, days: float) -> float:
        """How many times too fast that is, for a budget of so many days."""
        return self.share * days * DAY / self.long_seconds


PAIRS = (
    Pair(Severity.PAGE, 0.02, HOUR, 300.0),
    Pair(Severity.PAGE, 0.05, 6 * HOUR, 1800.0),
    Pair(Severity.TICKET, 0.1, DAY, 2 * HOUR),
    Pair(Severity.TICKET, 0.1, 3 * DAY, 6 * HOUR),
)
"""2 % of a 30-day budget in an hour is 14.4 times too fast, 5 % in six hours 6 times, and so on."""

_ERRORS_RATIO = next(row.expression for row in MEASURES if row.name == "errors_ratio")
_REQUEST_MEAN = definition("request_us_mean").expression


class Burns:
    """Burn rates at one time. `history` reaches back `reach_seconds`; `distant` is asked for longer windows.

    `distant` must answer at once, with what it knows; None if there is nothing but `history`. No window is
    taken shorter than `least_seconds`.
    """

    def __init__(
        self,
        history: History,
        facts: SignalFacts,
        at: float,
        *,
        reach_seconds: float = HOUR,
        least_seconds: float = 0.0,
        distant: History | None = None,
    ) -> None:
        self._facts, self._at, self._distant = facts, at, distant
        self._reach_seconds, self._least_seconds = reach_seconds, least_seconds
        self._near = _Reading(history, facts, at, 1.0)
        self._far: dict[float, _Reading] = {}

    def of(self, objective: Objective, key: ModelKey, kind: Kind, window_seconds: float) -> Burn | None:
        """How the objective fared in the window.

        None without requests, without such an objective, or where the window cannot be judged (yet).
        """
        reading = self._reading(window_seconds)
        if reading is None:
            return None
        found = reading.of(objective, key, kind, max(window_seconds, self._least_seconds))
        return None if found is None else replace(found, window_seconds=window_seconds)

    def _reading(self, window_seconds: float) -> _Reading | None:
        """Who is asked about a window; None where it cannot be judged."""
        if self._is_near(window_seconds):
            return self._near
        if window_seconds not in self._far and self._distant is not None:
            move = max(_LEAST_MOVE_SECONDS, window_seconds / _MOVES_PER_WINDOW)
            at = self._at // move * move
            self._far[window_seconds] = _Reading(self._distant, self._facts, at, move)
        return self._far.get(window_seconds)

    def _is_near(self, window_seconds: float) -> bool:
        return window_seconds <= max(HOUR, self._reach_seconds / _REACHED_RATIO)


class _Reading:
    """One history at one time; every family is read once for all models.

    `step_seconds`: how exact the time is.
    """

    def __init__(self, history: History, facts: SignalFacts, at: float, step_seconds: float) -> None:
        self._history, self._facts, self._at = history, facts, at
        self._now = Grid(at, at, step_seconds)
        self._frames: dict[tuple[object, ...], Frame] = {}
        self._increases: dict[tuple[object, ...], Vector] = {}

    def of(self, objective: Objective, key: ModelKey, kind: Kind, window_seconds: float) -> Burn | None:
        """How the objective fared in the window; None without requests or without such an objective."""
        row = (key.server, key.name, key.version)
        if kind is Kind.ERRORS:
            if objective.errors_budget_ratio is None:
                return None
            bad = self._last(_ERRORS_RATIO, row, window_seconds)
            if bad is None:
                return None
            budget = objective.errors_budget_ratio
            return Burn(kind, bad, budget, objective.days, "counters")
        if objective.latency_us is None or objective.slow_budget_ratio is None:
            return None
        slow = self._slow(objective.latency_us, row, window_seconds)
        if slow is None:
            return None
        return Burn(kind, slow[0], objective.slow_budget_ratio, objective.days, slow[1])

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
            self._frames[place] = self._evaluated(expression, self._now, window)
        column = self._frames[place].column(row)
        return float(column[0]) if column is not None and column[0] == column[0] else None

    def _means(self, window: float) -> Frame:
        place = ("means", window)
        if place not in self._frames:
            inner = min(window, MEAN_SECONDS)
            grid = self._course(window - inner)
            self._frames[place] = self._evaluated(_REQUEST_MEAN, grid, inner)
        return self._frames[place]

    def _quantile(self, quantile: str, window: float) -> Frame:
        place = ("quantile", quantile, window)
        if place not in self._frames:
            grid, where = self._course(window), (("quantile", quantile),)
            self._frames[place] = self._history.gauge_range(SUMMARY, MODEL, grid, where=where)
        return self._frames[place]

    def _increase(self, family: str, by: By, window: float) -> Vector:
        place = (family, window)
        if place not in self._increases:
            frame = self._history.increase_range(family, by, window, self._now)
            newest = frame.values[-1].tolist() if frame.keys else []
            self._increases[place] = {
                key: value for key, value in zip(frame.keys, newest, strict=True) if value == value
            }
        return self._increases[place]

    def _course(self, seconds: float) -> Grid:
        """So far back from now, in sensible steps."""
        return Grid(self._at - seconds, self._at, max(_STEP_SECONDS, seconds / _LEAST_STEPS))

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
