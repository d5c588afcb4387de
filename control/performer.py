"""Runs actions: guard first, once per click and once per model at a time, in a thread no page can cut off."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from traceback import format_exc

from control.journal import Journal
from control.policy import Policy
from telemetry.access import Identity, Right
from telemetry.actions import Action, ActionKind, Conclusion, Outcome, Record
from telemetry.errors import AlreadyRunning, NotRecorded, TritonscopeError
from telemetry.identity import Server

KEEP_JOBS = 200
"""Jobs that stay readable after their end."""
KEEP_RESULTS = 50
"""What they yielded, which may be large, is kept for so many of the newest."""

_log = logging.getLogger(__name__)


class Job:
    """One action under way or ended: its record, its progress, what it yielded."""

    def __init__(self, record_id: int, journal: Journal) -> None:
        self.id = record_id
        self._journal = journal
        self._ended = threading.Event()
        self._stop = threading.Event()
        self._last: Record | None = None
        self.progress: object = None
        """What the action shows meanwhile; of a type its own module defines."""
        self.result: object = None
        """What it yielded; None until it has ended well."""

    @property
    def record(self) -> Record:
        """The record as it stands."""
        return self._last or self._journal.get(self.id)

    @property
    def stopping(self) -> bool:
        """True once somebody asked it to stop."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Ask it to stop at the next occasion; what was sent to the server is not taken back."""
        self._stop.set()

    def wait(self, timeout_seconds: float | None = None) -> Record:
        """The record after the end, or after the time-out as it stands then."""
        self._ended.wait(timeout_seconds)
        return self.record

    def _conclude(self, conclusion: Conclusion) -> None:
        self.result = conclusion.result
        self._last = self._journal.end(self.id, conclusion)

    def _drop(self, record: Record) -> None:
        """It was never begun: whoever holds this job (the same click, arriving twice) learns why."""
        self._last = record
        self._ended.set()


class Course:
    """What an action tells about itself while it runs."""

    def __init__(self, job: Job, journal: Journal, server: Server, action: Action) -> None:
        self.server = server
        self.action = action
        self._job = job
        self._journal = journal

    def say(self, stage: str) -> None:
        """What goes on now, in a few words: "unloading resnet18"."""
        if stage != self._job.record.stage:
            self._journal.progress(self._job.id, stage)

    def sent(self) -> None:
        """From here on something has left for the server."""
        self._journal.progress(self._job.id, sent=True)

    def show(self, progress: object) -> None:
        """Replace what the page shows meanwhile."""
        self._job.progress = progress

    @property
    def stopping(self) -> bool:
        """True once somebody asked it to stop."""
        return self._job.stopping

    @property
    def was_sent(self) -> bool:
        """True after `sent`."""
        return bool(self._job.record.sent)


Work = Callable[[Course], Conclusion]
"""The action itself. It may raise a TritonscopeError, whose sentence becomes the outcome."""


class Performer:
    """Starts actions. One process has one, so that its locks hold for every tab and every user."""

    def __init__(self, policy: Policy, journal: Journal) -> None:
        self.policy = policy
        self.journal = journal
        self._mutex = threading.Lock()
        self._busy: dict[tuple[str, ...], Job] = {}
        self._by_token: OrderedDict[str, Job] = OrderedDict()

    def perform(self, action: Action, work: Work, *, by: Identity) -> Job:
        """Start the action for this person and return at once.

        Raises NotAllowed, AlreadyRunning or NotRecorded when nothing was begun. A token that was used before
        gives the job of that time: nothing is begun a second time.
        """
        with self._mutex:
            known = self._by_token.get(action.token)
            if known is not None:
                return known
            server = self.policy.check(action, by=by)
            lock = lock_of(action)
            if lock in self._busy:
                raise already_running(self._busy[lock].record)
            job = Job(self.journal.begin(action, f"{action.kind.doing} {action.target}").id, self.journal)
            self._by_token[action.token] = job
            self._forget_oldest()
            self._busy[lock] = job
        # Outside the mutex: a slow disk holds up this click alone.
        self._write_down(job, action, lock)
        course = Course(job, self.journal, server, action)
        threading.Thread(
            target=self._run, args=(job, course, work, lock), name=f"action-{job.id}", daemon=True
        ).start()
        return job

    def _write_down(self, job: Job, action: Action, lock: tuple[str, ...]) -> None:
        record = job.record
        try:
            self.journal.write_down(job.id)
        except NotRecorded as error:
            with self._mutex:
                del self._busy[lock], self._by_token[action.token]
                job._drop(record.with_end(Conclusion(Outcome.REFUSED, error.sentence), record.started_at))
            raise

    def job(self, record_id: int) -> Job | None:
        """The job of a record, None if it was forgotten."""
        with self._mutex:
            return next((job for job in self._by_token.values() if job.id == record_id), None)

    def running(self, server: str, model: str) -> Record | None:
        """The load, unload or reload under way on this model."""
        with self._mutex:
            job = self._busy.get(("repository", server, model))
            return job.record if job else None

    def _forget_oldest(self) -> None:
        surplus = max(0, len(self._by_token) - KEEP_JOBS)
        ended = [token for token, job in self._by_token.items() if not job.record.running]
        for token in ended[:surplus]:
            del self._by_token[token]
        for old in list(self._by_token.values())[:-KEEP_RESULTS]:
            old.result = old.progress = None

    def _run(self, job: Job, course: Course, work: Work, lock: tuple[str, ...]) -> None:
        try:
            conclusion = work(course)
        except TritonscopeError as error:
            outcome = Outcome.FAILED if course.was_sent else Outcome.REFUSED
            conclusion = Conclusion(outcome, error.sentence, error.detail)
        except Exception:  # noqa: BLE001 - the end of a thread: without this the action would look as running for ever
            _log.exception("action %s failed inside tritonscope", job.id)
            conclusion = Conclusion(
                Outcome.UNKNOWN if course.was_sent else Outcome.FAILED,
                f"Tritonscope itself failed while {course.action.kind.doing} {course.action.target}; "
                "the table shows the model's real state.",
                format_exc(),
            )
        job._conclude(conclusion)
        with self._mutex:
            del self._busy[lock]
        job._ended.set()


def lock_of(action: Action) -> tuple[str, ...]:
    """Actions with an equal lock never run at the same time.

    One repository action per model, one load run or experiment per server; test requests run side by side.
    """
    if action.kind.changes_repository:
        return ("repository", action.server, action.model)
    if action.kind.right is Right.LOAD_RUN:
        return ("load run", action.server)
    if action.kind is ActionKind.LOG_LEVEL:
        return ("log level", action.server)
    return ("token", action.token)


def already_running(record: Record) -> AlreadyRunning:
    """The refusal a second click, tab or user gets."""
    since = time.strftime("%H:%M:%S", time.localtime(record.started_at))
    return AlreadyRunning(
        f"Already running, since {since} by {record.action.who}: "
        f"{record.action.kind.doing} {record.action.target}. Nothing was sent."
    )
