"""A reload with a gate: load, send the golden request, keep what was loaded or put back what served before.

What can be put back over Triton's API is a version (by a version policy that names it) and a configuration.
Files that were overwritten under the same version number cannot: then the outcome says so.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from control.golden import Asked, GoldenRequests, ask
from control.override import raw_config
from control.performer import Course, Work
from control.repository_watch import Index, LoadWatch
from control.repository_watcher import Watcher
from control.saved_requests import SavedRequest
from control.triton_calls import load_call
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.config_diff import changes_between
from telemetry.errors import InvalidRequest, SourceError
from telemetry.facts import ModelState

GATE = "golden_request"
"""The parameter of an action that asks for the gate, with the value below; the journal tells it."""
OR_REVERT = "revert unless as expected"
TIMEOUT_SECONDS = 30.0
TRIES = 2
"""A first request after a load may be slow or refused: only the second failure counts."""


def is_gated(action: Action) -> bool:
    """True for a reload that is kept only if the golden request is answered as expected."""
    return action.kind is ActionKind.RELOAD and action.parameters.get(GATE) == OR_REVERT


@dataclass(frozen=True, slots=True)
class _Before:
    versions: tuple[str, ...]
    config: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class GatedReload:
    """`work(run)` is the work of `Control.perform` for a gated reload whose load is `run`."""

    watcher: Watcher
    golden: GoldenRequests

    def work(self, run: Work) -> Work:
        """Load by `run`, then probe, then keep or put back."""

        def gated(course: Course) -> Conclusion:
            model = course.action.model
            golden = self.golden.of(course.server.id).get(model)
            if golden is None:
                raise InvalidRequest(
                    f"{model} has no golden request to check the reload with. Nothing was sent."
                )
            before = self._state(course, self.watcher.index_before(course))
            if not before.versions:
                raise InvalidRequest(
                    f"{model} is not loaded: there is nothing to go back to. Nothing was sent."
                )
            loaded = run(course)
            if loaded.outcome is not Outcome.DONE:
                return loaded
            found = self._ask(course, golden)
            if found.cause is None:
                return replace(
                    loaded, sentence=f"{_clause(loaded)}; golden request {golden.name!r} as expected: kept"
                )
            failed = (
                f"{_clause(loaded)}, and it fails its golden request {golden.name!r} "
                f"({found.cause}: {found.sentence})"
            )
            try:
                return self._back(course, golden, before, failed)
            except InvalidRequest as error:
                # Its own words say that nothing was sent, which is no longer so.
                return Conclusion(
                    Outcome.UNKNOWN,
                    f"{failed}. Whether it serves so is not known: the server stopped answering",
                    error.detail or error.sentence,
                )

        return gated

    def _ask(self, course: Course, golden: SavedRequest) -> Asked:
        course.say(f"sending the golden request of {golden.model}")
        found = Asked(None, "")
        for _ in range(TRIES):
            try:
                config = self.watcher.reader.config(course.server.id, golden.model)
            except SourceError as error:
                raise InvalidRequest(
                    f"{golden.model} is loaded, and the golden request was not sent: its configuration "
                    f"cannot be read. {error.sentence}",
                    detail=error.detail,
                ) from error
            found = ask(course.server, config, golden, TIMEOUT_SECONDS)
            if found.cause is None:
                break
        return found

    def _back(self, course: Course, golden: SavedRequest, before: _Before, failed: str) -> Conclusion:
        model = golden.model
        now = self._state(course, self.watcher.index_before(course))
        wanted = _config_back(before, now)
        if wanted is None:
            return Conclusion(
                Outcome.FAILED,
                f"{failed}. It serves so: the files of version {', '.join(now.versions)} were overwritten, "
                "and Triton cannot give back the old ones. Put them back and reload, or unload it; new files "
                "in a version folder of their own can be put back from here",
            )
        course.say(f"putting back what {model} was before")
        began = time.monotonic()
        index = self.watcher.index_before(course)
        call = load_call(course.server, model, self.watcher.patience.call_seconds, config=wanted)
        back, _ = self.watcher.watch(course, call, LoadWatch(model, index, self.watcher.patience).judge)
        after = self._state(course, self.watcher.index_before(course))
        if back.outcome is not Outcome.DONE or set(after.versions) != set(before.versions):
            return Conclusion(
                Outcome.FAILED, f"{failed}. It could not be put back: {back.sentence}", back.detail
            )
        checked = self._ask(course, golden)
        good = (
            "and answers as expected" if checked.cause is None else f"and fails it too ({checked.sentence})"
        )
        took = time.monotonic() - began
        return Conclusion(
            Outcome.FAILED,
            f"{failed}. Put back after {took:.1f} s: version {', '.join(after.versions)} serves again "
            f"{good}, by a configuration that is lost when the model is unloaded or the server restarts: "
            "take the new files away before",
        )

    def _state(self, course: Course, index: Index) -> _Before:
        model = course.action.model
        ready = (one.version for one in index if one.name == model and one.state is ModelState.READY)
        try:
            config = raw_config(self.watcher.reader.config(course.server.id, model))
        except (SourceError, InvalidRequest):
            return _Before(tuple(sorted(ready)), None)
        return _Before(tuple(sorted(ready)), config)


def _config_back(before: _Before, now: _Before) -> Mapping[str, Any] | None:
    """The configuration that brings back what served before; None if nothing over the API can."""
    if before.config is None:
        return None
    if set(before.versions) != set(now.versions):
        wanted = deepcopy(dict(before.config))
        wanted["version_policy"] = {"specific": {"versions": [int(version) for version in before.versions]}}
        return wanted
    if now.config is not None and changes_between(before.config, now.config):
        return before.config
    return None


def _clause(loaded: Conclusion) -> str:
    return loaded.sentence.removesuffix(".")
