"""The poller: steady times, no piled-up readings, no thread lost, quick stop."""

import logging
import threading
import time
from collections.abc import Callable

import pytest

from collectors.plan import jobs_for, live_timeout_seconds
from collectors.poller import Job, Poller, next_due
from telemetry.errors import NoAnswer
from telemetry.identity import Server
from telemetry.scrape import Scrape, Source

SERVER = Server("s1", "http://h:8000", "http://h:8002")


class Gathering:
    """A sink that keeps everything and lets a test wait for a condition."""

    def __init__(self) -> None:
        self.scrapes: list[Scrape] = []
        self._changed = threading.Condition()

    def accept(self, scrape: Scrape) -> None:
        with self._changed:
            self.scrapes.append(scrape)
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[list[Scrape]], bool], seconds: float = 10.0) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self.scrapes), seconds)


class Scripted:
    """A collector whose readings a test decides."""

    def __init__(self, source: Source, read: Callable[[int], Scrape | None] | None = None) -> None:
        self.server = SERVER
        self.source = source
        self.calls = 0
        self._read = read

    def collect(self) -> Scrape:
        self.calls += 1
        scrape = self._read(self.calls) if self._read is not None else None
        return scrape or Scrape("s1", self.source, time.time(), 0.0)


def failed(source: Source) -> Scrape:
    return Scrape("s1", source, time.time(), 0.0, error=NoAnswer("no answer"))


@pytest.mark.parametrize(
    ("due", "now", "expected"),
    [(10.0, 10.3, 12.0), (10.0, 11.9, 12.0), (10.0, 12.0, 14.0), (10.0, 17.1, 18.0), (10.0, 9.9, 12.0)],
)
def test_missed_times_are_skipped_and_the_schedule_does_not_drift(
    due: float, now: float, expected: float
) -> None:
    assert next_due(due, 2.0, now) == expected


def test_a_source_that_hangs_delays_no_other() -> None:
    release = threading.Event()

    def hang(call: int) -> None:
        release.wait(20)

    sink = Gathering()
    jobs = [Job(Scripted(Source.STATISTICS, hang), 0.01), Job(Scripted(Source.METRICS), 0.01)]
    poller = Poller(jobs, sink)
    poller.start()
    sink.wait_for(lambda scrapes: sum(one.source is Source.METRICS for one in scrapes) >= 5)
    assert not any(one.source is Source.STATISTICS for one in sink.scrapes)
    assert jobs[0].collector.calls == 1  # type: ignore[attr-defined]
    began = time.monotonic()
    poller.stop()
    assert time.monotonic() - began < 3
    release.set()


def test_an_exception_becomes_a_failed_scrape_is_logged_once_and_the_loop_lives(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def explode(call: int) -> Scrape | None:
        if call <= 3:
            raise KeyError("boom")
        return None

    sink = Gathering()
    poller = Poller([Job(Scripted(Source.METRICS, explode), 0.01)], sink)
    with caplog.at_level(logging.ERROR):
        poller.start()
        sink.wait_for(lambda scrapes: any(one.ok for one in scrapes))
        poller.stop()
    assert [one.ok for one in sink.scrapes[:4]] == [False, False, False, True]
    assert sink.scrapes[0].error is not None
    assert "failed inside Tritonscope (KeyError)" in sink.scrapes[0].error.sentence
    assert len(caplog.records) == 1


def test_a_sink_that_raises_does_not_end_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    class Raising(Gathering):
        def accept(self, scrape: Scrape) -> None:
            super().accept(scrape)
            raise RuntimeError("full")

    sink = Raising()
    poller = Poller([Job(Scripted(Source.METRICS), 0.01)], sink)
    poller.start()
    sink.wait_for(lambda scrapes: len(scrapes) >= 3)
    poller.stop()
    assert len(caplog.records) == 1


def test_a_poke_reads_at_once() -> None:
    sink = Gathering()
    poller = Poller([Job(Scripted(Source.INDEX), 3600)], sink)
    poller.start()
    sink.wait_for(lambda scrapes: len(scrapes) == 1)
    poller.poke("s1", Source.INDEX)
    sink.wait_for(lambda scrapes: len(scrapes) == 2)
    poller.poke("s1", Source.METRICS)
    poller.poke("nobody", Source.INDEX)
    poller.stop()
    assert len(sink.scrapes) == 2


def test_when_a_server_comes_back_all_its_sources_are_read() -> None:
    sink = Gathering()
    metrics = Scripted(Source.METRICS, lambda call: failed(Source.METRICS) if call <= 2 else None)
    poller = Poller([Job(Scripted(Source.METADATA), 3600), Job(metrics, 0.05)], sink)
    poller.start()
    sink.wait_for(lambda scrapes: sum(one.source is Source.METADATA for one in scrapes) == 2)
    poller.stop()
    good = next(index for index, one in enumerate(sink.scrapes) if one.source is Source.METRICS and one.ok)
    second = [index for index, one in enumerate(sink.scrapes) if one.source is Source.METADATA][1]
    assert second > good


def test_health_counts_rounds_and_failures() -> None:
    sink = Gathering()
    poller = Poller([Job(Scripted(Source.METRICS, lambda call: failed(Source.METRICS)), 0.01)], sink)
    assert not poller.health()["s1", Source.METRICS].alive
    poller.start()
    sink.wait_for(lambda scrapes: len(scrapes) >= 3)
    health = poller.health()["s1", Source.METRICS]
    poller.stop()
    assert health.alive
    assert health.rounds >= 3
    assert health.failures == health.rounds
    assert health.success_age_seconds is None
    assert health.age_seconds < 5


def test_jobs_come_and_go_while_it_runs_and_it_can_start_again() -> None:
    sink = Gathering()
    poller = Poller([], sink)
    poller.start()
    poller.add(Job(Scripted(Source.METRICS), 0.01))
    sink.wait_for(lambda scrapes: len(scrapes) >= 2)
    poller.remove("s1")
    assert poller.health() == {}
    poller.add(Job(Scripted(Source.INDEX), 3600))
    sink.wait_for(lambda scrapes: any(one.source is Source.INDEX for one in scrapes))
    poller.stop()
    count = len(sink.scrapes)
    poller.start()
    sink.wait_for(lambda scrapes: len(scrapes) > count)
    poller.stop()
    assert not poller.running


def test_threads_end_with_the_poller() -> None:
    before = threading.active_count()
    sink = Gathering()
    poller = Poller([Job(Scripted(source), 0.01) for source in Source], sink)
    poller.start()
    sink.wait_for(lambda scrapes: len({one.source for one in scrapes}) == len(Source))
    poller.stop()
    assert threading.active_count() == before


def test_the_plan_of_a_server() -> None:
    jobs = jobs_for(SERVER, 2.0, lambda: None)
    assert {job.collector.source: job.period_seconds for job in jobs} == {
        Source.METRICS: 2.0,
        Source.STATISTICS: 2.0,
        Source.INDEX: 4.0,
        Source.CONFIG: 4.0,
        Source.METADATA: 30.0,
        Source.PROCESSES: 5.0,
    }
    assert [
        job.collector.source for job in jobs_for(Server("m", None, "http://h:8002"), 2.0, lambda: None)
    ] == [Source.METRICS, Source.PROCESSES]
    assert live_timeout_seconds(2.0) < 2.0
    assert live_timeout_seconds(60.0) == 5.0
