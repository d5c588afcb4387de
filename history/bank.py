"""Storage for one source of one server: a column per reading, a row per series.

A series that a reading did not have is marked with a NaN of its own bit pattern, as Prometheus marks stale
series, so that a printed NaN ("no requests in the last window") and an absent series stay different
things in one float64 matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from history.extrapolation import BoolArray, IntArray
from history.protocol import By, GroupKey, Matchers
from telemetry.scrape import FloatArray, Samples, Series

ABSENT_BITS = np.int64(0x7FF8000000000002)
"""Bit pattern of "the reading did not have this series"; numpy's own NaN is 0x7FF8000000000000."""
_ABSENT = np.array([ABSENT_BITS]).view(np.float64)[0]

_COLUMN_STEP = 64
_ROW_STEP = 64
_ROWS_AT_ONCE = 1024


BEGIN_AT_ZERO = dict.fromkeys(
    (
        "tritonscope_batch_executions_total",
        "tritonscope_batch_compute_us_total",
        "tritonscope_batch_compute_infer_us_total",
    ),
    "tritonscope_model_executions_total",
)
"""Counters that appear only with their first event -> the counter of their model that is always there."""


def is_present(values: FloatArray) -> BoolArray:
    """True where a reading had the series, whatever it printed."""
    present: BoolArray = np.ascontiguousarray(values).view(np.int64) != ABSENT_BITS
    return present


class Group:
    """Rows of some families, sorted so that each group of equal label values is one slice."""

    __slots__ = ("keys", "rows", "starts")

    def __init__(self, members: dict[GroupKey, list[int]]) -> None:
        self.keys: tuple[GroupKey, ...] = tuple(members)
        self.rows: IntArray = np.fromiter((row for rows in members.values() for row in rows), dtype=np.int64)
        sizes = np.fromiter((len(rows) for rows in members.values()), dtype=np.int64, count=len(members))
        self.starts: IntArray = np.concatenate(([0], np.cumsum(sizes)[:-1])) if len(sizes) else sizes

    @property
    def single(self) -> bool:
        """True if every group is one series."""
        return len(self.rows) == len(self.keys)


class _Layout(NamedTuple):
    """Where the values of one answer go; the next answer usually has the same series."""

    series: Sequence[Series]
    rows: IntArray
    first: IntArray | None
    """Which values to take when series appear twice, None if none does."""


@dataclass(frozen=True, slots=True)
class BankState:
    """All that a bank holds: n series, m readings, times in unix milliseconds.

    `values` has shape (n, m), with `ABSENT_BITS` where a reading did not have the series; `times_ms` and
    `answered` have shape (m,); `run_start_ms` and `last_seen_ms` shape (n,).
    """

    series: tuple[Series, ...]
    times_ms: IntArray
    answered: BoolArray
    values: FloatArray
    run_start_ms: IntArray
    last_seen_ms: IntArray
    first_answer_ms: int | None
    last_answer_ms: int | None


_NO_LAYOUT = _Layout((), np.empty(0, dtype=np.int64), None)


class Bank:
    """Not thread-safe; the ring locks. All times are unix milliseconds."""

    def __init__(self, server: str, is_counter: Callable[[str], bool]) -> None:
        self.server = server
        self._is_counter = is_counter
        self._series: list[Series] = []
        self._row_of: dict[Series, int] = {}
        self._labels: list[dict[str, str]] = []
        self._families: dict[str, list[int]] = {}
        self._counter_rows: BoolArray = np.zeros(0, dtype=np.bool_)
        self._parents: IntArray = np.zeros(0, dtype=np.int64)
        self._groups: dict[tuple[tuple[str, ...], By, Matchers], Group] = {}
        self._matrix: FloatArray = np.empty((0, 0))
        self._times: IntArray = np.empty(0, dtype=np.int64)
        self._answered: BoolArray = np.empty(0, dtype=np.bool_)
        self._columns = 0
        self._layout = _NO_LAYOUT
        self.run_start_ms: IntArray = np.empty(0, dtype=np.int64)
        self.last_seen_ms: IntArray = np.empty(0, dtype=np.int64)
        self.first_answer_ms: int | None = None
        self.last_answer_ms: int | None = None

    @property
    def times_ms(self) -> IntArray:
        """Shape (columns,): times of all attempts, failed ones included."""
        return self._times[: self._columns]

    @property
    def newest_ms(self) -> int | None:
        """Time of the last attempt, None before the first."""
        return int(self._times[self._columns - 1]) if self._columns else None

    @property
    def series(self) -> Sequence[Series]:
        """All series held, by row."""
        return self._series

    @property
    def family_names(self) -> frozenset[str]:
        """Names of all families held."""
        return frozenset(self._families)

    @property
    def nbytes(self) -> int:
        """Memory of the matrix, bytes."""
        return self._matrix.nbytes

    def family(self, name: str) -> Sequence[int]:
        """Rows of one family."""
        return self._families.get(name, ())

    def append(self, at_ms: int, samples: Samples | None) -> list[str]:
        """Take one reading, None for a failed one; returns sentences about values that were left out."""
        left_out: list[str] = []
        if samples is not None:
            rows, values, left_out = self._checked(samples)
        if self.full():
            self._grow_columns()
        column = self._columns
        self._times[column] = at_ms
        self._answered[column] = samples is not None
        if samples is not None:
            self._matrix[rows, column] = values
            fresh = self._sighted(at_ms, rows)
            if column and self._answered[column - 1]:
                self._begin_at_zero(fresh, column - 1)
        self._columns += 1
        return left_out

    def _checked(self, samples: Samples) -> tuple[IntArray, FloatArray, list[str]]:
        layout = self._layout_of(samples.series)
        values = samples.values
        left_out: list[str] = []
        if layout.first is not None:
            values = values[layout.first]
            twice = len(samples.values) - len(values)
            left_out.append(f"{twice} series appear twice in one answer: the first one was kept")
        # Whatever NaN a source built, it is stored as a printed one: only absence has its own bits.
        values = np.where(np.isnan(values), np.nan, values)
        # Negated, so that a NaN counts as odd too.
        odd = self._counter_rows[layout.rows] & ~((values >= 0) & (values < np.inf))
        if not odd.any():
            return layout.rows, values, left_out
        left_out += [
            f"{_name(self._series[row])} is a counter but reads {_printed(value)}: left out"
            for row, value in zip(layout.rows[odd], values[odd], strict=True)
        ]
        # The series is there, only its value is not: a NaN, not an absence.
        return layout.rows, np.where(odd, np.nan, values), left_out

    def _layout_of(self, series: Sequence[Series]) -> _Layout:
        known = self._layout.series
        if known is series or (len(known) == len(series) and known == series):
            return self._layout
        row_of, before = self._row_of, len(self._series)
        rows = np.fromiter((self._row(one, row_of) for one in series), dtype=np.int64, count=len(series))
        if len(self._series) > before:
            self._grow_rows(before)
        distinct, first = np.unique(rows, return_index=True)
        twice = len(distinct) < len(rows)
        self._layout = _Layout(series, distinct if twice else rows, first if twice else None)
        return self._layout

    def _row(self, series: Series, row_of: dict[Series, int]) -> int:
        row = row_of.get(series)
        if row is None:
            row = row_of[series] = len(self._series)
            self._add(series)
        return row

    def _add(self, series: Series) -> None:
        self._families.setdefault(series.name, []).append(len(self._series))
        self._series.append(series)
        self._labels.append(dict(series.labels))

    def _grow_rows(self, before: int) -> None:
        count = len(self._series)
        new = count - before
        added = self._series[before:]
        self._counter_rows = np.append(self._counter_rows, [self._is_counter(one.name) for one in added])
        self._parents = np.append(self._parents, [self._parent(one) for one in added])
        self.run_start_ms = np.append(self.run_start_ms, np.full(new, -1, dtype=np.int64))
        self.last_seen_ms = np.append(self.last_seen_ms, np.full(new, -1, dtype=np.int64))
        if count > len(self._matrix):
            room = count + count // 8 + _ROW_STEP
            self._resize(room, self._matrix.shape[1])
        self._groups.clear()

    def _parent(self, series: Series) -> int:
        """Row of the counter that tells whether this one was at zero before it appeared, -1 if none does."""
        parent = BEGIN_AT_ZERO.get(series.name)
        if parent is None:
            return -1
        labels = tuple(pair for pair in series.labels if pair[0] in ("model", "version"))
        return self._row_of.get(Series(parent, labels), -1)

    def _grow_columns(self) -> None:
        self._resize(len(self._matrix), self._columns + _COLUMN_STEP)
        room = self._matrix.shape[1] - len(self._times)
        self._times = np.append(self._times, np.zeros(room, dtype=np.int64))
        self._answered = np.append(self._answered, np.zeros(room, dtype=np.bool_))

    def _resize(self, rows: int, columns: int) -> None:
        matrix = np.full((rows, columns), _ABSENT)
        old = self._matrix
        matrix[: min(rows, len(old)), : old.shape[1]] = old[:rows]
        self._matrix = matrix

    def _sighted(self, at_ms: int, rows: IntArray) -> IntArray:
        """A series' run begins anew when the answer before did not have it; failed attempts do not count.

        Returns the rows whose run begins now.
        """
        previous = self.last_answer_ms
        fresh = rows if previous is None else rows[self.last_seen_ms[rows] != previous]
        self.run_start_ms[fresh] = at_ms
        self.last_seen_ms[rows] = at_ms
        if self.first_answer_ms is None:
            self.first_answer_ms = at_ms
        self.last_answer_ms = at_ms
        return fresh

    def _begin_at_zero(self, fresh: IntArray, before: int) -> None:
        """A batch size appears with its first execution: where its model was counted before, it was zero."""
        for row in fresh[self._parents[fresh] >= 0].tolist():
            parent = self._parents[row]
            if is_present(self._matrix[parent : parent + 1, before])[0]:
                self._matrix[row, before] = 0.0

    def full(self) -> bool:
        """True if the next reading needs more memory: the moment to thin out."""
        return self._columns >= len(self._times)

    def thin_out(self, full_rate_ms: int, step_ms: int, retention_ms: int) -> None:
        """Keep all of the last `full_rate_ms`, then one reading per `step_ms`, up to `retention_ms`."""
        keep = self._kept(full_rate_ms, step_ms, retention_ms)
        before, count = self._columns, len(self._series)
        alive = self._move(keep, count)
        self._times[: len(keep)] = self.times_ms[keep]
        self._answered[: len(keep)] = self._answered[:before][keep]
        self._columns = len(keep)
        if not alive.all():
            self._forget(alive)
        self._matrix[: len(self._series), len(keep) : before] = _ABSENT
        self._matrix[len(self._series) : count] = _ABSENT
        if len(keep) + _COLUMN_STEP > self._matrix.shape[1]:
            self._grow_columns()

    def _move(self, keep: IntArray, count: int) -> BoolArray:
        """Close the gaps of dropped columns and dead rows in place; which rows live, shape (count,)."""
        alive = np.zeros(count, dtype=np.bool_)
        target = 0
        for begin in range(0, count, _ROWS_AT_ONCE):
            block = self._matrix[begin : min(begin + _ROWS_AT_ONCE, count)][:, keep]
            living = is_present(block).any(axis=1)
            alive[begin : begin + len(block)] = living
            size = int(living.sum())
            self._matrix[target : target + size, : len(keep)] = block[living]
            target += size
        return alive

    def _kept(self, full_rate_ms: int, step_ms: int, retention_ms: int) -> IntArray:
        """Columns to keep: the last answered one of each step (the last failed one if none answered)."""
        times, answered = self.times_ms, self._answered[: self._columns]
        newest = int(times[-1])
        old = times < newest - full_rate_ms
        # A bucket's key sorts failed attempts before answers, so the last of equal buckets is an answer.
        order = np.lexsort((times, answered, times // step_ms))
        buckets = (times // step_ms)[order]
        last_of_bucket = np.append(buckets[1:] != buckets[:-1], True)
        chosen = np.zeros(len(times), dtype=np.bool_)
        chosen[order[last_of_bucket]] = True
        return np.flatnonzero((~old | chosen) & (times >= newest - retention_ms))

    def _forget(self, alive: BoolArray) -> None:
        series = [one for one, lives in zip(self._series, alive, strict=True) if lives]
        self._series, self._labels, self._families = [], [], {}
        for one in series:
            self._add(one)
        self._row_of = {one: row for row, one in enumerate(series)}
        self._counter_rows = self._counter_rows[alive]
        self._parents = np.fromiter(map(self._parent, series), dtype=np.int64, count=len(series))
        self.run_start_ms, self.last_seen_ms = self.run_start_ms[alive], self.last_seen_ms[alive]
        self._layout = _NO_LAYOUT
        self._groups.clear()

    def state(self, since_ms: int) -> BankState:
        """A copy of what was read since then; series that were not there since are left out."""
        first = int(np.searchsorted(self.times_ms, since_ms, side="left"))
        values = self._matrix[: len(self._series), first : self._columns]
        rows = np.flatnonzero(is_present(values).any(axis=1)) if values.size else np.empty(0, dtype=np.int64)
        return BankState(
            tuple(self._series[row] for row in rows.tolist()),
            self.times_ms[first:].copy(),
            self._answered[first : self._columns].copy(),
            values[rows],
            self.run_start_ms[rows],
            self.last_seen_ms[rows],
            self.first_answer_ms,
            self.last_answer_ms,
        )

    def restore(self, state: BankState) -> None:
        """Hold what `state` holds; only for a bank that has read nothing."""
        self._row_of = {one: row for row, one in enumerate(state.series)}
        for one in state.series:
            self._add(one)
        self._counter_rows = np.array([self._is_counter(one.name) for one in state.series], dtype=np.bool_)
        self._parents = np.fromiter(map(self._parent, state.series), dtype=np.int64, count=len(state.series))
        self._matrix, self._times, self._answered = state.values, state.times_ms, state.answered
        self._columns = len(state.times_ms)
        self.run_start_ms, self.last_seen_ms = state.run_start_ms, state.last_seen_ms
        self.first_answer_ms, self.last_answer_ms = state.first_answer_ms, state.last_answer_ms

    def group(self, families: tuple[str, ...], by: By, where: Matchers) -> Group:
        """The families' rows that match, grouped; remembered until a series comes or goes."""
        key = (families, by, where)
        group = self._groups.get(key)
        if group is None:
            rows = [row for family in families for row in self.family(family)]
            group = self._groups[key] = Group(self._members(rows, by, where))
        return group

    def _members(self, rows: Iterable[int], by: By, where: Matchers) -> dict[GroupKey, list[int]]:
        members: dict[GroupKey, list[int]] = {}
        server = self.server
        for row in rows:
            labels = self._labels[row]
            if all((server if name == "server" else labels.get(name, "")) == want for name, want in where):
                key = tuple([server if name == "server" else labels.get(name, "") for name in by])
                members.setdefault(key, []).append(row)
        return members

    def block(self, rows: IntArray, low: int, high: int) -> FloatArray:
        """Shape (len(rows), high - low): values of some rows in some columns, a copy."""
        block: FloatArray = self._matrix[rows, low:high]
        return block

    def columns(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Shape (len(rows), len(columns)): values of some rows at chosen columns, a copy."""
        block: FloatArray = self._matrix[np.ix_(rows, columns)]
        return block


def _printed(value: float) -> str:
    return f"{value:g}" if np.isfinite(value) else {np.inf: "+Inf", -np.inf: "-Inf"}.get(value, "NaN")


def _name(series: Series) -> str:
    labels = ", ".join(f'{key}="{value}"' for key, value in series.labels)
    return f"{series.name}{{{labels}}}"
