"""A server's log level: read, set for a while, and set back by itself, also after a restart of the app."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from control.performer import Course
from control.ports import Writes
from control.wording import source_sentence
from telemetry.access import PROCESS
from telemetry.actions import Action, ActionKind, Conclusion, Outcome, Record
from telemetry.errors import ControlError, InvalidRequest, SourceError, WrongContent
from telemetry.identity import Server
from telemetry.rounds import Rounds
from telemetry.transport import Transport, host_of

CALL_SECONDS = 5.0
MAX_VERBOSE = 9
MAX_MINUTES = 24 * 60.0
LOOK_SECONDS = 2.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogLevel:
    """What a Triton writes to its log; `verbose` 0 is nothing but the other three."""

    info: bool = True
    warning: bool = True
    error: bool = True
    verbose: int = 0

    def words(self) -> str:
        """`info, warnings, errors, verbose 1`."""
        named = (("info", self.info), ("warnings", self.warning), ("errors", self.error))
        parts = [name for name, on in named if on] + ([f"verbose {self.verbose}"] if self.verbose else [])
        return ", ".join(parts) or "nothing"


def read_log_level(server: Server) -> LogLevel:
    """What the server writes to its log now; raises SourceError."""
    url = f"{server.http_url}/v2/logging"
    answer = Transport(server, timeout_seconds=CALL_SECONDS).get(url)
    return _parsed(answer.text, host_of(url))


def log_level_action(server_id: str, wanted: LogLevel, minutes: float | None, *, why: str = "") -> Action:
    """The action that sets a level, for so many minutes (None = until somebody sets another one)."""
    check_log_level(wanted, minutes)
    parameters: dict[str, object] = {"level": asdict(wanted)}
    if minutes is not None:
        parameters["minutes"] = minutes
    return Action(ActionKind.LOG_LEVEL, server_id, "", why=why, parameters=parameters)


def with_before(action: Action, server: Server, due: Record | None) -> Action:
    """The action with the level to be set back later: the one before the first of several changes.

    Raises InvalidRequest if the server does not tell it.
    """
    if due is not None:
        before = due.action.parameters.get("before")
    else:
        try:
            before = asdict(read_log_level(server))
        except SourceError as error:
            raise InvalidRequest(
                f"Nothing was sent: the log settings cannot be read. {source_sentence(error)}",
                detail=error.detail,
            ) from error
    return replace(action, parameters={**action.parameters, "before": before})


def check_log_level(wanted: LogLevel, minutes: float | None) -> None:
    """Raise InvalidRequest for a level or a time that makes no sense."""
    if type(wanted.verbose) is not int or not 0 <= wanted.verbose <= MAX_VERBOSE:
        raise InvalidRequest(f"The verbose level must be 0 to {MAX_VERBOSE}, it is {wanted.verbose!r}.")
    if minutes is not None and not 0 < minutes <= MAX_MINUTES:
        raise InvalidRequest(f"The time must be up to {MAX_MINUTES:g} minutes, it is {minutes:g}.")


def set_log_level(course: Course) -> Conclusion:
    """Do a `log_level_action`; the level from before is what is set back later."""
    wanted, server = level_of(course.action), course.server
    minutes = course.action.parameters.get("minutes")
    check_log_level(wanted, minutes if isinstance(minutes, int | float) else None)
    body = {
        "log_info": wanted.info,
        "log_warning": wanted.warning,
        "log_error": wanted.error,
        "log_verbose_level": wanted.verbose,
    }
    url = f"{server.http_url}/v2/logging"
    course.sent()
    try:
        answer = Transport(server, timeout_seconds=CALL_SECONDS).post(url, json.dumps(body))
        now = _parsed(answer.text, host_of(url))
    except SourceError as error:
        return Conclusion(Outcome.FAILED, source_sentence(error), error.detail)
    if now != wanted:
        return Conclusion(Outcome.FAILED, f"{server.id} logs {now.words()} and not {wanted.words()}")
    back = f", for {minutes:g} minutes, then as before" if isinstance(minutes, int | float) else ""
    return Conclusion(Outcome.DONE, f"{server.id} now logs {wanted.words()}{back}")


def level_of(action: Action) -> LogLevel:
    """The level an action sets; raises InvalidRequest if it names none."""
    return _level(action.parameters.get("level"))


def _level(value: object) -> LogLevel:
    if not isinstance(value, Mapping):
        raise InvalidRequest("No log level was given.")
    flags = [value.get(name) for name in ("info", "warning", "error")]
    verbose = value.get("verbose")
    if not all(isinstance(flag, bool) for flag in flags) or type(verbose) is not int:
        raise InvalidRequest(f"This is no log level: {dict(value)}.")
    info, warning, error = (flag is True for flag in flags)
    return LogLevel(info, warning, error, verbose)


def _parsed(text: str, who: str) -> LogLevel:
    try:
        row = json.loads(text)
    except ValueError:
        row = None
    if not isinstance(row, dict) or "log_verbose_level" not in row:
        raise WrongContent(f"{who} sent no log settings", detail=text[:200])
    info, warning, error = (row.get(f"log_{name}") is True for name in ("info", "warning", "error"))
    return LogLevel(info, warning, error, int(row["log_verbose_level"]))


class LogReturns:
    """Sets log levels back when their time is over. What is due stands in the journal, so that a restart of
    the app does not forget it.
    """  # fmt: skip

    def __init__(self, control: Writes, *, look_seconds: float = LOOK_SECONDS) -> None:
        self._control = control
        self._tried: set[int] = set()
        self._rounds = Rounds("log-returns", self._look, look_seconds, at_once=False)

    def start(self) -> None:
        """Begin to look; a second call does nothing."""
        self._rounds.start()

    def stop(self) -> None:
        """End; what is due then is done by the next process."""
        self._rounds.stop()

    def due(self, server_id: str) -> Record | None:
        """The change of this server that will be set back, None if there is none."""
        return next((one for one in self._open() if one.action.server == server_id), None)

    def step(self, now: float) -> None:
        """Set back everything whose time is over at unix time `now`; each is tried once."""
        for record in list(self._open()):
            if record.id not in self._tried and now >= due_at(record):
                self._set_back(record)

    def _look(self) -> None:
        if not self._control.journal.refusal():
            self.step(time.time())

    def _open(self) -> Iterator[Record]:
        """The newest change of each server, if it is for a while."""
        seen: set[str] = set()
        for record in self._control.records():
            action = record.action
            if action.kind is not ActionKind.LOG_LEVEL or record.outcome is not Outcome.DONE:
                continue
            if action.server not in seen and "minutes" in action.parameters:
                yield record
            seen.add(action.server)

    def _set_back(self, record: Record) -> None:
        server_id = record.action.server
        if not self._control.decide(server_id, ActionKind.LOG_LEVEL, by=PROCESS).allowed:
            return
        try:
            level = _level(record.action.parameters.get("before"))
            action = log_level_action(server_id, level, None, why="the time of the log level is over")
            ended = self._control.perform(action, by=PROCESS).wait()
        except ControlError as error:
            _log.warning("the log level of %s was not set back: %s", server_id, error.sentence)
            self._tried.add(record.id)
            return
        if ended.outcome is not Outcome.DONE and ended.sent:
            # A server that is down begins with its own level again.
            self._tried.add(record.id)


def due_at(record: Record) -> float:
    """Unix time at which a level is to be set back."""
    minutes = record.action.parameters.get("minutes")
    began = record.ended_at or record.started_at
    return began + 60.0 * (float(minutes) if isinstance(minutes, int | float) else 0.0)
