"""The configuration a model had before a comparison, and the way back to it, whatever happened meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from control.facade import Control
from control.override import raw_config
from control.restoration import Restoration
from experiments.session import rest
from history.drift import overrides_in_force
from telemetry.access import PROCESS
from telemetry.actions import Action, ActionKind, Outcome, Record
from telemetry.config_diff import changes_between, in_words
from telemetry.errors import ActionFailed, TritonscopeError
from telemetry.facts import ModelConfig, ModelState

TRIES = 20
PAUSE_SECONDS = 1.0
_LOADED = (ModelState.READY, ModelState.LOADING, ModelState.UNLOADING)


class WayBack:
    """Remembers what a model runs with, writes down that it must get it back, and gives it back.

    `what` names the reason as a person reads it: "the comparison of 14:02 on alpha". What is put back is done
    by the app itself, as after a kill: a right that was taken away meanwhile must not leave a model changed.
    """

    def __init__(self, control: Control, server: str, model: str, what: str) -> None:
        self._control = control
        self._server = server
        self._model = model
        self._what = what
        self.config: ModelConfig = control.reader.config(server, model)
        self._overridden = self._was_overridden()
        self._revert_failed = False
        self._pending: int | None = None
        self.changed = False
        """Set before the first other configuration is sent."""
        self.note = ""
        """What a reader must know of the way back."""

    def write_down(self) -> None:
        """Tell the journal what must be put back; raises NotRecorded: then nothing may be changed."""
        self._pending = self._control.journal.intend(
            Restoration(
                self._server,
                self._model,
                raw_config(self.config) if self._overridden else None,
                self._what,
            )
        )

    def put_back(self) -> str:
        """Give the model its configuration back; "" if it has it again, else why not.

        A refusal may be of the moment: somebody acts on the model, the server is restarting or too busy to
        answer. So every one is tried again for a while.
        """
        problem = ""
        for _ in range(TRIES):
            try:
                problem = self._try()
            except TritonscopeError as error:
                problem = error.sentence
            if not problem:
                self._settle()
                return ""
            rest(PAUSE_SECONDS, _never)
        if self._pending is not None:
            # The server may be away for longer than a run can wait: the repairs look after it from now on.
            self._control.journal.leave_over(self._pending)
        return (
            f"The configuration of {self._model} from before could not be put back: "
            f"{problem.removesuffix('.')}. The page Repository says when it is tried again"
        )

    def _try(self) -> str:
        """One try; "" if the model has its configuration, else what differs or what failed."""
        if not self._is_loaded():
            if not self._revert_failed:
                self.note = f"Somebody unloaded {self._model} meanwhile: its next load takes the files."
                return ""
            return self._said(self._perform(ActionKind.LOAD))
        if self.changed and not self._overridden and not self._revert_failed:
            record = self._perform(ActionKind.REVERT)
            # It may have been unloaded and not loaded again; refused, it was not touched.
            self._revert_failed = record.outcome is Outcome.FAILED
            if record.outcome is not Outcome.DONE:
                return record.sentence
            self.changed = False
        original = raw_config(self.config)
        # What is on disk may be another one than the model had.
        if changes_between(original, self._running()):
            record = self._perform(ActionKind.OVERRIDE, original)
            if record.outcome is not Outcome.DONE:
                raise ActionFailed(record.sentence, detail=record.detail)
        left = changes_between(original, self._running())
        return in_words(left) if left else ""

    def _settle(self) -> None:
        if self._pending is not None:
            self._control.journal.settled(self._pending, self.note or "put back")

    def _perform(self, kind: ActionKind, config: Mapping[str, Any] | None = None) -> Record:
        action = Action(kind, self._server, self._model, why=f"the end of {self._what}", config=config)
        return self._control.perform(action, by=PROCESS).wait()

    def _said(self, record: Record) -> str:
        return "" if record.outcome is Outcome.DONE else record.sentence

    def _running(self) -> Mapping[str, Any]:
        return raw_config(self._control.reader.config(self._server, self._model))

    def _is_loaded(self) -> bool:
        """False only if the index lists the model and no version of it serves."""
        rows = [row for row in self._control.reader.index(self._server) if row.name == self._model]
        return not rows or any(row.state in _LOADED for row in rows)

    def _was_overridden(self) -> bool:
        """True if by the journal it runs with an override."""
        return bool(overrides_in_force(self._control.records(self._server, self._model)))


def _never() -> bool:
    """What must be put back is put back also after a stop."""
    return False
