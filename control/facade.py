"""The face of the write side: guard, journal and performer of one process in one object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from control.gated_reload import GatedReload, is_gated
from control.golden import GoldenRequests
from control.journal import Journal
from control.log_level import LogReturns, set_log_level, with_before
from control.one_address import OneAddress
from control.performer import Course, Job, Performer, Work
from control.policy import Decision, Policy
from control.ports import MemoryReader, NoFiles, NoMemory, ServerFiles, ServerReader
from control.repair import Repairs
from control.repository_actions import RepositoryActions
from control.repository_watch import Patience
from control.repository_watcher import Watcher
from control.saved_requests import SavedRequests
from control.several import Several
from telemetry.access import Identity
from telemetry.actions import Action, ActionKind, Conclusion, Record
from telemetry.errors import InvalidRequest, NotAllowed
from telemetry.identity import Server


class Control:
    """All writes of one process. Make one per process: its locks keep a click from being sent twice.

    `servers` gives the configured servers at every call, so that they may come and go. `reader` reads index,
    statistics and config freshly with a short time-out (`experiments.fresh_reader.FreshReader`).
    `is_sandbox(server_id)` is True only if `GET /v2` answered with the random id this run gave its server.
    `files` and `memory` read what the API does not tell, where it can be read (`control.ports`).
    `doubt(server_id)` says why nobody knows which server an address leads to, "" where that is clear.
    `saved` keeps test requests where the settings name a folder for them, `golden` are the golden ones.
    `reason_required`: what changes a server other than the sandbox needs a reason (`Action.why`).
    """

    def __init__(
        self,
        servers: Callable[[], Sequence[Server]],
        reader: ServerReader,
        is_sandbox: Callable[[str], bool],
        *,
        journal: Journal | None = None,
        patience: Patience | None = None,
        reason_required: bool = False,
        files: ServerFiles | None = None,
        memory: MemoryReader | None = None,
        doubt: Callable[[str], str] | None = None,
        saved: SavedRequests | None = None,
        golden: GoldenRequests | None = None,
    ) -> None:
        self.reader = reader
        self.saved = saved
        self.golden = golden or GoldenRequests(lambda _server: None)
        self.policy = Policy(servers, is_sandbox)
        self.journal = journal or Journal()
        self._performer = Performer(self.policy, self.journal)
        self.files = files or NoFiles()
        watcher = Watcher(reader, self.policy.note_control_mode, patience or Patience(), self.files)
        self._repository = RepositoryActions(watcher, is_sandbox, memory or NoMemory())
        self._gate = GatedReload(watcher, self.golden)
        self.several = Several(lambda action, by: self.perform(action, by=by))
        self.log_returns = LogReturns(self)
        self._one_address = OneAddress()
        self._doubt = doubt or (lambda server_id: "")
        self._is_sandbox = is_sandbox
        self._reason_required = reason_required
        self.repairs = Repairs(self, reader)

    def start(self) -> None:
        """Begin to wait for the journal, if another process holds it, and for what must be put back."""
        self.repairs.start()
        self.log_returns.start()
        if self.saved is not None:
            self.saved.start()

    def stop(self) -> None:
        """Let another process act."""
        self.repairs.stop()
        self.log_returns.stop()
        if self.saved is not None:
            self.saved.stop()
        self.journal.close()

    def decide(self, server_id: str, kind: ActionKind, model: str = "", *, by: Identity) -> Decision:
        """May this person do this? The reason is what a switched-off button or a read-only banner shows."""
        decision = self.policy.decide(server_id, kind, model, by=by)
        reason = self._refusal(server_id, kind)
        return Decision(False, reason) if decision.allowed and reason else decision

    def needs_reason(self, server_id: str, kind: ActionKind | None = None) -> bool:
        """True if a person must say why (`journal: reason: required`); a test request needs none."""
        asks = kind not in (ActionKind.TEST_REQUEST, ActionKind.EXPERIMENT)
        return self._reason_required and asks and not self._is_sandbox(server_id)

    def perform(self, action: Action, work: Work | None = None, *, by: Identity) -> Job:
        """Begin an action for this person and return at once; every write of the product goes through here.

        Actions on the repository bring their own work; a test request or a load run hands it in.
        Raises NotAllowed, AlreadyRunning, InvalidRequest or NotRecorded when nothing was begun.
        """
        action = replace(action, who=by.name, how=by.how.value)
        self._check_right(action, by)
        self._check_reason(action)
        if reason := self._refusal(action.server, action.kind):
            raise NotAllowed(reason)
        if action.kind.changes_repository:
            gated = is_gated(action)
            if gated:
                # What it may put back is a configuration that is not the files'.
                self._check_right(replace(action, kind=ActionKind.OVERRIDE), by)
            action, work = self._repository.prepared(action), self._repository.run
            work = self._gate.work(work) if gated else work
        elif action.kind is ActionKind.LOG_LEVEL:
            due = self.log_returns.due(action.server)
            action, work = with_before(action, self.policy.check(action, by=by), due), set_log_level
        if work is None:
            raise InvalidRequest(f"Nothing to do was given for this {action.kind.value}.")
        if _changes_server(action.kind):
            work = self._on_one_server(work)
        return self._performer.perform(action, work, by=by)

    def admit(self, action: Action, *, by: Identity) -> Server:
        """The server to send to, for requests that repeat every few minutes: the guard without the journal.

        Whoever sends them writes down through `perform` what changed. Raises NotAllowed.
        """
        server = self.policy.check(action, by=by)
        if action.kind is not ActionKind.TEST_REQUEST:
            raise NotAllowed(f"A {action.kind.value} is never sent without a line in the journal.")
        if reason := self._refusal(action.server, action.kind):
            raise NotAllowed(reason)
        return server

    def _on_one_server(self, work: Work) -> Work:
        """The work after a look whether its address leads to one server only."""

        def checked(course: Course) -> Conclusion:
            self._one_address.check(course.server)
            return work(course)

        return checked

    def _refusal(self, server_id: str, kind: ActionKind) -> str:
        """Why nothing of this kind can be sent there now, whoever asks; "" if it can."""
        if (reason := self.journal.refusal()) or not _changes_server(kind):
            return reason
        return self._doubt(server_id) or self._one_address.doubt(self.policy.server(server_id))

    def _check_right(self, action: Action, by: Identity) -> None:
        try:
            self.policy.check(action, by=by)
        except NotAllowed as error:
            # A server nobody configured may have any name: no label of a counter is made of it.
            if self.policy.server(action.server) is not None:
                self.journal.deny(action, error.sentence)
            raise

    def _check_reason(self, action: Action) -> None:
        if self.needs_reason(action.server, action.kind) and not action.why.strip():
            raise InvalidRequest(
                "Say why: the settings (journal: reason: required) ask for a reason for every "
                f"{action.kind.value} on {action.server}. Nothing was sent."
            )

    def job(self, record_id: int) -> Job | None:
        """The job of a record: progress and result; None if it was forgotten."""
        return self._performer.job(record_id)

    def running(self, server_id: str, model: str) -> Record | None:
        """The load, unload or reload under way on this model, whoever began it."""
        return self._performer.running(server_id, model)

    def records(self, server_id: str | None = None, model: str | None = None) -> tuple[Record, ...]:
        """What was done, newest first."""
        return self.journal.records(server_id, model)

    def control_mode(self, server_id: str) -> str | None:
        """ "explicit", "none or poll", or None while no answer has shown it: no endpoint tells it."""
        return self.policy.control_mode(server_id)

    def server_restarted(self, server_id: str) -> None:
        """The server may have another control mode now: let it be asked again."""
        self.policy.forget_control_mode(server_id)


def _changes_server(kind: ActionKind) -> bool:
    """A request that changes nothing may go to any of several servers."""
    return kind.changes_repository or kind is ActionKind.LOG_LEVEL
