"""Puts back what was left changed: through the one guard, when the server answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from control.ports import ServerReader, Writes
from control.restoration import PendingRestoration
from telemetry.access import PROCESS
from telemetry.actions import Action, ActionKind, Outcome
from telemetry.errors import AlreadyRunning, ControlError, SourceError
from telemetry.facts import ModelState
from telemetry.rounds import Rounds

EVERY_SECONDS = 2.0
FIRST_WAIT_SECONDS = 30.0
LONGEST_WAIT_SECONDS = 300.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Try:
    """How a try ended; `again_at` is the time of the next one (unix seconds), None if there is none."""

    sentence: str
    wait_seconds: float
    again_at: float | None


class Repairs:
    """Looks until it is stopped for what an earlier process or a run that gave up left changed.

    It waits until this process may write and the server answers. What the server refused or could not do is
    tried once; what it did not get, or gave no answer to, is tried again, ever more rarely.
    """

    def __init__(
        self,
        control: Writes,
        reader: ServerReader,
        *,
        every_seconds: float = EVERY_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._control = control
        self._reader = reader
        self._clock = clock
        self._tried: dict[int, _Try] = {}
        self._rounds = Rounds("repairs", self.step, every_seconds)

    def start(self) -> None:
        """Begin; a second call does nothing."""
        self._rounds.start()

    def stop(self) -> None:
        """End; an action under way goes on."""
        self._rounds.stop()

    def outcome(self, pending_id: int) -> str:
        """Why it is still open although it was tried, "" while it was not."""
        tried = self._tried.get(pending_id)
        return tried.sentence if tried is not None else ""

    def again_at(self, pending_id: int) -> float | None:
        """When it is tried again after a try, unix seconds; None if it is left to a person."""
        tried = self._tried.get(pending_id)
        return tried.again_at if tried is not None else None

    def step(self) -> bool:
        """Look once; True while there is something to wait for."""
        journal = self._control.journal
        if journal.refusal():
            return True
        for pending in self._waiting():
            tried = self._tried.get(pending.id)
            if tried is None or tried.again_at is None or self._clock() >= tried.again_at:
                self._put_back(pending)
        return bool(self._waiting())

    def _waiting(self) -> list[PendingRestoration]:
        """What is left over and not given up."""
        return [
            one
            for one in self._control.journal.open_restorations()
            if one.left_over and (one.id not in self._tried or self.again_at(one.id) is not None)
        ]

    def _put_back(self, pending: PendingRestoration) -> None:
        what = pending.restoration
        last = ActionKind.REVERT if what.config is None else ActionKind.OVERRIDE
        if not self._control.decide(what.server, last, what.model, by=PROCESS).allowed:
            return
        try:
            rows = [row for row in self._reader.index(what.server) if row.name == what.model]
        except SourceError:
            return
        states = {row.state for row in rows}
        if ModelState.READY in states:
            self._perform(pending, last, settles=True)
        elif states & {ModelState.LOADING, ModelState.UNLOADING}:
            return
        elif any(row.failed for row in rows) or self._reverting_ended_half(pending):
            # Its files are what a load gives it; another configuration comes with the next look.
            self._perform(pending, ActionKind.LOAD, settles=what.config is None)
        else:
            self._control.journal.settled(pending.id, f"{what.model} is not loaded: nothing to put back")

    def _reverting_ended_half(self, pending: PendingRestoration) -> bool:
        """True if the way back itself unloaded the model, and nobody knows of a load after it."""
        what = pending.restoration
        for record in self._control.records():
            action = record.action
            if (action.server, action.model) == (what.server, what.model) and action.kind.changes_repository:
                lost = record.outcome in (Outcome.UNKNOWN, Outcome.FAILED)
                return action.kind in (ActionKind.REVERT, ActionKind.LOAD) and lost
        return False

    def _perform(self, pending: PendingRestoration, kind: ActionKind, *, settles: bool) -> None:
        what = pending.restoration
        action = Action(
            kind, what.server, what.model, why=f"put back after {what.reason}",
            parameters={"restoration": pending.id},
            config=what.config if kind is ActionKind.OVERRIDE else None,
        )  # fmt: skip
        try:
            record = self._control.perform(action, by=PROCESS).wait()
        except AlreadyRunning:
            return
        except ControlError as error:
            self._failed(pending, error.sentence, final=False)
            return
        if record.outcome is not Outcome.DONE:
            self._failed(pending, record.sentence, final=record.outcome is Outcome.FAILED)
        elif settles:
            self._control.journal.settled(pending.id)

    def _failed(self, pending: PendingRestoration, sentence: str, *, final: bool) -> None:
        """Remember why. What the server could not do once it will not do by itself a minute later."""
        before = self._tried.get(pending.id)
        wait = FIRST_WAIT_SECONDS if before is None else min(2.0 * before.wait_seconds, LONGEST_WAIT_SECONDS)
        self._tried[pending.id] = _Try(sentence, wait, None if final else self._clock() + wait)
        _log.warning("%s %s", pending.sentence, sentence)
