"""The record of every action: in memory, bounded, newest first; and on disk before anything is sent.

    begin       the record exists; a second click sees it
    write_down  it is on the disk: from here on something may be sent
    end         its outcome is on the disk

A process that is killed in between leaves a begin without an end. The next one that takes the journal over
completes it with the outcome "unknown"; nothing is sent again.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from control.journal_file import JournalFile
from control.journal_lines import (
    BEGIN,
    END,
    INTEND,
    SETTLED,
    Line,
    begin_line,
    denied_line,
    encoded,
    end_line,
    intend_line,
    pending_of,
    record_of,
    settled_line,
)
from control.restoration import PendingRestoration, Restoration
from telemetry.actions import Action, ActionKind, Conclusion, Outcome, Record
from telemetry.errors import NotRecorded
from telemetry.scrape import Notice

KEEP_RECORDS = 500
RETRY_SECONDS = 1.0
"""How often a process that found the journal held tries again, at most."""

_LINES_PER_ACTION = 3
"""Begin, end, and a share of the others, generously."""

Counted = tuple[str, str, str]
"""Server, kind and outcome of ended actions."""


def _nobody_told(record: Record) -> None:
    """Nobody wants to know."""


class Journal:
    """Records of actions; safe to use from many threads. Without a `store` it is in memory alone.

    `secrets` gives texts that must not stand in a line; `echo` gets every line of an action as text;
    `told` hears of every change of a record.
    """

    def __init__(
        self,
        keep: int = KEEP_RECORDS,
        clock: Callable[[], float] = time.time,
        *,
        store: JournalFile | None = None,
        secrets: Callable[[], Collection[str]] = tuple,
        echo: Callable[[str], None] | None = None,
        told: Callable[[Record], None] = _nobody_told,
    ) -> None:
        self.store = store
        self._keep = keep
        self._clock = clock
        self._secrets = secrets
        self._echo = echo
        self._tell = told
        self._lock = threading.Lock()
        self._taking = threading.Lock()
        self._records: dict[int, Record] = {}
        self._written: set[int] = set()
        self._pending: dict[int, PendingRestoration] = {}
        self._counts: Counter[Counted] = Counter()
        self._notices: tuple[Notice, ...] = ()
        self._next_id = 1
        self._revision = 0
        self._tried_at = float("-inf")
        self._refusal = ""
        self._stamp: tuple[int, int] | None = None
        if store is not None:
            store.carried = self._carried
            self.refusal()

    # ---- who may write

    def refusal(self) -> str:
        """Why this process may not act, "" if it may. Tries to take a journal that has become free."""
        store = self.store
        if store is None or store.held:
            return ""
        with self._taking:
            now = time.monotonic()
            if store.held or now - self._tried_at < RETRY_SECONDS:
                return "" if store.held else self._refusal
            self._tried_at = now
            try:
                taken = store.take()
            except NotRecorded as error:
                self._refusal = error.sentence
                return self._refusal
            if taken:
                self._take_over(store)
                return ""
            self._refusal = store.holder().sentence
            return self._refusal

    def close(self) -> None:
        """Let another process write; what is still running here will be called unknown by it."""
        if self.store is not None:
            self.store.close()
            # The next question for it looks anew, instead of taking back at once what was given away.
            self._tried_at = time.monotonic()
            self._refusal = "Read-only: this process has given the journal back."

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What of the journal on disk could not be read."""
        return self._notices

    # ---- one action

    @property
    def revision(self) -> int:
        """Grows with every change; a page that saw it need not read again."""
        self._follow()
        return self._revision

    def begin(self, action: Action, stage: str) -> Record:
        """An action begins now; it is not on the disk yet."""
        with self._lock:
            record = Record(self._next_id, action, self._clock(), stage)
            self._next_id += 1
            self._put(record)
            self._forget_oldest()
        return record

    def write_down(self, record_id: int) -> None:
        """Put it on the disk; raises NotRecorded: then it must not be done, and is forgotten."""
        record = self.get(record_id)
        try:
            self._append(begin_line(record))
        except NotRecorded:
            with self._lock:
                del self._records[record_id]
                self._revision += 1
            raise
        with self._lock:
            self._written.add(record_id)

    def progress(self, record_id: int, stage: str | None = None, *, sent: bool | None = None) -> Record:
        """Write down what goes on now, or that the request has left."""
        with self._lock:
            record = self._records[record_id]
            record = replace(
                record,
                stage=record.stage if stage is None else stage,
                sent=record.sent if sent is None else sent,
            )
            self._put(record)
        self._tell(record)
        return record

    def end(self, record_id: int, conclusion: Conclusion) -> Record:
        """Write down how it ended."""
        record = self.get(record_id).with_end(conclusion, self._clock())
        self._owe(end_line(record))
        with self._lock:
            # Its stage may have been told anew meanwhile; its end is the last word.
            self._put(record)
            self._written.discard(record_id)
            self._counts[record.action.server, str(record.action.kind), str(record.outcome)] += 1
        self._tell(record)
        self._settle_with(record)
        return record

    def deny(self, action: Action, sentence: str) -> None:
        """Tell of an action that was asked for without the right to it.

        Only on standard output and in the counts: whoever has no right must not be able to push what was
        really done out of the journal.
        """
        self._say(encoded(denied_line(action, self._clock(), sentence), self._secrets()))
        with self._lock:
            self._counts[action.server, str(action.kind), str(Outcome.REFUSED)] += 1

    def get(self, record_id: int) -> Record:
        """One record as it stands; KeyError for one that was never begun or was forgotten."""
        with self._lock:
            return self._records[record_id]

    def records(self, server: str | None = None, model: str | None = None) -> tuple[Record, ...]:
        """Records newest first, of one server and one model if given."""
        self._follow()
        with self._lock:
            rows = sorted(self._records.values(), key=lambda record: record.id, reverse=True)
        return tuple(
            row
            for row in rows
            if (server is None or row.action.server == server)
            and (model is None or row.action.model == model)
        )

    def counts(self) -> Mapping[Counted, int]:
        """How many actions of this process ended how, by server, kind and outcome."""
        with self._lock:
            return dict(self._counts)

    def lines(self) -> list[Line]:
        """Every line that is kept, the oldest first: of the disk, or of the records in memory without one."""
        if self.store is not None:
            return self.store.read()[0]
        with self._lock:
            rows = sorted(self._records.values(), key=lambda record: record.id)
        return [begin_line(row) if row.running else end_line(row) for row in rows]

    # ---- what must be put back

    def intend(self, restoration: Restoration) -> int:
        """Write down, before a configuration is changed for a while, what must be put back; returns its id.

        Raises NotRecorded: then the configuration must not be changed.
        """
        if reason := self.refusal():
            raise NotRecorded(reason)
        with self._lock:
            pending = PendingRestoration(self._next_id, restoration, self._clock(), left_over=False)
            self._next_id += 1
        if self.store is not None and restoration.config is not None:
            self.store.keep_config(pending.id, restoration.config)
        self._append(intend_line(pending))
        with self._lock:
            self._pending[pending.id] = pending
            self._revision += 1
        return pending.id

    def settled(self, pending_id: int, sentence: str = "put back") -> None:
        """It was put back, or nothing is left to put back; `sentence` says which."""
        with self._lock:
            if self._pending.pop(pending_id, None) is None:
                return
            self._revision += 1
        self._owe(settled_line(pending_id, self._clock(), sentence))
        if self.store is not None:
            self.store.drop_config(pending_id)

    def leave_over(self, pending_id: int) -> None:
        """Whoever wrote it down could not put it back and has given up: it is the repairs' from now on."""
        with self._lock:
            if (one := self._pending.get(pending_id)) is not None:
                self._pending[pending_id] = replace(one, left_over=True)
                self._revision += 1

    def _settle_with(self, record: Record) -> None:
        """A person who reverted or unloaded the model left nothing to put back."""
        action = record.action
        if record.outcome is not Outcome.DONE or action.kind not in (ActionKind.REVERT, ActionKind.UNLOAD):
            return
        for one in self.open_restorations():
            what = one.restoration
            if one.left_over and (what.server, what.model) == (action.server, action.model):
                self.settled(one.id, f"{action.kind.value} by {action.who}")

    def open_restorations(self) -> tuple[PendingRestoration, ...]:
        """What is not crossed off yet, the oldest first."""
        self._follow()
        with self._lock:
            return tuple(self._pending.values())

    # ---- the disk

    def _append(self, line: Line) -> None:
        written = encoded(line, self._secrets())
        if self.store is not None:
            self.store.append(written)
        self._say(written)

    def _owe(self, line: Line) -> None:
        written = encoded(line, self._secrets())
        if self.store is not None:
            self.store.owe(written)
        self._say(written)

    def _say(self, written: bytes) -> None:
        if self._echo is not None:
            self._echo(written.decode())

    def _carried(self) -> list[bytes]:
        """What is open must not be lost with the oldest part of the journal."""
        with self._lock:
            lines = [intend_line(one) for one in self._pending.values()]
            lines += [begin_line(self._records[number]) for number in sorted(self._written)]
        secrets = self._secrets()
        return [encoded(line, secrets) for line in lines]

    def _follow(self) -> None:
        """Without the lock the journal is another process': read what that one wrote."""
        store = self.store
        if store is None or store.held or self._refusal == "":
            return
        with self._taking:
            stamp = store.stamp()
            if not store.held and stamp != self._stamp:
                # What the process that writes has open is its own business.
                self._read(store, left_over=False)
                self._stamp = stamp

    def _read(self, store: JournalFile, *, left_over: bool) -> None:
        # What is open is carried into the newest part, so that older ones need not be read for it.
        lines, notices = store.read(_LINES_PER_ACTION * self._keep)
        records, pending, told = _replayed(lines, store)
        with self._lock:
            self._records = {record.id: record for record in records[-self._keep :]}
            self._pending = {one.id: replace(one, left_over=left_over) for one in pending}
            self._notices = (*notices, *told)
            self._next_id = max((line["id"] for line in lines), default=0) + 1
            self._revision += 1

    def _take_over(self, store: JournalFile) -> None:
        """The journal is ours now: what its last writer left open has an unknown outcome."""
        self._read(store, left_over=True)
        with self._lock:
            open_ones = [record for record in self._records.values() if record.running]
        for record in open_ones:
            ended = replace(record, sent=None).with_end(_unknown(record), self._clock())
            self._owe(end_line(ended))
            with self._lock:
                self._put(ended)

    def _put(self, record: Record) -> None:
        self._records[record.id] = record
        self._revision += 1

    def _forget_oldest(self) -> None:
        ended = [row.id for row in self._records.values() if not row.running]
        surplus = len(self._records) - self._keep
        for record_id in sorted(ended)[: max(0, surplus)]:
            del self._records[record_id]


def say_on_stdout(text: str) -> None:
    """One line of the journal on standard output, for whoever collects the logs of containers."""
    # A closed standard output must not stop an action that is in the file.
    with suppress(OSError, ValueError):
        sys.stdout.write(text)
        sys.stdout.flush()


def _unknown(record: Record) -> Conclusion:
    return Conclusion(
        Outcome.UNKNOWN,
        f"Outcome unknown: Tritonscope itself ended while {record.action.kind.doing} {record.action.target}. "
        "Nothing is sent again; the table shows the model's state as the server tells it.",
    )


def _replayed(
    lines: Iterable[Line], store: JournalFile
) -> tuple[list[Record], list[PendingRestoration], list[Notice]]:
    records: dict[int, Record] = {}
    pending: dict[int, PendingRestoration] = {}
    notices: list[Notice] = []
    for line in lines:
        number, event = line["id"], line["event"]
        try:
            if event in (BEGIN, END):
                begun = records.get(number)
                open_one = begun if begun is not None and begun.running else None
                records[number] = record_of(line, open_one if event == END else None)
            elif event == INTEND:
                config = store.kept_config(number) if line.get("restore") != "disk" else None
                pending[number] = pending_of(line, config)
            elif event == SETTLED:
                pending.pop(number, None)
        except ValueError as error:
            notices.append(Notice(store.path.name, None, f"action {number}: {error}; it is left out"))
    return sorted(records.values(), key=lambda one: one.id), list(pending.values()), notices
