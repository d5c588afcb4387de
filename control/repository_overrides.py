"""A load with another configuration and the way back, each watched to its end and checked afterwards."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from control.override import check_override, raw_config
from control.performer import Course
from control.repository_watch import Index, LoadWatch, UnloadWatch, ready_models, states_of
from control.repository_watcher import Watcher, still_serving
from control.triton_calls import load_call, unload_call
from control.wording import source_sentence
from telemetry.actions import Conclusion, Outcome
from telemetry.config_diff import changes_between, in_words
from telemetry.errors import InvalidRequest, SourceError
from telemetry.facts import ModelState

LOST_AT_RESTART = "it is lost when the model is unloaded or the server restarts"


def override(watcher: Watcher, course: Course, *, code_allowed: bool) -> Conclusion:
    """Load the action's configuration; the model serves on with the one before until it is ready."""
    model, server = course.action.model, course.server
    wanted = course.action.config
    if wanted is None:
        raise InvalidRequest(f"No configuration was given to load {model} with. Nothing was sent.")
    before = watcher.index_before(course)
    _check_ready(before, model, "to override its configuration")
    running = _config(watcher, course)
    check_override(running, wanted, code_allowed=code_allowed)
    if not changes_between(running, wanted):
        return Conclusion(Outcome.DONE, f"{model} already runs with this configuration. Nothing was sent.")
    began = time.monotonic()
    course.sent()
    call = load_call(server, model, watcher.patience.call_seconds, config=wanted)
    conclusion, index = watcher.watch(course, call, LoadWatch(model, before, watcher.patience).judge)
    if conclusion.outcome is Outcome.FAILED:
        return still_serving(conclusion, index, model)
    now = _config_or_none(watcher, course)
    if conclusion.outcome is Outcome.DONE or (now is not None and not changes_between(wanted, now)):
        return _overridden(model, running, wanted, now, time.monotonic() - began)
    return conclusion


def _overridden(
    model: str,
    before: Mapping[str, Any],
    wanted: Mapping[str, Any],
    now: Mapping[str, Any] | None,
    took: float,
) -> Conclusion:
    if now is None:
        return Conclusion(
            Outcome.DONE,
            f"{model} is loaded with the new configuration after {took:.1f} s; what it runs with now could "
            f"not be read. {LOST_AT_RESTART.capitalize()}",
        )
    made = changes_between(before, now)
    if not made:
        return Conclusion(
            Outcome.UNKNOWN,
            f"The server accepted the load of {model} after {took:.1f} s and still runs it with the "
            "configuration before",
        )
    sentence = f"{model} runs with {in_words(made)} after {took:.1f} s; {LOST_AT_RESTART}"
    asked = {change.path: change.after for change in changes_between(before, wanted)}
    other = [change for change in made if asked.get(change.path, change.before) != change.after]
    if other:
        sentence += f". Not as asked for, the server chose itself: {in_words(other)}"
    return Conclusion(Outcome.DONE, sentence)


def revert(watcher: Watcher, course: Course) -> Conclusion:
    """Unload and load: the only way that brings back the configuration on disk whatever was overridden.

    A plain load keeps an override (the server sees no changed file), so serving is interrupted.
    """
    model = course.action.model
    before = watcher.index_before(course)
    _check_ready(before, model, "to revert it: the next load takes the configuration on disk anyway")
    running = _config(watcher, course)
    began = time.monotonic()
    course.sent()
    unload = unload_call(course.server, model, watcher.patience.call_seconds)
    gone, _ = watcher.watch(course, unload, UnloadWatch(model, before, watcher.patience).judge)
    if gone.outcome is not Outcome.DONE:
        return Conclusion(gone.outcome, f"Not reverted: {gone.sentence}", gone.detail)
    load = load_call(course.server, model, watcher.patience.call_seconds)
    unloaded = tuple(entry for entry in before if entry.name != model)
    back, index = watcher.watch(course, load, LoadWatch(model, unloaded, watcher.patience).judge)
    took = time.monotonic() - began
    if back.outcome is not Outcome.DONE:
        return Conclusion(
            back.outcome,
            f"{model} was unloaded, and is not loaded again: {back.sentence}. It serves nothing now",
            back.detail,
        )
    missing = _not_back(watcher, course, before, index)
    return _reverted(model, running, _config_or_none(watcher, course), took, missing)


def _reverted(
    model: str, before: Mapping[str, Any], now: Mapping[str, Any] | None, took: float, missing: list[str]
) -> Conclusion:
    if now is None:
        what = "its configuration now could not be read"
    elif changes := changes_between(before, now):
        what = in_words(changes)
    else:
        what = "the same configuration as before: it had not been overridden"
    sentence = f"{model} runs from its files again ({what}); it was not served for {took:.1f} s"
    if missing:
        sentence += f". Not ready again: {', '.join(missing)}"
    return Conclusion(Outcome.DONE, sentence)


def _not_back(watcher: Watcher, course: Course, before: Index, index: Index) -> list[str]:
    """What was ready before and is not now: ensembles come back by themselves, a moment later."""
    until = time.monotonic() + watcher.patience.settle_seconds
    while missing := sorted(ready_models(before) - ready_models(index)):
        if time.monotonic() > until:
            break
        course.say(f"waiting for {', '.join(missing)} to come back")
        time.sleep(watcher.patience.poll_seconds)
        try:
            index = watcher.reader.index(course.server.id)
        except SourceError:
            # Asked again until the time is up; what is then not seen ready is named.
            continue
    return missing


def _check_ready(index: Index, model: str, why: str) -> None:
    states = states_of(index, model)
    if ModelState.UNLOADING in states:
        raise InvalidRequest(f"{model} is still unloading: wait until that is done. Nothing was sent.")
    if ModelState.READY not in states:
        raise InvalidRequest(f"{model} is not loaded: it must be {why}. Nothing was sent.")


def _config(watcher: Watcher, course: Course) -> Mapping[str, Any]:
    try:
        return raw_config(watcher.reader.config(course.server.id, course.action.model))
    except SourceError as error:
        raise InvalidRequest(
            f"Nothing was sent: the running configuration cannot be read. {source_sentence(error)}",
            detail=error.detail,
        ) from error


def _config_or_none(watcher: Watcher, course: Course) -> Mapping[str, Any] | None:
    try:
        return raw_config(watcher.reader.config(course.server.id, course.action.model))
    except SourceError:
        return None
