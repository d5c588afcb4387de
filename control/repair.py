"""Puts back what an earlier process left changed: once, through the one guard, when the server answers."""

from __future__ import annotations

import logging
import threading

from control.ports import ServerReader, Writes
from control.restoration import PendingRestoration
from telemetry.access import PROCESS
from telemetry.actions import Action, ActionKind, Outcome
from telemetry.errors import AlreadyRunning, ControlError, SourceError
from telemetry.facts import IndexEntry, ModelState

EVERY_SECONDS = 2.0
_log = logging.getLogger(__name__)


class Repairs:
    """Waits until this process may write and the servers answer, then puts back what is left over.

    The thread ends when there is nothing left to wait for. `control` has started nothing yet.
    """

    def __init__(
        self, control: Writes, reader: ServerReader, *, every_seconds: float = EVERY_SECONDS
    ) -> None:
        self._control = control
        self._reader = reader
        self._every_seconds = every_seconds
        self._tried: dict[int, str] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin; a second call does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="repairs", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End; an action under way goes on."""
        self._stop.set()

    def outcome(self, pending_id: int) -> str:
        """Why it is still open although it was tried, "" while it was not."""
        return self._tried.get(pending_id, "")

    def step(self) -> bool:
        """Look once; True while there is something to wait for."""
        journal = self._control.journal
        if journal.refusal():
            return True
        waiting = [one for one in journal.open_restorations() if one.left_over and one.id not in self._tried]
        for pending in waiting:
            self._put_back(pending)
        return any(one.id not in self._tried for one in waiting)

    def _run(self) -> None:
        while not self._stop.is_set() and self.step():
            self._stop.wait(self._every_seconds)

    def _put_back(self, pending: PendingRestoration) -> None:
        what = pending.restoration
        kind = ActionKind.REVERT if what.config is None else ActionKind.OVERRIDE
        if not self._control.decide(what.server, kind, what.model, by=PROCESS).allowed:
            return
        try:
            index = self._reader.index(what.server)
        except SourceError:
            return
        if not _is_loaded(index, what.model):
            self._control.journal.settled(pending.id, f"{what.model} is not loaded: nothing to put back")
            return
        action = Action(
            kind, what.server, what.model, why=f"put back after {what.reason}",
            parameters={"restoration": pending.id}, config=what.config,
        )  # fmt: skip
        try:
            record = self._control.perform(action, by=PROCESS).wait()
        except AlreadyRunning:
            return
        except ControlError as error:
            self._tried[pending.id] = error.sentence
            return
        if record.outcome is Outcome.DONE:
            self._control.journal.settled(pending.id)
        else:
            self._tried[pending.id] = record.sentence
            _log.warning("%s %s", pending.sentence, record.sentence)


def _is_loaded(index: tuple[IndexEntry, ...], model: str) -> bool:
    """Served, or failed while a configuration was tried: an unloaded model reads its files when loaded."""
    rows = [entry for entry in index if entry.name == model]
    return any(row.failed or row.state in (ModelState.READY, ModelState.LOADING) for row in rows)
