"""Memory before and after an action: of the moment where it can be, waited for where a page tells it late."""

from __future__ import annotations

import numpy as np
import pytest

from collectors.exposition import MetricsPage
from control.memory_change import memory_changes, reading_after
from experiments import memory_reader
from experiments.memory_reader import FreshMemoryReader
from telemetry.errors import Unreachable
from telemetry.identity import Server
from telemetry.memory import CPU, GpuCard, MemoryReading, ServerProcesses
from telemetry.scrape import Samples, Series

SERVER = Server("lab", "http://lab:8000", "http://lab:8002/metrics")


class Told:
    """Readings in their order, the last one for ever."""

    def __init__(self, *readings: MemoryReading | None) -> None:
        self.readings = list(readings)
        self.asked = 0

    def memory(self, server_id: str) -> MemoryReading | None:
        self.asked += 1
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def reading(used: int, *, sampled: frozenset[str] = frozenset({"GPU-1"})) -> MemoryReading:
    return MemoryReading(0.0, {"GPU-1": used}, {}, sampled)


def test_a_figure_of_the_page_is_read_again_until_the_server_looked() -> None:
    told = Told(reading(700), reading(700), reading(900), reading(950))
    after = reading_after(told, "lab", next_look_seconds=30.0)
    assert after is not None
    assert (dict(after.used), told.asked) == ({"GPU-1": 900}, 3)
    unchanged = Told(reading(700))
    after = reading_after(unchanged, "lab", next_look_seconds=0.3)
    assert after is not None
    assert (dict(after.used), unchanged.asked >= 2) == ({"GPU-1": 700}, True)


@pytest.mark.parametrize(
    "only", [None, reading(700, sampled=frozenset()), MemoryReading(0.0, {CPU: 5}, {}, frozenset({CPU}))]
)
def test_what_is_of_the_moment_is_not_waited_for(only: MemoryReading | None) -> None:
    told = Told(only)
    assert reading_after(told, "lab", next_look_seconds=30.0) is only
    assert told.asked == 1


def test_a_server_that_is_gone_meanwhile_reports_nothing() -> None:
    assert reading_after(Told(reading(700), None), "lab", next_look_seconds=30.0) is None


def test_nvml_is_believed_before_the_page_and_a_page_alone_is_called_sampled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    series = (
        Series("nv_gpu_memory_used_bytes", (("gpu_uuid", "GPU-1"),)),
        Series("nv_gpu_memory_used_bytes", (("gpu_uuid", "GPU-2"),)),
        Series("nv_cpu_memory_used_bytes", ()),
    )
    page = MetricsPage(Samples(series, np.array([100.0, 200.0, 300.0])), (), {})
    cards = [GpuCard("GPU-1", 0, "a card", 1000, 150)]
    monkeypatch.setattr(
        memory_reader, "read_processes", lambda server: ServerProcesses(7, cards=tuple(cards))
    )
    monkeypatch.setattr(memory_reader, "read_metrics", lambda *given: page)
    found = FreshMemoryReader(lambda: (SERVER,)).memory("lab")
    assert found is not None
    assert dict(found.used) == {"GPU-1": 150, "GPU-2": 200, CPU: 300}
    assert found.sampled == {"GPU-2", CPU}
    assert FreshMemoryReader(tuple).memory("lab") is None

    def gone(*given: object) -> MetricsPage:
        raise Unreachable("lab is not reachable")

    monkeypatch.setattr(memory_reader, "read_metrics", gone)
    cards.clear()
    assert FreshMemoryReader(lambda: (SERVER,)).memory("lab") is None


def test_what_only_one_reading_has_is_not_reported_in_the_other() -> None:
    before = MemoryReading(0.0, {"GPU-1": 5}, {("alpha", "1"): {"GPU-1": 2}, ("alpha", "2"): {"GPU-1": 3}})
    after = MemoryReading(1.0, {CPU: 9}, {("bravo", "1"): {"GPU-1": 4}})
    rows = [(one.where, one.before_bytes, one.after_bytes) for one in memory_changes("alpha", before, after)]
    assert rows == [
        ("all in use on CPU", None, 9),
        ("all in use on GPU-1", 5, None),
        ("alpha itself on GPU-1", 5, None),
    ]
