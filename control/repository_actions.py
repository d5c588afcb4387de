"""Load, unload, reload: sent once, watched on the index until it says how they ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from control.memory_change import memory_changes, reading_after
from control.override import check_override, raw_config
from control.performer import Course
from control.ports import MemoryReader
from control.reload_effect import ReloadEffect, effect_of, facts_before
from control.repository_overrides import override, revert
from control.repository_watch import (
    Index,
    LoadWatch,
    UnloadWatch,
    also_started,
    ready_models,
    states_of,
)
from control.repository_watcher import Watcher, still_serving
from control.triton_calls import load_call, unload_call
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.config_diff import journal_parameters
from telemetry.errors import InvalidRequest, TritonscopeError
from telemetry.facts import ModelState


@dataclass(frozen=True, slots=True)
class RepositoryActions:
    """What is done to a repository. `is_sandbox` says where an override may change any field."""

    watcher: Watcher
    is_sandbox: Callable[[str], bool]
    memory: MemoryReader

    def prepared(self, action: Action) -> Action:
        """The action with what the journal tells of it: the fields an override changes, before and after."""
        if action.kind is not ActionKind.OVERRIDE or action.config is None:
            return action
        try:
            running = raw_config(self.watcher.reader.config(action.server, action.model))
            check_override(running, action.config, code_allowed=self.is_sandbox(action.server))
        except TritonscopeError:
            # The action will read and check again, and be refused with the reason: that is recorded too.
            return action
        told = journal_parameters(running, action.config)
        return replace(action, parameters={**action.parameters, **told})

    def run(self, course: Course) -> Conclusion:
        """Do the course's action and return how it ended, with the memory in use before and after it."""
        before = self.memory.memory(course.server.id)
        conclusion = self._run(course)
        if before is None or not course.was_sent or conclusion.outcome is not Outcome.DONE:
            return conclusion
        course.say("reading the memory in use")
        after = reading_after(self.memory, course.server.id)
        return replace(conclusion, memory=memory_changes(course.action.model, before, after))

    def _run(self, course: Course) -> Conclusion:
        """Do the course's action and return how it ended; blocks until then."""
        kind = course.action.kind
        if kind is ActionKind.UNLOAD:
            return self._unload(course)
        if kind is ActionKind.OVERRIDE:
            return override(self.watcher, course, code_allowed=self.is_sandbox(course.server.id))
        if kind is ActionKind.REVERT:
            return revert(self.watcher, course)
        return self._load(course)

    def _load(self, course: Course) -> Conclusion:
        model, server = course.action.model, course.server
        before = self.watcher.index_before(course)
        if ModelState.UNLOADING in states_of(before, model):
            raise InvalidRequest(f"{model} is still unloading: load it when that is done. Nothing was sent.")
        facts = facts_before(self.watcher.reader, server.id, model) if model in ready_models(before) else None
        began = time.monotonic()
        course.sent()
        call = load_call(server, model, self.watcher.patience.call_seconds)
        watch = LoadWatch(model, before, self.watcher.patience)
        conclusion, index = self.watcher.watch(course, call, watch.judge)
        if conclusion.outcome is not Outcome.DONE:
            return still_serving(conclusion, index, model)
        if facts is not None:
            return _reloaded(
                model, effect_of(self.watcher.reader, server.id, facts, time.monotonic() - began)
            )
        took = time.monotonic() - began
        return Conclusion(
            Outcome.DONE, f"{conclusion.sentence} after {took:.1f} s{also_started(before, index, model)}"
        )

    def _unload(self, course: Course) -> Conclusion:
        model = course.action.model
        before = self.watcher.index_before(course)
        self._check_unload(course.server.id, model, before)
        course.sent()
        call = unload_call(
            course.server,
            model,
            self.watcher.patience.call_seconds,
            unload_dependents=course.action.unload_dependents,
        )
        conclusion, _index = self.watcher.watch(
            course, call, UnloadWatch(model, before, self.watcher.patience).judge
        )
        return conclusion

    def _check_unload(self, server_id: str, model: str, before: Index) -> None:
        """Triton answers 200 to the unload of anything: what cannot have an effect is not sent."""
        states = states_of(before, model)
        if states & {ModelState.READY, ModelState.LOADING}:
            return
        if ModelState.UNLOADING in states:
            raise InvalidRequest(f"{model} is already unloading. Nothing was sent.")
        # A model whose folder was removed serves on without being listed.
        if any(row.name == model for row in self.watcher.reader.statistics(server_id)):
            return
        if not states:
            raise InvalidRequest(f"Nothing to unload: {model} is not in the repository index.")
        raise InvalidRequest(f"Nothing to unload: {model} is not loaded.")


def _reloaded(model: str, effect: ReloadEffect) -> Conclusion:
    return Conclusion(Outcome.DONE, f"{model}: {effect.sentence}")
