"""Range queries answered from memory, asked in the background: no reader waits longer than it wants to.

What was fetched once is not asked again: a grid that moved on costs its new points only. While an answer is
under way, or when it failed, the one before is used, and `status()` says so.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from history.promapi import PromAnswer, PrometheusApi
from history.protocol import Grid
from telemetry.errors import SourceError
from telemetry.scrape import FloatArray

Result = TypeVar("Result")
LabelSet = tuple[tuple[str, str], ...]
Columns = dict[LabelSet, FloatArray]

WORKERS = 6
RETRY_SECONDS = 5.0
"""After a failure no query is sent for so long: a Prometheus that hangs must not collect waiting threads."""
OVERLAP_STEPS = 2
"""Points asked again with the new ones: the newest had not all their samples when they were asked for."""
WARNING_SECONDS = 120.0
_OF_ONE_QUERY = (400, 422, 503)
"""Statuses with which Prometheus refuses or gives up one query: too many samples, too long."""
_MAX_ENTRIES = 400
_MAX_VALUES = 20_000_000
_MAX_POINTS_TOGETHER = 3000
_POINT_REACH_STEPS = 2
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FetchStatus:
    """How the queries fare. `answered_at` unix seconds of the last answer, None if there was none.

    `error` is the sentence of the last query if it failed, "" if it was answered; `pending` queries are
    under way; `warnings` came with answers of the last two minutes.
    """

    answered_at: float | None
    error: str
    pending: int
    warnings: tuple[str, ...]


@dataclass(slots=True)
class _Entry:
    """What is known of one query at one step: `columns` have the length of `times`."""

    times: FloatArray = field(default_factory=lambda: np.empty(0))
    columns: Columns = field(default_factory=dict)
    pending: Future[None] | None = None
    failed_at: float = float("-inf")

    def covers(self, times: FloatArray) -> bool:
        return (
            bool(len(self.times)) and self.times[0] <= times[0] + 1e-6 and times[-1] - 1e-6 <= self.times[-1]
        )

    @property
    def size(self) -> int:
        return len(self.times) * (len(self.columns) + 1)


class Fetcher:
    """Range queries of one API, remembered; thread-safe. Errors become the status, never exceptions."""

    def __init__(self, api: PrometheusApi, *, clock: Callable[[], float] = time.time) -> None:
        self._api = api
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, float, float], _Entry] = OrderedDict()
        self._latest: dict[tuple[str, float], _Entry] = {}
        self._threads = ThreadPoolExecutor(WORKERS, thread_name_prefix="prometheus")
        self._local = threading.local()
        self._answered_at: float | None = None
        self._error = ""
        self._refused_until = float("-inf")
        self._warnings: dict[str, float] = {}
        self._revision = 0

    @property
    def revision(self) -> int:
        """Grows with every answer: what was derived from the ones before may be out of date."""
        return self._revision

    def close(self) -> None:
        """Let the threads go; what is remembered stays readable."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def status(self) -> FetchStatus:
        """How the queries fare now."""
        now = self._clock()
        with self._lock:
            pending = sum(1 for entry in self._entries.values() if entry.pending is not None)
            recent = tuple(text for text, at in self._warnings.items() if now - at < WARNING_SECONDS)
            return FetchStatus(self._answered_at, self._error, pending, recent)

    def patiently(self, compute: Callable[[], Result], deadline: float) -> Result:
        """`compute()` with what can be had until `deadline` (`time.monotonic()`).

        It runs once to see what is missing, and again when that was answered or the time is up.
        """
        with self._gathering() as missing:
            result = compute()
        if not missing:
            return result
        wait(missing, timeout=max(0.0, deadline - time.monotonic()))
        with self._gathering():
            return compute()

    def at_once(self, compute: Callable[[], Result]) -> Result:
        """`compute()` with what is known now; what is missing is asked for in the background."""
        with self._gathering():
            return compute()

    @contextmanager
    def _gathering(self) -> Iterator[list[Future[None]]]:
        missing: list[Future[None]] = []
        before = getattr(self._local, "missing", None)
        self._local.missing = missing
        try:
            yield missing
        finally:
            self._local.missing = before

    def range(self, query: str, grid: Grid) -> Columns:
        """Values at the grid's times by label set, NaN where there is none (yet).

        Waits for the answer, except within `patiently`.
        """
        times = grid.times()
        if not len(times):
            return {}
        single = len(times) == 1
        key = (
            query,
            0.0 if single else grid.step_seconds,
            0.0 if single else round(times[0] % grid.step_seconds, 3),
        )
        future = self._asked(key, grid, times)
        if future is not None:
            missing: list[Future[None]] | None = getattr(self._local, "missing", None)
            if missing is None:
                wait([future])
            else:
                missing.append(future)
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return {}
            if single:
                return _newest(entry, times, grid)
            if not len(entry.times):
                # The same question about slightly other times was answered before.
                entry = self._latest.get(key[:2], entry)
            return _at(entry, times, grid.step_seconds)

    def _asked(self, key: tuple[str, float, float], grid: Grid, times: FloatArray) -> Future[None] | None:
        """The query under way for what is missing of the grid, started if need be."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            if entry.covers(times):
                return None
            if entry.pending is None:
                now = self._clock()
                if max(entry.failed_at + RETRY_SECONDS, self._refused_until) > now:
                    return None
                entry.pending = self._threads.submit(self._fetch, key, entry, _missing(entry, times, grid))
            return entry.pending

    def _fetch(self, key: tuple[str, float, float], entry: _Entry, grid: Grid) -> None:
        error: SourceError | None = None
        answer = PromAnswer(())
        try:
            if self._refused_until > self._clock():
                error = SourceError(self._error)
            else:
                answer = self._api.range(key[0], grid)
        except SourceError as found:
            error = found
        except Exception as found:  # noqa: BLE001 - a defect here must not leave readers waiting for ever
            _LOG.exception("reading an answer of Prometheus failed")
            error = SourceError(f"an answer of Prometheus could not be used ({type(found).__name__})")
        self._settle(key, entry, grid, answer, error)

    def _settle(
        self,
        key: tuple[str, float, float],
        entry: _Entry,
        grid: Grid,
        answer: PromAnswer,
        error: SourceError | None,
    ) -> None:
        columns = {} if error is not None else _columns(answer, grid)
        with self._lock:
            now = self._clock()
            entry.pending = None
            if error is not None:
                entry.failed_at = now
                if error.status in _OF_ONE_QUERY:
                    self._warnings[error.sentence] = now
                else:
                    # Not this query but Prometheus itself: the others would only wait for the same.
                    self._error, self._refused_until = error.sentence, now + RETRY_SECONDS
                return
            self._answered_at, self._error = now, ""
            for text in answer.warnings:
                self._warnings[text] = now
            _merge(entry, grid.times(), columns)
            self._latest[key[:2]] = entry
            self._revision += 1
            self._bound()

    def _bound(self) -> None:
        total = sum(entry.size for entry in self._entries.values())
        while len(self._entries) > 1 and (len(self._entries) > _MAX_ENTRIES or total > _MAX_VALUES):
            key, oldest = self._entries.popitem(last=False)
            total -= oldest.size
            if self._latest.get(key[:2]) is oldest:
                del self._latest[key[:2]]


def _missing(entry: _Entry, times: FloatArray, grid: Grid) -> Grid:
    """The whole grid, or its end where the entry has the rest."""
    if len(times) == 1 or not len(entry.times):
        return grid
    overlap = entry.times[-1] - (OVERLAP_STEPS - 1) * grid.step_seconds
    if entry.times[0] > times[0] + 1e-6:
        # Two readers of different times must not throw out each other's answer again and again.
        both = Grid(grid.start, max(grid.end, float(entry.times[-1])), grid.step_seconds)
        return both if len(both.times()) <= _MAX_POINTS_TOGETHER else grid
    if overlap <= times[0]:
        return grid
    return Grid(float(overlap), grid.end, grid.step_seconds)


def _columns(answer: PromAnswer, grid: Grid) -> Columns:
    times = grid.times()
    columns: Columns = {}
    for series in answer.series:
        places = np.rint((series.times - grid.start) / grid.step_seconds).astype(np.int64)
        inside = (places >= 0) & (places < len(times))
        column = np.full(len(times), np.nan)
        column[places[inside]] = series.values[inside]
        columns[tuple(sorted(series.labels.items()))] = column
    return columns


def _merge(entry: _Entry, times: FloatArray, columns: Columns) -> None:
    """The answer into the entry: behind what is kept, or in its place."""
    kept = entry.times[entry.times < times[0] - 1e-6]
    if len(kept) > _MAX_POINTS_TOGETHER:
        surplus = len(kept) - _MAX_POINTS_TOGETHER
        entry.times = entry.times[surplus:]
        entry.columns = {key: values[surplus:] for key, values in entry.columns.items()}
        kept = kept[surplus:]
    contiguous = len(times) > 1 and len(kept) and times[0] - kept[-1] < 1.5 * (times[1] - times[0])
    if not contiguous:
        entry.times, entry.columns = times, columns
        return
    merged: Columns = {}
    for key in dict.fromkeys((*entry.columns, *columns)):
        before, after = entry.columns.get(key), columns.get(key)
        merged[key] = np.concatenate((
            np.full(len(kept), np.nan) if before is None else before[: len(kept)],
            np.full(len(times), np.nan) if after is None else after,
        ))  # fmt: skip
    entry.times, entry.columns = np.concatenate((kept, times)), merged


def _at(entry: _Entry, times: FloatArray, step_seconds: float) -> Columns:
    """The entry's values at these times: each of the nearest point within half a step."""
    if not len(entry.times):
        return {}
    places = np.clip(
        np.rint((times - entry.times[0]) / step_seconds).astype(np.int64), 0, len(entry.times) - 1
    )
    found = np.abs(entry.times[places] - times) <= 0.5 * step_seconds + 1e-6
    columns: Columns = {}
    for key, values in entry.columns.items():
        columns[key] = np.where(found, values[places], np.nan)
    return columns


def _newest(entry: _Entry, times: FloatArray, grid: Grid) -> Columns:
    """One moment: the entry's own if it is of about that time, so that a figure does not blink."""
    if not len(entry.times) or abs(entry.times[0] - times[0]) > _POINT_REACH_STEPS * grid.step_seconds:
        return {}
    return {key: values.copy() for key, values in entry.columns.items()}
