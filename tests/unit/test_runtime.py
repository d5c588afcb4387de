"""The runtime without polling: fed with saved answers, it derives everything once and tells who is who."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import runtime as runtime_module
import triage.figures as figures_module
from collectors.exposition import SeriesCache, read_page
from collectors.repository import index_samples
from collectors.statistics import parse_statistics, statistics_samples
from control.journal import Journal
from history.events import EventKind
from history.protocol import Grid
from runtime import Runtime
from settings import Settings
from signals.definition import Level
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.errors import NoAnswer, SourceError
from telemetry.facts import IndexEntry, ModelState, ServerMetadata
from telemetry.identity import ModelKey, Server
from telemetry.scrape import Scrape, Source

CASES = Path(__file__).parent.parent / "fixtures" / "cases"
SANDBOX = Server("sandbox", "http://h:8000", "http://h:8002", expected_server_name="tritonscope-1a2b")
OTHER = Server("other", "http://g:8000", "http://g:8002")
START = 1_700_000_000.0


@pytest.fixture
def process() -> Runtime:
    return Runtime(Settings(servers=(SANDBOX, OTHER), live_window_seconds=30))


class Feed:
    """Hands saved answers to a runtime as its poller would."""

    def __init__(self, process: Runtime, server: str = "sandbox") -> None:
        self._process = process
        self._server = server
        self._cache = SeriesCache()

    def page(self, at: float, name: str) -> None:
        page = read_page((CASES / name).read_text(), self._cache)
        self._process.accept(Scrape(self._server, Source.METRICS, at, 0.01, page.samples, page))

    def index(self, at: float, *entries: IndexEntry) -> None:
        self._process.accept(Scrape(self._server, Source.INDEX, at, 0.01, index_samples(entries), entries))

    def statistics(self, at: float, executions: int) -> None:
        rows, _ = parse_statistics(
            {
                "model_stats": [
                    {
                        "name": "alpha",
                        "version": "1",
                        "inference_count": executions,
                        "execution_count": executions,
                        "last_inference": 1,
                        "inference_stats": {"success": {"count": executions}, "fail": {"count": 0}},
                    }
                ]
            }
        )
        samples = statistics_samples(rows)
        self._process.accept(Scrape(self._server, Source.STATISTICS, at, 0.01, samples, rows))

    def metadata(self, at: float, name: str) -> None:
        payload = ServerMetadata(name, "2.51.0")
        self._process.accept(Scrape(self._server, Source.METADATA, at, 0.01, payload=payload))

    def failure(self, at: float, source: Source) -> None:
        error: SourceError = NoAnswer("h:8002 gave no answer within 1.8 s")
        self._process.accept(Scrape(self._server, source, at, 1.8, error=error))


def ready(name: str) -> IndexEntry:
    return IndexEntry(name, "1", ModelState.READY)


def test_figures_of_two_pages(process: Runtime) -> None:
    feed = Feed(process)
    feed.page(START, "b07_overload_t0.prom")
    feed.page(START + 10, "b07_overload_t1.prom")
    row = process.report().model(ModelKey("sandbox", "alpha", "1"))
    assert process.now() == START + 10
    assert row is not None
    assert row.signals.number("batch_size_mean") == pytest.approx(4.0)
    assert row.signals.number("queue_us_mean") == pytest.approx(1_900_000)
    assert [facts.key.name for facts in process.inventory().models] == ["alpha"]


def test_ten_viewers_cost_one_computation(process: Runtime) -> None:
    feed = Feed(process)
    feed.page(START, "b07_overload_t0.prom")
    feed.page(START + 10, "b07_overload_t1.prom")
    together = threading.Barrier(10)
    seen: list[object] = []

    def look() -> None:
        together.wait(10)
        process.judgement()
        seen.append(process.report())

    threads = [threading.Thread(target=look) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(seen) == 10
    assert all(report is seen[0] for report in seen)
    assert process.effort.reports == 1
    feed.failure(START + 12, Source.METRICS)
    assert process.report() is not seen[0]
    assert process.effort.reports == 2


def test_a_failed_computation_is_tried_again(process: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    Feed(process).page(START, "b07_overload_t0.prom")
    with monkeypatch.context() as patch:
        patch.setattr(figures_module, "report_of", lambda *_a, **_k: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            process.report()
    assert process.report().at == START


def test_time_of_the_figures_goes_on_while_a_server_fails(process: Runtime) -> None:
    before = time.time()
    assert before <= process.now() <= time.time()
    feed = Feed(process)
    feed.index(START - 5, ready("alpha"))
    assert process.now() == START - 5
    feed.page(START, "b07_overload_t0.prom")
    feed.index(START + 1, ready("alpha"))
    assert process.now() == START
    feed.failure(START + 2, Source.METRICS)
    assert process.now() == START + 2


def test_a_range_is_computed_once_and_has_gaps_not_zeros(process: Runtime) -> None:
    feed = Feed(process)
    feed.page(START, "b07_overload_t0.prom")
    feed.page(START + 10, "b07_overload_t1.prom")
    grid = Grid(START - 20, START + 10, 10.0)
    frame = process.signal_range(
        "queue_us_mean", grid, level=Level.MODEL, server="sandbox", model="alpha", version="1"
    )
    assert frame.keys == (("sandbox", "alpha", "1"),)
    assert np.isnan(frame.values[0, 0])
    assert frame.values[-1, 0] == pytest.approx(1_900_000)
    again = process.signal_range(
        "queue_us_mean", grid, level=Level.MODEL, server="sandbox", model="alpha", version="1"
    )
    assert again is frame


def test_the_verdict_speaks_of_the_whole_judgement(process: Runtime) -> None:
    feed = Feed(process)
    feed.page(START, "b07_overload_t0.prom")
    feed.page(START + 10, "b07_overload_t1.prom")
    assert process.verdict(process.judgement()).sentence
    assert {one.server for one in process.coverage()} == {"sandbox", "other"}


def test_a_server_is_our_sandbox_only_if_it_answers_with_our_id(process: Runtime) -> None:
    feed, other = Feed(process), Feed(process, "other")
    assert not process.is_sandbox("sandbox")
    feed.metadata(START, "tritonscope-1a2b")
    other.metadata(START, "tritonscope-1a2b")
    assert process.is_sandbox("sandbox")
    assert not process.is_sandbox("other")
    assert not process.is_sandbox("nobody")
    feed.metadata(START + 30, "triton")
    assert not process.is_sandbox("sandbox")


def test_nothing_is_written_unasked_while_the_sandbox_does_not_say_who_it_is(process: Runtime) -> None:
    feed = Feed(process)
    assert process.control is not None
    assert not process.control.decide("sandbox", ActionKind.LOAD, "m", by=LOCAL).allowed
    feed.metadata(START, "tritonscope-1a2b")
    assert process.control.decide("sandbox", ActionKind.LOAD, "m", by=LOCAL).allowed
    assert not process.control.decide("other", ActionKind.LOAD, "m", by=LOCAL).allowed
    feed.failure(START + 30, Source.METADATA)
    assert process.is_sandbox("sandbox")
    assert not process.control.decide("sandbox", ActionKind.LOAD, "m", by=LOCAL).allowed


class Pokes:
    """Records what a runtime asks its poller to read at once."""

    def __init__(self, process: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, Source]] = []
        monkeypatch.setattr(
            process.poller, "poke", lambda server, source: self.asked.append((server, source))
        )

    def taken(self) -> list[tuple[str, Source]]:
        asked, self.asked = self.asked, []
        return asked


def test_configurations_are_read_as_soon_as_other_models_are_ready(
    process: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, pokes = Feed(process), Pokes(process, monkeypatch)
    feed.index(START, ready("alpha"))
    assert pokes.taken() == [("sandbox", Source.CONFIG)]
    feed.index(START + 4, ready("alpha"))
    assert pokes.taken() == []
    feed.failure(START + 8, Source.INDEX)
    feed.index(START + 12, ready("alpha"), ready("bravo"))
    assert set(pokes.taken()) == {("sandbox", Source.CONFIG)}


def test_after_a_reload_in_place_the_configuration_is_read_again(
    process: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, pokes = Feed(process), Pokes(process, monkeypatch)
    for step, executions in enumerate((10, 12, 1)):
        feed.page(START + 2 * step, "b07_overload_t0.prom")
        feed.index(START + 2 * step, ready("alpha"))
        feed.statistics(START + 2 * step + 0.1, executions)
    pokes.taken()
    feed.page(START + 6, "b07_overload_t0.prom")
    assert [event.kind for event in process.events.events()] == [EventKind.RELOAD]
    assert pokes.taken() == [("sandbox", Source.CONFIG)]


def test_an_action_on_the_repository_is_followed_at_once(
    process: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    pokes = Pokes(process, monkeypatch)
    assert process.control is not None
    journal: Journal = process.control.journal
    load = journal.begin(Action(ActionKind.LOAD, "sandbox", "alpha", who="somebody", token="t1"), "loading")
    assert pokes.taken() == []
    journal.progress(load.id, sent=True)
    assert pokes.taken() == [("sandbox", Source.INDEX)]
    journal.end(load.id, Conclusion(Outcome.DONE, "done"))
    assert {source for _, source in pokes.taken()} == {
        Source.INDEX,
        Source.METRICS,
        Source.STATISTICS,
        Source.CONFIG,
        Source.PROCESSES,
    }


def test_after_a_restart_the_control_mode_is_open_again(process: Runtime) -> None:
    feed = Feed(process)
    assert process.control is not None
    process.control.policy.note_control_mode("sandbox", "none or poll")
    feed.metadata(START, "tritonscope-1a2b")
    assert process.control.control_mode("sandbox") == "none or poll"
    feed.metadata(START + 60, "another")
    assert [event.kind for event in process.events.events()] == [EventKind.RESTART]
    assert process.control.control_mode("sandbox") is None


def test_health_is_dead_only_without_a_poller() -> None:
    idle = Runtime(Settings(servers=(Server("m", None, None),)))
    assert idle.health()["status"] == "dead"
    idle.start()
    health = idle.health()
    idle.stop()
    assert health == {"status": "ok", "poller_age_seconds": 0.0, "servers": {"m": None}}
    assert idle.health()["status"] == "dead"


@pytest.fixture
def without_process() -> Iterator[None]:
    runtime_module.shut_down()
    yield
    runtime_module.shut_down()


@pytest.mark.usefixtures("without_process")
def test_there_is_one_runtime_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_module, "load_settings", lambda: Settings(servers=()))
    first = runtime_module.current()
    assert first.running
    assert runtime_module.current() is first
    brought = Runtime(Settings(servers=()))
    runtime_module.install(brought)
    assert runtime_module.current() is brought
    assert not first.running
    assert not brought.running
    runtime_module.shut_down()
    assert runtime_module.current() is not brought
