"""How an expression is evaluated and how its PromQL is spelled: what every node is handed."""

from __future__ import annotations

import abc
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from history.protocol import By, Frame, Grid, History, Matchers, Reduce
from signals import frames
from signals.facts import FactFamily, NameKey, SignalFacts
from telemetry.catalogue import CATALOGUE, MODEL_FAMILIES, Kind

MODEL: By = ("server", "model", "version")
NAME: By = ("server", "model")
SERVER: By = ("server",)
GPU: By = ("server", "gpu_uuid")

FREEZABLE = frozenset(name for name in MODEL_FAMILIES if CATALOGUE[name].kind is Kind.COUNTER)
"""Counters that stand at zero with counter_latencies=false; summaries and statistics go on."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the labels are called where the PromQL runs, its window, and matchers for every selector.

    `server` may be several labels ("cluster, instance"). `whole_range` reads every selector over the whole
    range of a chart, whose length the window then is, at its end: a number to rank by that does not change
    along the chart; gauges count with their largest value. `only_grown`: increases of zero are left out
    before they are summed up, which saves most of the work where few series ever grow.
    """

    server: str = "instance"
    model: str = "model"
    version: str = "version"
    window: str = "$__rate_interval"
    matchers: str = ""
    whole_range: bool = False
    only_grown: bool = False

    def label(self, name: str) -> str:
        """A label's name there."""
        return {"server": self.server, "model": self.model, "version": self.version}.get(name, name)

    def labels(self, names: Iterable[str]) -> str:
        """Label names as a list in PromQL."""
        return ", ".join(self.label(name) for name in names)

    def selector(self, family: str, where: Matchers = ()) -> str:
        """A family with its matchers."""
        own = [f'{self.label(name)}="{value}"' for name, value in where]
        matchers = ", ".join([*own, *([self.matchers] if self.matchers else [])])
        return f"{family}{{{matchers}}}" if matchers else family

    def gauge(self, family: str, where: Matchers = ()) -> str:
        """A family's value."""
        if self.whole_range:
            return f"max_over_time({self.over_window(family, where)})"
        return self.selector(family, where)

    def over_window(self, family: str, where: Matchers = ()) -> str:
        """A family over the window, as `rate` and `increase` take it."""
        end = " @ end()" if self.whole_range else ""
        return f"{self.selector(family, where)}[{self.window}]{end}"

    def of_any_model(self) -> Dialect:
        """For the steps of ensembles: whichever models the matchers ask for, their steps are others."""
        return self


class Evaluation:
    """One evaluation of many signals over one history; each family is read once.

    `window_seconds` None = since the server's start: an increase is the counter itself, a rate has no value.
    `plain_totals` False evaluates totals as PromQL's increase() does.
    """

    def __init__(
        self,
        history: History,
        facts: SignalFacts,
        window_seconds: float | None,
        grid: Grid,
        *,
        where: Matchers = (),
        plain_totals: bool = True,
    ) -> None:
        self.history = history
        self.facts = facts
        self.window_seconds = window_seconds
        self.grid = grid
        self.where = where
        self.plain_totals = plain_totals
        self.times = grid.times()
        self._read: dict[tuple[object, ...], Frame] = {}
        self._done: dict[int, tuple[Expression, Frame]] = {}

    def of(self, expression: Expression) -> Frame:
        """The expression's values, computed once."""
        # By identity: hashing a whole expression costs more than computing a shared part twice.
        known = self._done.get(id(expression))
        if known is None:
            # Values near the largest float add up to infinity, which is told as impossible later.
            with np.errstate(over="ignore", invalid="ignore"):
                known = self._done[id(expression)] = (expression, expression.evaluate(self))
        return known[1]

    def increase(self, family: str, by: By, where: Matchers, plain: bool) -> Frame:
        """Increase over the window, or the counter itself without one."""
        if self.window_seconds is None:
            return self.gauge(family, by, where, Reduce.SUM)
        plain = plain and self.plain_totals and len(self.times) == 1
        key = (family, by, where, plain)
        if key not in self._read:
            self._read[key] = self._settled(family, self._increase(family, by, where, plain), by)
        return self._read[key]

    def _increase(self, family: str, by: By, where: Matchers, plain: bool) -> Frame:
        window, where = self.window_seconds or 0.0, (*where, *self.where)
        if plain:
            vector = self.history.increase(family, by, window, self.grid.start, where=where, plain=True)
            return frames.of_vector(self.times, vector)
        return self.history.increase_range(family, by, window, self.grid, where=where)

    def gauge(self, family: str, by: By, where: Matchers, reduce: Reduce) -> Frame:
        """Values at the grid's times."""
        key = (family, by, where, reduce)
        if key not in self._read:
            frame = self.history.gauge_range(
                family, by, self.grid, where=(*where, *self.where), reduce=reduce
            )
            largest = reduce is Reduce.MAX
            self._read[key] = self._settled(family, frame, by, largest=largest)
        return self._read[key]

    def _settled(self, family: str, frame: Frame, by: By, *, largest: bool = False) -> Frame:
        """Ensembles under one version; counters that stand still on purpose taken out."""
        facts = self.facts
        if by[:3] != MODEL:
            return frame
        if facts.frozen and family in FREEZABLE:
            frame = frames.filtered(frame, lambda key: key[:3] not in facts.frozen)
        if facts.steps and any(map(facts.is_ensemble, frame.keys)):
            frame = frames.regrouped(frame, facts.canonical, largest=largest)
        return frame

    def fact(self, family: FactFamily) -> Frame:
        """A fact as values that do not change over time."""
        if family is FactFamily.INSTANCES:
            return frames.of_vector(self.times, dict(self.facts.instances))
        return frames.of_vector(self.times, dict.fromkeys(self.having(family), 1.0))

    def having(self, family: FactFamily) -> Collection[NameKey]:
        """(server, model) of every model that has the fact."""
        return self.facts.steps if family is FactFamily.ENSEMBLE_STEP else self.facts.queues_itself


class Expression(abc.ABC):
    """A node."""

    @abc.abstractmethod
    def evaluate(self, evaluation: Evaluation) -> Frame:
        """Values by group; NaN or absent where there is none."""

    @abc.abstractmethod
    def promql(self, dialect: Dialect) -> str:
        """The same as PromQL text."""
