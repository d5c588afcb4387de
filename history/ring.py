"""The history in this process: numbers of the last hour, filled by collectors, read by every page."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from history.bank import Bank, BankState, Group, is_present
from history.extrapolation import BoolArray, IntArray, increases
from history.protocol import By, Frame, Grid, GroupKey, Matchers, Reduce, Vector
from telemetry.catalogue import CATALOGUE, Kind
from telemetry.scrape import FloatArray, Notice, Scrape, Series, Source

LOOKBACK_SECONDS = 300.0
"""How long a gauge's last value counts when nothing newer was read; Prometheus' default."""
FULL_RATE_SECONDS = 600.0
STEP_SECONDS = 10.0
RETENTION_SECONDS = 3600.0
MAX_NOTICES = 200

_COUNTERS = frozenset(name for name, row in CATALOGUE.items() if row.kind is Kind.COUNTER)


@dataclass(frozen=True, slots=True)
class Sighting:
    """When one group of series was there, unix seconds, as far as this history remembers.

    `since` is the start of the present run, None if it began before the first answer; `last` the last
    answer that had it; `present` whether the newest answer has it.
    """

    since: float | None
    last: float
    present: bool


@dataclass(frozen=True, slots=True)
class RingState:
    """All that a ring holds of some servers; notices with their server and unix time."""

    banks: tuple[tuple[str, Source, BankState], ...]
    latest: tuple[Scrape, ...]
    last: tuple[Scrape, ...]
    notices: tuple[tuple[str, float, Notice], ...]


class Ring:
    """Bounded float64 history of every source of every server; a `Sink` and a `History`, thread-safe.

    Readings of the last 10 minutes are kept as they came, older ones one per 10 s, up to the retention.
    A failed reading ends every series until the next answer, as in Prometheus: a gauge has no value then
    and a chart a gap. A series missing from an answer is absent; a printed NaN is a NaN.
    """

    def __init__(
        self,
        *,
        retention_seconds: float = RETENTION_SECONDS,
        full_rate_seconds: float = FULL_RATE_SECONDS,
        step_seconds: float = STEP_SECONDS,
        lookback_seconds: float = LOOKBACK_SECONDS,
    ) -> None:
        self.retention_seconds = retention_seconds
        self._thinning_ms = (_ms(full_rate_seconds), _ms(step_seconds), _ms(retention_seconds))
        self._lookback_ms = _ms(lookback_seconds)
        self._lock = threading.RLock()
        self._banks: dict[tuple[str, Source], Bank] = {}
        self._latest: dict[tuple[str, Source], Scrape] = {}
        self._last: dict[tuple[str, Source], Scrape] = {}
        self._notices: deque[tuple[str, float, Notice]] = deque(maxlen=MAX_NOTICES)
        self._revision = 0

    # ---- filling

    def accept(self, scrape: Scrape) -> None:
        """Take one scrape. One that is not newer than the last of its source is dropped with a notice."""
        key = (scrape.server, scrape.source)
        with self._lock:
            bank = self._banks.get(key)
            if bank is None:
                bank = self._banks[key] = Bank(scrape.server, _COUNTERS.__contains__)
            at_ms, newest = _ms(scrape.at), bank.newest_ms
            if newest is not None and at_ms <= newest:
                behind = (newest - at_ms) / 1e3
                self._note(scrape, f"a reading {behind:g} s older than the one before was dropped")
                return
            if newest is not None and bank.full():
                bank.thin_out(*self._thinning_ms)
            for text in bank.append(at_ms, scrape.samples if scrape.ok else None):
                self._note(scrape, text)
            self._latest[key] = scrape
            if scrape.ok:
                self._last[key] = scrape
            self._revision += 1

    def _note(self, scrape: Scrape, text: str) -> None:
        self._notices.append((scrape.server, scrape.at, Notice(str(scrape.source), None, text)))

    def end(self, server: str, at: float) -> None:
        """Nobody asks this server any more from `at` (unix seconds): its series end, what was read stays."""
        with self._lock:
            for bank in (bank for key, bank in self._banks.items() if key[0] == server):
                if bank.newest_ms is None or bank.newest_ms < _ms(at):
                    bank.append(_ms(at), None)
            self._revision += 1

    def forget(self, server: str) -> None:
        """Drop everything of one server that is no longer configured."""
        with self._lock:
            for key in [key for key in self._banks if key[0] == server]:
                del self._banks[key], self._latest[key]
                self._last.pop(key, None)
            self._revision += 1

    # ---- as a whole

    def state(self, servers: Collection[str], since: float) -> RingState:
        """What is held of these servers since `since` (unix seconds); last answers whenever they came."""
        with self._lock:
            return RingState(
                tuple(
                    (*key, bank.state(_ms(since))) for key, bank in self._banks.items() if key[0] in servers
                ),
                tuple(one for one in self._latest.values() if one.server in servers),
                tuple(one for one in self._last.values() if one.server in servers),
                tuple(one for one in self._notices if one[0] in servers and one[1] >= since),
            )

    def restore(self, state: RingState) -> None:
        """Hold what `state` holds; only for a ring that has taken nothing."""
        with self._lock:
            for server, source, one in state.banks:
                bank = self._banks[server, source] = Bank(server, _COUNTERS.__contains__)
                bank.restore(one)
            self._latest = {(one.server, one.source): one for one in state.latest}
            self._last = {(one.server, one.source): one for one in state.last}
            self._notices.extend(state.notices)
            self._revision += 1

    # ---- what came last

    @property
    def revision(self) -> int:
        """Grows with every scrape taken: a cached computation is good while it stays."""
        return self._revision

    def last(self, server: str, source: Source) -> Scrape | None:
        """The newest successful scrape of one source."""
        return self._last.get((server, source))

    def latest(self, server: str, source: Source) -> Scrape | None:
        """The newest attempt at one source, maybe failed."""
        return self._latest.get((server, source))

    def servers(self) -> tuple[str, ...]:
        """Ids of all servers that were ever asked, sorted."""
        with self._lock:
            return tuple(sorted({server for server, _ in self._banks}))

    def notices(self, server: str | None = None, *, since: float | None = None) -> tuple[Notice, ...]:
        """What was left out on the way in, oldest first, the last 200; each text once."""
        with self._lock:
            held = [
                notice
                for owner, at, notice in self._notices
                if server in (None, owner) and (since is None or at >= since)
            ]
        return tuple(dict.fromkeys(held))

    def span(self) -> tuple[float, float] | None:
        """Times of the oldest and the newest reading, unix seconds; None while empty."""
        with self._lock:
            times = [bank.times_ms for bank in self._banks.values() if len(bank.times_ms)]
            if not times:
                return None
            return min(int(one[0]) for one in times) / 1e3, max(int(one[-1]) for one in times) / 1e3

    def newest(self, source: Source) -> float | None:
        """Time of the newest successful scrape of a source over all servers, unix seconds."""
        with self._lock:
            times = [scrape.at for (_, kind), scrape in self._last.items() if kind is source]
        return max(times, default=None)

    def sample_times(self, server: str, source: Source, start: float, end: float) -> FloatArray:
        """Times of the readings in [start, end], shape (n,), unix seconds, failed ones included."""
        with self._lock:
            bank = self._banks.get((server, source))
            if bank is None:
                return np.empty(0)
            times = bank.times_ms / 1e3
        return times[(times >= start) & (times <= end)]

    def nbytes(self) -> int:
        """Memory of the matrices, bytes."""
        with self._lock:
            return sum(bank.nbytes for bank in self._banks.values())

    # ---- History

    def increase(
        self,
        family: str,
        by: By,
        window_seconds: float,
        at: float,
        *,
        where: Matchers = (),
        plain: bool = False,
    ) -> Vector:
        """Increase over [at - window, at] by group; see `history.protocol.History`."""
        grid = Grid(at, at, 1.0)
        return _vector(self._increase(family, by, window_seconds, grid, where, plain))

    def increase_range(
        self, family: str, by: By, window_seconds: float, grid: Grid, *, where: Matchers = ()
    ) -> Frame:
        """`increase` at every time of the grid."""
        return self._increase(family, by, window_seconds, grid, where, False)

    def gauge(
        self, family: str, by: By, at: float, *, where: Matchers = (), reduce: Reduce = Reduce.SUM
    ) -> Vector:
        """Value of the newest reading at `at`, by group. NaN where the server printed NaN."""
        times = np.array([at])

        def values(bank: Bank, group: Group) -> tuple[FloatArray, BoolArray]:
            return self._gauge_values(bank, group, times, reduce)

        vector: Vector = {}
        for keys, block, there in self._each(family, by, where, values):
            for key, value, seen in zip(keys, block[:, 0].tolist(), there[:, 0].tolist(), strict=True):
                if seen:
                    known = vector.get(key)
                    vector[key] = value if known is None else _joined(known, value, reduce)
        return vector

    def gauge_range(
        self, family: str, by: By, grid: Grid, *, where: Matchers = (), reduce: Reduce = Reduce.SUM
    ) -> Frame:
        """`gauge` at every time of the grid; NaN also where the server printed NaN."""
        times = grid.times()

        def values(bank: Bank, group: Group) -> tuple[FloatArray, BoolArray]:
            return self._gauge_values(bank, group, times, reduce)

        parts = [(keys, block) for keys, block, _ in self._each(family, by, where, values)]
        return _frame(times, parts, reduce)

    def labels(self, family: str) -> Sequence[tuple[str, Series]]:
        """(server, series) of every series of the family that is held."""
        with self._lock:
            return [
                (bank.server, bank.series[row])
                for bank in self._banks.values()
                for row in bank.family(family)
            ]

    def families(self, server: str, source: Source) -> frozenset[str]:
        """Names of all families held for one source of one server."""
        with self._lock:
            bank = self._banks.get((server, source))
            return frozenset() if bank is None else bank.family_names

    def sightings(
        self, server: str, source: Source, families: Sequence[str], by: By, *, where: Matchers = ()
    ) -> dict[GroupKey, Sighting]:
        """When each group of series of these families was there, whatever the values."""
        with self._lock:
            bank = self._banks.get((server, source))
            return {} if bank is None else dict(_sightings(bank, bank.group(tuple(families), by, where)))

    # ---- inside

    def _increase(
        self, family: str, by: By, window_seconds: float, grid: Grid, where: Matchers, plain: bool
    ) -> Frame:
        times = grid.times()
        ends = _all_ms(times)
        starts = ends - _ms(window_seconds)

        def values(bank: Bank, group: Group) -> tuple[FloatArray, BoolArray]:
            if not len(ends):
                return np.empty((len(group.keys), 0)), np.empty((len(group.keys), 0), dtype=np.bool_)
            low = int(np.searchsorted(bank.times_ms, starts[0], side="left"))
            high = int(np.searchsorted(bank.times_ms, ends[-1], side="right"))
            block = bank.block(group.rows, low, high)
            grown = increases(block, is_present(block), bank.times_ms[low:high], starts, ends, plain=plain)
            return _reduced(grown, ~np.isnan(grown), group, Reduce.SUM)

        parts = [(keys, block) for keys, block, _ in self._each(family, by, where, values)]
        return _frame(times, parts, Reduce.SUM)

    def _each(
        self,
        family: str,
        by: By,
        where: Matchers,
        values: Callable[[Bank, Group], tuple[FloatArray, BoolArray]],
    ) -> Iterator[tuple[tuple[GroupKey, ...], FloatArray, BoolArray]]:
        """Keys, values and presence, shapes (groups, times), of every bank that holds the family."""
        wanted = next((value for name, value in where if name == "server"), None)
        with self._lock:
            for bank in list(self._banks.values()):
                if not bank.family(family) or wanted not in (None, bank.server):
                    continue
                group = bank.group((family,), by, where)
                if group.keys:
                    block, there = values(bank, group)
                    yield group.keys, block, there

    def _gauge_values(
        self, bank: Bank, group: Group, times: FloatArray, reduce: Reduce
    ) -> tuple[FloatArray, BoolArray]:
        ends = _all_ms(times)
        column = np.searchsorted(bank.times_ms, ends, side="right") - 1
        fresh = (column >= 0) & (bank.times_ms[np.maximum(column, 0)] > ends - self._lookback_ms)
        block = bank.columns(group.rows, np.maximum(column, 0))
        return _reduced(block, is_present(block) & fresh, group, reduce)


def _ms(seconds: float) -> int:
    return round(seconds * 1e3)


def _all_ms(seconds: FloatArray) -> IntArray:
    return np.rint(seconds * 1e3).astype(np.int64)


def _reduced(
    values: FloatArray, present: BoolArray, group: Group, reduce: Reduce
) -> tuple[FloatArray, BoolArray]:
    """Groups of rows made one row each; a group has a value where one of its series has."""
    if group.single:
        return np.where(present, values, np.nan), present
    if reduce is Reduce.SUM:
        joined = np.add.reduceat(np.where(present, values, 0.0), group.starts, axis=0)
    else:
        # As in Prometheus, a printed NaN loses against any number.
        joined = np.fmax.reduceat(np.where(present, values, np.nan), group.starts, axis=0)
    there = np.logical_or.reduceat(present, group.starts, axis=0)
    return np.where(there, joined, np.nan), there


def _frame(times: FloatArray, parts: list[tuple[tuple[GroupKey, ...], FloatArray]], reduce: Reduce) -> Frame:
    """One frame of the groups of several banks; equal groups are joined."""
    if not parts:
        return Frame(times, (), np.empty((len(times), 0)))
    if len(parts) == 1:
        return Frame(times, parts[0][0], parts[0][1].T)
    columns: dict[GroupKey, FloatArray] = {}
    for keys, block in parts:
        for key, row in zip(keys, block, strict=True):
            known = columns.get(key)
            columns[key] = row if known is None else _joined_rows(known, row, reduce)
    return Frame(times, tuple(columns), np.stack(list(columns.values()), axis=1))


def _joined_rows(one: FloatArray, other: FloatArray, reduce: Reduce) -> FloatArray:
    if reduce is Reduce.MAX:
        return np.fmax(one, other)
    return np.where(np.isnan(one), other, np.where(np.isnan(other), one, one + other))


def _joined(one: float, other: float, reduce: Reduce) -> float:
    return one + other if reduce is Reduce.SUM else float(np.fmax(one, other))


def _vector(frame: Frame) -> Vector:
    if not frame.keys:
        return {}
    values = frame.values[0].tolist()
    return {key: value for key, value in zip(frame.keys, values, strict=True) if value == value}


def _sightings(bank: Bank, group: Group) -> Iterator[tuple[GroupKey, Sighting]]:
    if not group.keys or bank.last_answer_ms is None:
        return
    last = np.maximum.reduceat(bank.last_seen_ms[group.rows], group.starts)
    # The run of a group is that of its longest-lived present series; those that went do not count.
    there = bank.last_seen_ms[group.rows] == bank.last_answer_ms
    starts = np.where(there, bank.run_start_ms[group.rows], np.iinfo(np.int64).max)
    since = np.minimum.reduceat(starts, group.starts)
    for key, since_ms, last_ms in zip(group.keys, since.tolist(), last.tolist(), strict=True):
        present = last_ms == bank.last_answer_ms
        known = present and since_ms != bank.first_answer_ms
        yield key, Sighting(since_ms / 1e3 if known else None, last_ms / 1e3, present)
