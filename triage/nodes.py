"""Expressions that only rules need, beside those of `signals.expression`: resets, growth, GPUs of a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from history.protocol import By, Frame, Grid, GroupKey, Matchers
from signals import frames
from signals.evaluation import GPU, MODEL, Dialect, Evaluation, Expression
from signals.expression import Gauge, Increase
from telemetry.scrape import FloatArray
from triage.durations import duration_text, parse_duration

_POINTS_PER_WINDOW = 360
"""Readings of a window that are looked at for resets; one every 10 s of an hour."""
PLACING_FAMILY = "nv_inference_count"
"""Its label gpu_uuid says on which GPUs a model has instances."""


@dataclass(frozen=True, slots=True)
class Past(Dialect):
    """A dialect whose selectors read `ago_seconds` back in time."""

    ago_seconds: float = 0.0

    def selector(self, family: str, where: Matchers = ()) -> str:
        """The family as it was."""
        return f"{Dialect.selector(self, family, where)} offset {duration_text(self.ago_seconds)}"

    def over_window(self, family: str, where: Matchers = ()) -> str:
        """The window as it was: the offset stands behind the brackets."""
        ago = duration_text(self.ago_seconds)
        return f"{Dialect.selector(self, family, where)}[{self.window}] offset {ago}"

    @classmethod
    def of(cls, dialect: Dialect, ago_seconds: float) -> Past:
        """The same labels, window and matchers, `ago_seconds` further back."""
        further = dialect.ago_seconds if isinstance(dialect, Past) else 0.0
        return cls(
            dialect.server,
            dialect.model,
            dialect.version,
            dialect.window,
            dialect.matchers,
            ago_seconds=further + ago_seconds,
        )


@dataclass(frozen=True, slots=True)
class AtMost(Expression):
    """An expression that is never shown above a limit.

    An execution counts where it ends, so one that is longer than the window makes a busy share above 1.
    """

    of: Expression
    limit: float

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """The smaller of both."""
        frame = evaluation.of(self.of)
        return Frame(frame.times, frame.keys, np.minimum(frame.values, self.limit))

    def promql(self, dialect: Dialect) -> str:
        """`clamp_max(of, limit)`."""
        return f"clamp_max({self.of.promql(dialect)}, {self.limit:g})"


@dataclass(frozen=True, slots=True)
class AsPrinted(Expression):
    """Increase of a counter as the page prints it: also of one that is switched off and stands at zero."""

    of: Increase

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """Over the window; no value without one."""
        window = evaluation.window_seconds
        if window is None:
            return frames.empty(evaluation.times)
        return evaluation.history.increase_range(
            self.of.family, self.of.by, window, evaluation.grid, where=(*self.of.where, *evaluation.where)
        )

    def promql(self, dialect: Dialect) -> str:
        """The same: Prometheus knows no switch."""
        return self.of.promql(dialect)


@dataclass(frozen=True, slots=True)
class Resets(Expression):
    """How often a counter fell within the window: the model was loaded anew."""

    family: str
    by: By = MODEL

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """Falls between readings; a gap (the model was not loaded) is passed over."""
        window, grid = evaluation.window_seconds, evaluation.grid
        if window is None:
            return frames.empty(evaluation.times)
        step = max(1.0, window / _POINTS_PER_WINDOW)
        fine = Grid(grid.start - window, grid.end, step)
        frame = evaluation.history.gauge_range(self.family, self.by, fine, where=evaluation.where)
        if not frame.keys:
            return frames.empty(evaluation.times)
        fallen = np.cumsum(_falls(frame.values), axis=0)
        ends = np.searchsorted(frame.times, evaluation.times + 1e-6, side="right") - 1
        starts = np.searchsorted(frame.times, evaluation.times - window + 1e-6, side="right") - 1
        return Frame(evaluation.times, frame.keys, fallen[ends] - fallen[np.maximum(starts, 0)])

    def promql(self, dialect: Dialect) -> str:
        """`resets(family[window])`."""
        return f"resets({dialect.over_window(self.family)})"


def _falls(values: FloatArray) -> FloatArray:
    """1 where a value is below the last one known before it, shape as given."""
    known = ~np.isnan(values)
    last = np.where(known, np.arange(len(values))[:, None], 0)
    filled = np.take_along_axis(values, np.maximum.accumulate(last, axis=0), axis=0)
    fell = np.zeros(values.shape)
    with np.errstate(invalid="ignore"):
        fell[1:] = filled[1:] < filled[:-1]
    return fell


@dataclass(frozen=True, slots=True)
class Largest(Expression):
    """The largest value of a gauge within the window."""

    of: Gauge

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """Over the readings of the window, at most so many; a gap is passed over."""
        window, grid = evaluation.window_seconds, evaluation.grid
        if window is None:
            return evaluation.of(self.of)
        fine = Grid(grid.start - window, grid.end, max(1.0, window / _POINTS_PER_WINDOW))
        frame = Evaluation(evaluation.history, evaluation.facts, window, fine, where=evaluation.where).of(
            self.of
        )
        if not frame.keys:
            return frames.empty(evaluation.times)
        ends = np.searchsorted(frame.times, evaluation.times + 1e-6, side="right")
        starts = np.searchsorted(frame.times, evaluation.times - window - 1e-6, side="left")
        rows = [
            np.fmax.reduce(frame.values[start:end]) if end > start else np.full(len(frame.keys), np.nan)
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        return Frame(evaluation.times, frame.keys, np.array(rows))

    def promql(self, dialect: Dialect) -> str:
        """`sum without (...) (max_over_time(family[window]))`."""
        inner = _OverWindow(dialect.server, dialect.model, dialect.version, dialect.window, dialect.matchers)
        return self.of.promql(inner)


@dataclass(frozen=True, slots=True)
class _OverWindow(Dialect):
    """A dialect in which a gauge is its largest value within the window."""

    def gauge(self, family: str, where: Matchers = ()) -> str:
        return f"max_over_time({self.over_window(family, where)})"


@dataclass(frozen=True, slots=True)
class Growth(Expression):
    """How much a gauge is above what it was one window ago, in its unit; below zero if it shrank."""

    of: Expression

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """Now minus then, where both are known."""
        window, grid = evaluation.window_seconds, evaluation.grid
        if window is None:
            return frames.empty(evaluation.times)
        before = Evaluation(
            evaluation.history,
            evaluation.facts,
            window,
            Grid(grid.start - window, grid.end - window, grid.step_seconds),
            where=evaluation.where,
        )
        then = before.of(self.of)
        now = evaluation.of(self.of)
        return frames.combined(now, Frame(now.times, then.keys, then.values), np.subtract)

    def promql(self, dialect: Dialect) -> str:
        """`(of - of offset window)`."""
        before = Past.of(dialect, parse_duration(dialect.window))
        return f"({self.of.promql(dialect)} - {self.of.promql(before)})"


@dataclass(frozen=True, slots=True)
class OfItsGpus(Expression):
    """For each model the largest value of the GPUs it has instances on; `of` is by (server, gpu_uuid).

    A GPU is its uuid: whichever server reports it. Models without an instance on a GPU are absent.
    """

    of: Expression

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """By MODEL."""
        by_gpu = frames.regrouped(self._of_gpus(evaluation), lambda key: (key[1],), largest=True)
        if not by_gpu.keys:
            return frames.empty(evaluation.times)
        columns: dict[GroupKey, FloatArray] = {}
        for server, series in evaluation.history.labels(PLACING_FAMILY):
            column = by_gpu.column((series.label("gpu_uuid"),))
            if column is not None:
                key = (server, series.label("model"), series.label("version"))
                known = columns.get(key)
                columns[key] = column if known is None else np.fmax(known, column)
        if not columns:
            return frames.empty(evaluation.times)
        return Frame(evaluation.times, tuple(columns), np.stack(list(columns.values()), axis=1))

    def _of_gpus(self, evaluation: Evaluation) -> Frame:
        """Whichever model is asked for: a GPU's own series have no model."""
        if not evaluation.where:
            return evaluation.of(self.of)
        return Evaluation(
            evaluation.history, evaluation.facts, evaluation.window_seconds, evaluation.grid
        ).of(self.of)

    def promql(self, dialect: Dialect) -> str:
        """The model's series by GPU times the GPU's value, the largest by model."""
        placed = dialect.selector(PLACING_FAMILY)
        value = f"max by (gpu_uuid) ({self.of.promql(dialect)})"
        return f"max without (gpu_uuid) (({placed} >= bool 0) * on (gpu_uuid) group_left () {value})"


@dataclass(frozen=True, slots=True)
class OverGpus(Expression):
    """An expression by (server, gpu_uuid) made one by server: the largest of its GPUs."""

    of: Expression

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """The largest by server."""
        return frames.regrouped(evaluation.of(self.of), lambda key: key[: len(GPU) - 1], largest=True)

    def promql(self, dialect: Dialect) -> str:
        """`max without (gpu_uuid) (of)`."""
        return f"max without (gpu_uuid) ({self.of.promql(dialect)})"
