"""The record of every action of this process: in memory, bounded, newest first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from control.actions import Action, Conclusion, Record

KEEP_RECORDS = 500


class Journal:
    """Records of actions; safe to use from many threads. A record is begun before anything is sent."""

    def __init__(self, keep: int = KEEP_RECORDS, clock: Callable[[], float] = time.time) -> None:
        self._keep = keep
        self._clock = clock
        self._lock = threading.Lock()
        self._records: dict[int, Record] = {}
        self._next_id = 1
        self._revision = 0

    @property
    def revision(self) -> int:
        """Grows with every change; a page that saw it need not read again."""
        return self._revision

    def begin(self, action: Action, stage: str) -> Record:
        """Write down that an action begins now."""
        with self._lock:
            record = Record(self._next_id, action, self._clock(), stage)
            self._next_id += 1
            self._put(record)
            self._forget_oldest()
            return record

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
            return record

    def end(self, record_id: int, conclusion: Conclusion) -> Record:
        """Write down how it ended."""
        with self._lock:
            record = self._records[record_id].with_end(conclusion, self._clock())
            self._put(record)
            return record

    def get(self, record_id: int) -> Record:
        """One record as it stands; KeyError for one that was never begun or was forgotten."""
        with self._lock:
            return self._records[record_id]

    def records(self, server: str | None = None, model: str | None = None) -> tuple[Record, ...]:
        """Records newest first, of one server and one model if given."""
        with self._lock:
            rows = sorted(self._records.values(), key=lambda record: record.id, reverse=True)
        return tuple(
            row
            for row in rows
            if (server is None or row.action.server == server)
            and (model is None or row.action.model == model)
        )

    def _put(self, record: Record) -> None:
        self._records[record.id] = record
        self._revision += 1

    def _forget_oldest(self) -> None:
        ended = [row.id for row in self._records.values() if not row.running]
        surplus = len(self._records) - self._keep
        for record_id in sorted(ended)[: max(0, surplus)]:
            del self._records[record_id]
