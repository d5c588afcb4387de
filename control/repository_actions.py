"""Load, unload, reload: sent once, watched on the index until it says how they ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from control.actions import ActionKind, Conclusion, Outcome
from control.performer import Course
from control.policy import CONTROL_REFUSED, EXPLICIT, NONE_OR_POLL
from control.ports import ServerReader
from control.reload_effect import ReloadEffect, effect_of, facts_before
from control.repository_watch import (
    Index,
    LoadWatch,
    Patience,
    UnloadWatch,
    also_started,
    ready_models,
    states_of,
)
from control.triton_calls import CallState, RepositoryCall, load_call, unload_call
from control.wording import NOT_EXPLICIT_MARK, load_failure, server_text, source_sentence
from telemetry.errors import InvalidRequest, SourceError
from telemetry.facts import ModelState

Judge = Callable[[Index, CallState, float], Conclusion | None]


@dataclass(frozen=True, slots=True)
class RepositoryActions:
    """The three repository actions; `note_control_mode` hears what answers show of the control mode."""

    reader: ServerReader
    note_control_mode: Callable[[str, str], None]
    patience: Patience

    def run(self, course: Course) -> Conclusion:
        """Do the course's action and return how it ended; blocks until then."""
        if course.action.kind is ActionKind.UNLOAD:
            return self._unload(course)
        return self._load(course)

    def _load(self, course: Course) -> Conclusion:
        model, server = course.action.model, course.server
        before = self._index_before(course)
        if ModelState.UNLOADING in states_of(before, model):
            raise InvalidRequest(f"{model} is still unloading: load it when that is done. Nothing was sent.")
        facts = facts_before(self.reader, server.id, model) if model in ready_models(before) else None
        began = time.monotonic()
        course.sent()
        call = load_call(server, model, self.patience.call_seconds)
        watch = LoadWatch(model, before, self.patience)
        conclusion, index = self._watch(course, call, watch.judge)
        if conclusion.outcome is not Outcome.DONE:
            return self._still_serving(conclusion, index, model)
        if facts is not None:
            return _reloaded(model, effect_of(self.reader, server.id, facts, time.monotonic() - began))
        took = time.monotonic() - began
        return Conclusion(
            Outcome.DONE, f"{conclusion.sentence} after {took:.1f} s{also_started(before, index, model)}"
        )

    def _unload(self, course: Course) -> Conclusion:
        model = course.action.model
        before = self._index_before(course)
        self._check_unload(course.server.id, model, before)
        course.sent()
        call = unload_call(
            course.server,
            model,
            self.patience.call_seconds,
            unload_dependents=course.action.unload_dependents,
        )
        conclusion, _index = self._watch(course, call, UnloadWatch(model, before, self.patience).judge)
        return conclusion

    def _check_unload(self, server_id: str, model: str, before: Index) -> None:
        """Triton answers 200 to the unload of anything: what cannot have an effect is not sent."""
        states = states_of(before, model)
        if states & {ModelState.READY, ModelState.LOADING}:
            return
        if ModelState.UNLOADING in states:
            raise InvalidRequest(f"{model} is already unloading. Nothing was sent.")
        # A model whose folder was removed serves on without being listed.
        if any(row.name == model for row in self.reader.statistics(server_id)):
            return
        if not states:
            raise InvalidRequest(f"Nothing to unload: {model} is not in the repository index.")
        raise InvalidRequest(f"Nothing to unload: {model} is not loaded.")

    def _index_before(self, course: Course) -> Index:
        try:
            return self.reader.index(course.server.id)
        except SourceError as error:
            raise InvalidRequest(
                f"Nothing was sent: the repository index cannot be read. {source_sentence(error)}",
                detail=error.detail,
            ) from error

    def _watch(self, course: Course, call: RepositoryCall, judge: Judge) -> tuple[Conclusion, Index]:
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
            return Conclusion(Outcome.FAILED, load_failure(model, error.detail), text or error.detail)
        return Conclusion(Outcome.FAILED, source_sentence(error), error.detail)

    def _still_serving(self, conclusion: Conclusion, index: Index, model: str) -> Conclusion:
        if conclusion.outcome is not Outcome.FAILED or model not in ready_models(index):
            return conclusion
        return Conclusion(
            conclusion.outcome,
            f"{conclusion.sentence}. The version loaded before stays READY and serves on",
            conclusion.detail,
        )


def _reloaded(model: str, effect: ReloadEffect) -> Conclusion:
    return Conclusion(Outcome.DONE, f"{model}: {effect.sentence}")


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
        f"{course.action.model} is still {course.action.kind.doing} after {seconds / 60:.0f} min "
        "and is no longer watched: the table shows its state",
    )
