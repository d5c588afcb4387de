"""Follows one repository call on the index, and says how far it is and how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from control.performer import Course
from control.policy import CONTROL_REFUSED, EXPLICIT, NONE_OR_POLL
from control.ports import NoFiles, ServerFiles, ServerReader
from control.repository_watch import Index, Patience, ready_models, states_of
from control.triton_calls import CallState, RepositoryCall
from control.wording import NOT_EXPLICIT_MARK, server_text, source_sentence
from telemetry.actions import ActionKind, Conclusion, Outcome
from telemetry.errors import InvalidRequest, NoAnswer, SourceError
from telemetry.facts import ModelState
from telemetry.load_errors import POLL_FAILED, load_error, poll_failure

Judge = Callable[[Index, CallState, float], Conclusion | None]


@dataclass(frozen=True, slots=True)
class Watcher:
    """Reads the index while a call is under way; `note_control_mode` hears what answers show of the mode."""

    reader: ServerReader
    note_control_mode: Callable[[str, str], None]
    patience: Patience
    files: ServerFiles = field(default_factory=NoFiles)

    def index_before(self, course: Course) -> Index:
        """The index before anything is sent; raises InvalidRequest if it cannot be read.

        While the server reads another model's configuration it answers late: then it is asked again.
        """
        until = time.monotonic() + self.patience.index_seconds
        while True:
            try:
                return self.reader.index(course.server.id)
            except SourceError as error:
                if not isinstance(error, NoAnswer) or time.monotonic() > until:
                    raise InvalidRequest(
                        f"Nothing was sent: the repository index cannot be read. {source_sentence(error)}",
                        detail=error.detail,
                    ) from error
                course.say("waiting for the repository index: the server is busy with another load")

    def watch(self, course: Course, call: RepositoryCall, judge: Judge) -> tuple[Conclusion, Index]:
        """Poll the index until `judge` knows the end; also the last index read (empty if none was)."""
        began = last_answer = time.monotonic()
        call_over: float | None = None
        index: Index = ()
        while True:
            call.pause(self.patience.poll_seconds)
            # The state is taken before the index is read: an index older than the answer proves nothing.
            state, now = call.state, time.monotonic()
            if state is not CallState.PENDING and call_over is None:
                call_over = now
            try:
                index = self.reader.index(course.server.id)
                last_answer = time.monotonic()
            except SourceError as error:
                if state is CallState.REFUSED:
                    return self._refused(course, call), index
                if now - last_answer > self.patience.unreachable_seconds:
                    return _out_of_sight(course, error), index
                course.say(
                    f"{course.action.kind.doing} {course.action.model}: the server does not answer now"
                )
                continue
            if state is CallState.REFUSED:
                return self._refused(course, call), index
            if state is CallState.ACCEPTED:
                self.note_control_mode(course.server.id, EXPLICIT)
            conclusion = judge(index, state, 0.0 if call_over is None else now - call_over)
            if conclusion is not None:
                return conclusion, index
            if now - began > self.patience.watch_seconds:
                return _watched_enough(course, now - began), index
            course.say(self._stage(course, index, state, now - began))

    def _stage(self, course: Course, index: Index, state: CallState, seconds: float) -> str:
        model, doing = course.action.model, course.action.kind.doing
        states = states_of(index, model)
        if ModelState.UNLOADING in states:
            return f"unloading {model}, requests under way are finished first"
        if ModelState.LOADING in states and seconds > self.patience.stuck_seconds:
            return (
                f"loading {model}: this may never end (a missing model.py, for example); "
                "further loads may hang as well, then only a restart of the server helps"
            )
        if (
            state is CallState.PENDING
            and ModelState.READY in states
            and seconds > self.patience.stuck_seconds
        ):
            return (
                f"{doing} {model}: the new copy is not ready after {seconds / 60:.0f} min, the old one "
                "serves on; if this never ends, further loads may hang as well"
            )
        if state is CallState.LOST:
            return f"still {doing} {model}: the call was given up, the server goes on"
        return f"{doing} {model}"

    def _refused(self, course: Course, call: RepositoryCall) -> Conclusion:
        error, model = call.error, course.action.model
        if error is None:
            raise RuntimeError("a refused call without an error")
        text = server_text(error.detail)
        if NOT_EXPLICIT_MARK in text:
            self.note_control_mode(course.server.id, NONE_OR_POLL)
            return Conclusion(Outcome.FAILED, CONTROL_REFUSED, error.detail)
        if error.status in (400, 500) and course.action.kind is not ActionKind.UNLOAD:
            self.note_control_mode(course.server.id, EXPLICIT)
            return self._not_loaded(course.server.id, model, text or error.detail or "")
        return Conclusion(Outcome.FAILED, source_sentence(error), error.detail)

    def _not_loaded(self, server_id: str, model: str, text: str) -> Conclusion:
        logged = None
        if POLL_FAILED in text:
            logged = poll_failure(self.files.log_tail(server_id) or "", model)
        detail = f"{text}\n\nThe server's log: {logged}" if logged else text
        return Conclusion(Outcome.FAILED, load_error(model, text, logged).sentence, detail or None)


def still_serving(conclusion: Conclusion, index: Index, model: str) -> Conclusion:
    """A failed load of a model that is still ready: says that the version before serves on."""
    if conclusion.outcome is not Outcome.FAILED or model not in ready_models(index):
        return conclusion
    return replace(
        conclusion,
        sentence=f"{conclusion.sentence}. The version loaded before stays READY and serves on",
    )


def _out_of_sight(course: Course, error: SourceError) -> Conclusion:
    return Conclusion(
        Outcome.UNKNOWN,
        f"The server stopped answering while {course.action.kind.doing} {course.action.model}: "
        f"what became of it is not known. {error.sentence}",
        error.detail,
    )


def _watched_enough(course: Course, seconds: float) -> Conclusion:
    return Conclusion(
        Outcome.UNKNOWN,
        f"Still {course.action.kind.doing} {course.action.model} after {seconds / 60:.0f} min; it is no "
        "longer watched: the table shows its state",
    )
