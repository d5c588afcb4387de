"""Keeps what every load and unload did to memory, beyond the life of the process: `MemoryLedger`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from history.events import Event, EventKind, EventLog
from history.kept_file import Keeper, KeptFile, Key
from history.memory_changes import LoadMark, MemoryChange, memory_change
from history.ring import Ring
from telemetry.actions import ActionKind, Outcome, Record
from telemetry.memory import ServerProcesses
from telemetry.scrape import Scrape, Source

MAX_CHANGES = 500
SETTLE_INTERVALS = 3.0
"""Intervals between the end of a load and the reading that counts: gauges lag by one, allocators settle."""
_SAME_SECONDS = 15.0
"""An event of the index this near to one of our own actions is that action."""
_CLOCK_SECONDS = 0.005
"""The journal keeps times to the millisecond: an action read from it again ended a little earlier."""
_PATIENCE_SECONDS = 120.0
"""After this a mark is settled with what there is."""
_KINDS = {EventKind.LOAD: "load", EventKind.RELOAD: "reload", EventKind.UNLOAD: "unload"}


class MemoryLedger:
    """A `Sink` behind the ring and the events. Any thread may ask; the newest 500 changes are kept.

    `records` gives what was done through us; `interval_seconds` the time between two readings
    of a server; `keeper` what is kept on disk, None = in memory alone.
    """

    def __init__(
        self,
        ring: Ring,
        events: EventLog,
        records: Callable[[], Sequence[Record]],
        interval_seconds: Callable[[str], float],
        keeper: Keeper[MemoryChange] | None = None,
    ) -> None:
        self._keeper = keeper
        self._ring, self._events = ring, events
        self._records, self._interval_seconds = records, interval_seconds
        self._lock = threading.Lock()
        self._changes: deque[MemoryChange] = deque(maxlen=MAX_CHANGES)
        self._marked: dict[str, tuple[object, tuple[LoadMark, ...]]] = {}
        self._done: dict[str, set[LoadMark]] = {}
        self._first_at: dict[str, float] = {}

    def changes(self, server: str | None = None, model: str | None = None) -> tuple[MemoryChange, ...]:
        """What loads and unloads did, oldest first."""
        self._learn()
        with self._lock:
            held = list(self._changes)
        return tuple(
            one for one in held if server in (None, one.mark.server) and model in (None, one.mark.model)
        )

    def restore(self, changes: Sequence[MemoryChange]) -> None:
        """Know these changes; only for a ledger that has seen none."""
        with self._lock:
            self._changes.extend(changes)

    def accept(self, scrape: Scrape) -> None:
        """Settle what has ended long enough ago for this reading to show it."""
        if not scrape.ok or scrape.source not in (Source.METRICS, Source.PROCESSES):
            return
        self._learn()
        server, now = scrape.server, scrape.at
        marks = self._marks(server)
        with self._lock:
            first = self._first_at.setdefault(server, now)
            done = self._done.setdefault(server, set())
            # Only what is still in the journal or the events can come up again.
            done.intersection_update(marks)
            for mark in marks:
                if mark in done or not self._ripe(mark, now):
                    continue
                done.add(mark)
                if mark.ended + _PATIENCE_SECONDS < first or _known(mark, self._changes):
                    # Long before the first reading of this process: what is held now says nothing of it.
                    continue
                interval = self._interval_seconds(server)
                change = memory_change(self._ring, mark, marks, interval, now)
                self._changes.append(change)
                if self._keeper is not None:
                    self._keeper.put(change)

    def _learn(self) -> None:
        """Take in what is on disk: at the start, and what another process writes while it holds the file."""
        news = self._keeper.news() if self._keeper is not None else None
        if news is None or self._keeper is None:
            return
        with self._lock:
            own = [one for one in self._changes if not _known(one.mark, news.rows)]
            merged = sorted((*news.rows, *own), key=lambda one: one.mark.ended)
            self._changes = deque(merged, maxlen=MAX_CHANGES)
        for change in own if news.taken else ():
            self._keeper.put(change)

    def _marks(self, server: str) -> tuple[LoadMark, ...]:
        """All marks of the server, put together anew only when something happened."""
        records = [one for one in self._records() if one.action.server == server]
        state = (self._events.revision, tuple((one.id, one.outcome) for one in records))
        known = self._marked.get(server)
        if known is not None and known[0] == state:
            return known[1]
        marks = load_marks(records, self._events.events(server=server), self._interval_seconds(server))
        self._marked[server] = (state, marks)
        return marks

    def _ripe(self, mark: LoadMark, now: float) -> bool:
        if now < mark.ended + SETTLE_INTERVALS * self._interval_seconds(mark.server):
            return False
        scrape = self._ring.last(mark.server, Source.PROCESSES)
        payload = scrape.payload if scrape is not None else None
        visible = isinstance(payload, ServerProcesses) and payload.pid is not None
        if scrape is None or not visible or now > mark.ended + _PATIENCE_SECONDS:
            return True
        return scrape.at > mark.ended


def kept_changes(journal: Path) -> KeptFile[MemoryChange]:
    """The file of a ledger, beside the journal; not opened."""
    what = "what loads and unloads did to memory"
    return KeptFile(
        journal.with_name(f"{journal.stem}-memory.jsonl"),
        MemoryChange,
        _identity,
        most=MAX_CHANGES,
        what=what,
    )


def _identity(change: MemoryChange) -> Key:
    """Server, model, direction, and when it ended (unix ms)."""
    mark = change.mark
    return mark.server, mark.model, mark.unload, round(mark.ended * 1e3)


def load_marks(
    records: Sequence[Record], events: Sequence[Event], interval_seconds: float
) -> tuple[LoadMark, ...]:
    """Loads and unloads of one server, by their begin: those done through us, and those only seen."""
    ours = [record for record in records if record.action.kind.changes_repository and record.sent]
    marks = [_of_record(record) for record in ours if record.outcome is Outcome.DONE]
    for event in events:
        if event.kind not in _KINDS or event.model is None:
            continue
        model = event.model.name
        if any(_covers(record, event) for record in ours):
            continue
        # The index is read at every second interval: it happened after the reading before.
        mark = LoadMark(
            event.at - 2 * interval_seconds, event.at, event.server, model, _KINDS[event.kind], False
        )
        if not any(_same(mark, known) for known in marks):
            marks.append(mark)
    return tuple(sorted(marks))


def _of_record(record: Record) -> LoadMark:
    action = record.action
    what = "unload" if action.kind is ActionKind.UNLOAD else action.kind.value
    return LoadMark(
        record.started_at, record.ended_at or record.started_at, action.server, action.model, what, True
    )


def _covers(record: Record, event: Event) -> bool:
    if event.model is None or record.action.model != event.model.name:
        return False
    end = record.ended_at if record.ended_at is not None else float("inf")
    return record.started_at - _SAME_SECONDS <= event.at <= end + _SAME_SECONDS


def _known(mark: LoadMark, changes: Iterable[MemoryChange]) -> bool:
    return any(_same(mark, one.mark) for one in changes)


def _same(one: LoadMark, other: LoadMark) -> bool:
    """Several versions of a model, or a load that two sources show, are one mark."""
    return (one.server, one.model, one.unload) == (other.server, other.model, other.unload) and (
        abs(one.ended - other.ended) < (_SAME_SECONDS if not (one.ours and other.ours) else _CLOCK_SECONDS)
    )
