"""Series of actions: so many at a time, once per click, and what stops them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from control.journal import Journal
from control.performer import Course, Job, Performer
from control.policy import Policy
from control.several import NOT_BEGUN, Several, Step
from telemetry.access import LOCAL, Identity
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.errors import AlreadyRunning
from telemetry.identity import Server

LIMIT_SECONDS = 20.0


def loads(*models: str) -> list[Action]:
    return [Action(ActionKind.LOAD, "a", model) for model in models]


class Plant:
    """A real performer whose work is what the test says, with a count of what runs side by side."""

    def __init__(self, work: Callable[[str], Outcome]) -> None:
        server = Server("a", "http://127.0.0.1:9", None, control=True)
        self.performer = Performer(Policy(lambda: (server,), lambda _: False), Journal())
        self.work = work
        self.lock = threading.Lock()
        self.now = self.most = 0
        self.order: list[str] = []
        self.several = Several(self.perform)

    def perform(self, action: Action, by: Identity) -> Job:
        if action.model == "busy":
            raise AlreadyRunning("Already running, since 14:02:11 by ops: loading busy. Nothing was sent.")
        return self.performer.perform(action, self._run, by=by)

    def _run(self, course: Course) -> Conclusion:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.order.append(course.action.model)
        outcome = self.work(course.action.model)
        with self.lock:
            self.now -= 1
        return Conclusion(outcome, f"{course.action.model} {outcome.value}")


def test_two_at_a_time_and_one_that_fails_does_not_stop_the_others() -> None:
    both = threading.Barrier(2, timeout=LIMIT_SECONDS)

    def work(model: str) -> Outcome:
        # Passes only while exactly two run side by side.
        both.wait()
        return Outcome.FAILED if model == "m2" else Outcome.DONE

    plant = Plant(work)
    series = plant.several.begin("load", loads("m1", "m2", "busy", "m3", "m4"), by=LOCAL, token="t")
    assert series.wait(LIMIT_SECONDS)
    assert plant.most == 2
    assert [(step.done, step.over) for step in series.steps] == [
        (True, True), (False, True), (False, True), (True, True), (True, True),
    ]  # fmt: skip
    assert series.steps[2].refusal.startswith("Already running")
    assert series.sentence() == "3 of 5 done, 2 not"


def test_replicas_come_one_after_the_other_and_none_after_the_first_failure() -> None:
    plant = Plant(lambda model: Outcome.FAILED if model == "m2" else Outcome.DONE)
    series = plant.several.begin(
        "load", loads("m1", "m2", "m3"), by=LOCAL, token="t", at_a_time=1, stops=True
    )
    assert series.wait(LIMIT_SECONDS)
    assert (plant.most, plant.order) == (1, ["m1", "m2"])
    assert [step.refusal for step in series.steps] == ["", "", NOT_BEGUN]
    assert series.steps[2].record is None
    assert series.sentence() == "1 of 3 done, 1 not, 1 not begun"


def test_a_second_click_gets_the_series_of_the_first() -> None:
    go = threading.Event()
    plant = Plant(lambda model: Outcome.DONE if go.wait(LIMIT_SECONDS) else Outcome.FAILED)
    first = plant.several.begin("load", loads("m1", "m2", "m3"), by=LOCAL, token="t")
    second = plant.several.begin("load", loads("m1", "m2", "m3"), by=LOCAL, token="t")
    assert first is second
    assert first.running
    go.set()
    assert first.wait(LIMIT_SECONDS)
    assert sorted(plant.order) == ["m1", "m2", "m3"]
    assert plant.several.all() == (first,)
    assert not Step(loads("m1")[0]).over
