"""Memory before and after loads, and models that hold more after each of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from history.events import EventLog
from history.memory_changes import (
    BeforeAfter,
    LoadMark,
    MemoryChange,
    memory_change,
    reload_growth,
)
from history.memory_ledger import MemoryLedger, load_marks
from history.ring import Ring
from telemetry.actions import Action, ActionKind, Outcome, Record
from telemetry.facts import IndexEntry, ModelState
from telemetry.memory import CPU, ServerProcesses
from telemetry.scrape import Samples, Scrape, Series, Source

MIB = 2.0**20
USED = Series("nv_gpu_memory_used_bytes", (("gpu_uuid", "G"),))
T0 = 1_000_000.0


def held(model: str, kind: str = "CPU", device: str = "0") -> Series:
    labels = (("device", device), ("kind", kind), ("model", model), ("source", "process"), ("version", "1"))
    return Series("tritonscope_model_memory_bytes", labels)


def scrape(source: Source, at: float, values: dict[Series, float], payload: object = None) -> Scrape:
    samples = Samples(tuple(values), np.array(list(values.values())))
    return Scrape("a", source, at, 0.0, samples, payload)


def ring(used: Sequence[float], processes: Sequence[dict[Series, float]]) -> Ring:
    """Readings two seconds apart."""
    made = Ring()
    for number, value in enumerate(used):
        made.accept(scrape(Source.METRICS, T0 + 2 * number, {USED: value * MIB}))
    for number, values in enumerate(processes):
        payload = ServerProcesses(1)
        made.accept(scrape(Source.PROCESSES, T0 + 2 * number, values, payload))
    return made


LOAD = LoadMark(T0 + 6.0, T0 + 8.0, "a", "m", "load", True)
QUIET = [100, 100, 101, 100, 400, 400, 401, 400, 400]
PROCESS = [{}, {}, {}, {}, {held("m"): 200 * MIB}] + [{held("m"): 220 * MIB}] * 4


def test_before_and_after_of_the_device_and_of_the_models_processes() -> None:
    found = memory_change(ring(QUIET, PROCESS), LOAD, [LOAD], 2.0, T0 + 16)
    assert found.used["G"] == BeforeAfter(100 * MIB, 400 * MIB)
    assert found.used["G"].grown_bytes == 300 * MIB
    assert found.held == {CPU: BeforeAfter(None, 220 * MIB)}
    assert found.disturbed == ""


def test_another_load_at_the_same_time_disturbs() -> None:
    other = LoadMark(T0 + 7.0, T0 + 9.0, "a", "x", "unload", True)
    found = memory_change(ring(QUIET, []), LOAD, [LOAD, other], 2.0, T0 + 16)
    assert found.disturbed == "unload of x at the same time"


def test_a_card_that_moves_by_itself_disturbs() -> None:
    moving = [100, 130, 160, 190, 400, 400, 401, 400, 400]
    found = memory_change(ring(moving, []), LOAD, [LOAD], 2.0, T0 + 16)
    assert found.disturbed == "the memory in use moved by itself before or after"


def test_nothing_reported_is_no_zero() -> None:
    found = memory_change(Ring(), LOAD, [LOAD], 2.0, T0 + 16)
    assert (found.used, found.held) == ({}, {})


def record(
    number: int, kind: ActionKind, began: float, ended: float | None, outcome: Outcome | None = Outcome.DONE
) -> Record:
    return Record(number, Action(kind, "a", "m"), began, "", True, ended, outcome)


def test_an_action_of_ours_and_what_the_index_shows_of_it_are_one() -> None:
    log = EventLog()
    for at, state in (
        (T0, ModelState.UNAVAILABLE),
        (T0 + 9, ModelState.READY),
        (T0 + 60, ModelState.UNAVAILABLE),
    ):
        entries = (IndexEntry("m", "1", state, "unloaded" if state is ModelState.UNAVAILABLE else ""),)
        log.accept(Scrape("a", Source.INDEX, at, 0.0, payload=entries))
    ours = [record(1, ActionKind.LOAD, T0 + 6, T0 + 8)]
    found = load_marks(ours, log.events(server="a"), 2.0)
    assert [(one.what, one.ours, one.ended) for one in found] == [
        ("load", True, T0 + 8),
        ("unload", False, T0 + 60),
    ]
    # While it runs, what the index shows is not taken for something else.
    running = [record(1, ActionKind.LOAD, T0 + 6, None, None)]
    assert [one.what for one in load_marks(running, log.events(server="a"), 2.0)] == []


def test_the_ledger_settles_a_load_when_it_can_be_seen_and_once() -> None:
    records = [record(1, ActionKind.LOAD, T0 + 6, T0 + 8)]
    made = Ring()
    ledger = MemoryLedger(made, EventLog(), lambda: records, lambda server: 2.0)
    for number, value in enumerate(QUIET):
        at = T0 + 2 * number
        for one in (
            scrape(Source.METRICS, at, {USED: value * MIB}),
            scrape(Source.PROCESSES, at, PROCESS[number], ServerProcesses(1)),
        ):
            made.accept(one)
            ledger.accept(one)
        # Three intervals after its end at the earliest.
        assert len(ledger.changes()) == (0 if at < T0 + 14 else 1)
    change = ledger.changes("a", "m")[0]
    assert (change.mark.ours, change.used["G"].grown_bytes) == (True, 300 * MIB)
    assert ledger.changes("a", "other") == ()


def test_what_was_done_before_this_process_began_to_read_is_not_settled_with_what_is_held_now() -> None:
    """The journal outlives the process: its old loads must not get today's memory as their "after"."""
    yesterday = record(1, ActionKind.LOAD, T0 - 86_406, T0 - 86_400)
    just_before = record(2, ActionKind.LOAD, T0 - 12, T0 - 10)
    ended = [yesterday, just_before]
    made = Ring()
    ledger = MemoryLedger(made, EventLog(), lambda: ended, lambda server: 2.0)
    for number in range(8):
        at = T0 + 2 * number
        one = scrape(Source.METRICS, at, {USED: 400 * MIB})
        made.accept(one)
        ledger.accept(one)
    (change,) = ledger.changes()
    assert change.mark.ended == T0 - 10
    # Nothing was read before it, so nothing is known of before.
    assert change.used["G"] == BeforeAfter(None, 400 * MIB)


def load(number: int, after_mib: float | None, *, what: str = "reload", device: str = CPU) -> MemoryChange:
    mark = LoadMark(T0 + 60.0 * number, T0 + 60.0 * number + 5, "a", "m", what, True)
    sides = BeforeAfter(None, None if after_mib is None else after_mib * MIB)
    return MemoryChange(mark, {}, {device: sides})


def test_growth_over_reloads_is_found() -> None:
    (found,) = reload_growth([load(1, 217), load(2, 267), load(3, 317)])
    assert (found.model, found.device, found.loads) == ("m", CPU, 3)
    assert (found.first_bytes, found.last_bytes, found.grown_bytes) == (217 * MIB, 317 * MIB, 100 * MIB)
    assert found.since == T0 + 65


@pytest.mark.parametrize(
    "sizes",
    [
        (217, 217, 218),
        (217, 267),
        (217, 267, 217, 267),
        (217, 219, 221),
        (2000, 2030, 2060),
    ],
)
def test_what_is_no_growth_is_none(sizes: Sequence[float]) -> None:
    assert reload_growth([load(number, size) for number, size in enumerate(sizes)]) == ()


def test_loads_of_different_weeks_are_no_course() -> None:
    weeks = [load(number, 217 + 50 * number) for number in (0, 1, 10_000, 10_001)]
    assert reload_growth(weeks) == ()
    assert reload_growth([*weeks, load(10_002, 1_000_000)])[0].loads == 3


def test_unloads_and_unseen_processes_do_not_count() -> None:
    rows = [load(1, 217), load(2, None, what="unload"), load(3, 267), load(4, None), load(5, 317)]
    assert reload_growth(rows)[0].loads == 3
    on_gpu = [load(number, 1000 + 100 * number, device="GPU-1") for number in range(4)]
    assert reload_growth(on_gpu)[0].device == "GPU-1"
