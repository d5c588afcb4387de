"""What happened before this process watched, from Prometheus: loads, unloads, counters that fell, outages.

Told to within one step of the chart it is for: what Prometheus was asked at every step differs from the step
before. Where Prometheus itself knew nothing of the server nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from history.events import Event, EventKind
from history.promapi_history import LEAST_INTERVALS, PromHistory
from history.promapi_targets import Targets
from history.protocol import Frame, Grid, GroupKey, Matchers
from telemetry.identity import ModelKey
from telemetry.scrape import FloatArray
from telemetry.units import human_duration

SUCCESS = "nv_inference_request_success"
"""Comes and goes with its model."""
FAILURE = "nv_inference_request_failure"
"""Outlives unload and reload: only a new process makes it fall."""
MAX_EVENTS = 100
"""The newest ones of a chart; more lines than that are no marks any more."""
_MODEL = ("server", "model", "version")

BoolArray = NDArray[np.bool_]


def events_of(
    history: PromHistory, targets: Targets, server: str, model: ModelKey | None, grid: Grid
) -> tuple[Event, ...]:
    """What happened to a server, and to one of its models if given, at the times of the grid."""
    reading = _Reading(history, targets, server, grid)
    found = [*reading.of_server(), *(reading.of_model(model) if model is not None else ())]
    return tuple(sorted(found, key=lambda event: event.at)[-MAX_EVENTS:])


class _Reading:
    """One server over one grid."""

    def __init__(self, history: PromHistory, targets: Targets, server: str, grid: Grid) -> None:
        self._history, self._server, self._grid = history, server, grid
        self._times = grid.times()
        self._where: Matchers = (("server", server),)
        self._within = f"within the {human_duration(grid.step_seconds)} before"
        self._window = max(grid.step_seconds, LEAST_INTERVALS * targets.interval_seconds)
        target = targets.get(server)
        job = target.copies[0].get("job", "") if target is not None and target.copies else ""
        # The exporter's own scrape of the same server may be another `up` with the same instance.
        where = (*self._where, *((("job", job),) if job else ()))
        window = max(grid.step_seconds, 2 * targets.interval_seconds)
        up = history.over_range("up", "min_over_time", window, ("server",), grid, where=where)
        self._up = _column(up, (server,))
        fallen = history.over_range(FAILURE, "resets", self._window, ("server",), grid, where=self._where)
        self._restarted = _begins(_column(fallen, (server,)) > 0)

    def of_server(self) -> Iterator[Event]:
        """Outages and restarts."""
        for place in np.flatnonzero(_steps(self._up, 1.0, 0.0)).tolist():
            yield self._event(place, None, EventKind.DOWN, f"{self._server} could not be scraped")
        for place in np.flatnonzero(_steps(self._up, 0.0, 1.0)).tolist():
            yield self._event(place, None, EventKind.UP, f"{self._server} was scraped again")
        for place in np.flatnonzero(self._restarted).tolist():
            text = f"{self._server} was restarted: its failures began again at zero"
            yield self._event(place, None, EventKind.RESTART, text)

    def of_model(self, model: ModelKey) -> Iterator[Event]:
        """Loads, unloads, and counters that fell while the model was there all along."""
        where = (*self._where, ("model", model.name), ("version", model.version))
        key = (model.server, model.name, model.version)
        there = np.isfinite(_column(self._history.gauge_range(SUCCESS, _MODEL, self._grid, where=where), key))
        falls = self._history.over_range(SUCCESS, "resets", self._window, _MODEL, self._grid, where=where)
        seen = np.zeros(len(self._times), dtype=np.bool_)
        seen[1:] = (self._up[1:] == 1.0) & (self._up[:-1] == 1.0)
        before = np.concatenate((there[:1], there[:-1]))
        fell = _begins(_column(falls, key) > 0) & there & before & ~self._restarted
        label = model.label()
        for happened, kind, text in (
            (seen & there & ~before, EventKind.LOAD, f"{label} was loaded"),
            (seen & ~there & before, EventKind.UNLOAD, f"{label} was unloaded"),
            (seen & fell, EventKind.RESET, f"{label} counts again from zero"),
        ):
            for place in np.flatnonzero(happened).tolist():
                yield self._event(place, model, kind, text)

    def _event(self, place: int, model: ModelKey | None, kind: EventKind, text: str) -> Event:
        return Event(float(self._times[place]), self._server, model, kind, f"{text}, {self._within}")


def _column(frame: Frame, key: GroupKey) -> FloatArray:
    column = frame.column(key)
    return np.full(len(frame.times), np.nan) if column is None else column


def _steps(values: FloatArray, before: float, after: float) -> BoolArray:
    """Where a value became another one from one time to the next."""
    found = np.zeros(len(values), dtype=np.bool_)
    found[1:] = (values[:-1] == before) & (values[1:] == after)
    return found


def _begins(values: BoolArray) -> BoolArray:
    """The first time of each stretch: a window longer than a step shows one fall several times.

    Where the first time of all is in one, it may have begun before.
    """
    found = values.copy()
    found[:1] = False
    found[1:] &= ~values[:-1]
    return found
