"""Servers that come and go while the process runs: polled or not, told as events, never a finding."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from collectors.exposition import SeriesCache, read_page
from collectors.repository import index_samples
from collectors.roster import REMEMBERED_SECONDS
from history.events import EventKind
from history.protocol import Grid
from runtime import Runtime
from settings import load_settings
from telemetry.errors import Unreachable
from telemetry.facts import IndexEntry, ModelState
from telemetry.identity import ModelKey
from telemetry.scrape import Scrape, Source

CASES = Path(__file__).parent.parent / "fixtures" / "cases"
B = "b:8002"


class Fleet:
    """A process with the server `a` in its settings and others in a `file_sd` file."""

    def __init__(self, folder: Path) -> None:
        self._file, self._written = folder / "fleet.yml", 0
        settings = folder / "tritonscope.yml"
        settings.write_text("servers:\n  - {id: a, url: 'a:8000'}\ndiscovery:\n  - file: fleet.yml\n")
        self.lists()
        self.process = Runtime(load_settings({}, settings))
        self._cache = SeriesCache()
        self.look()

    def lists(self, *targets: str) -> None:
        self._file.write_text(f"- targets: [{', '.join(targets)}]\n")
        self._written += 10**9
        os.utime(self._file, ns=(self._written, self._written))

    def look(self) -> None:
        self.process._servers_changed(self.process.roster.check())

    def reads(self, server: str, at: float, page: str) -> None:
        read = read_page((CASES / page).read_text(), self._cache)
        self.process.accept(Scrape(server, Source.METRICS, at, 0.01, read.samples, read))
        index = (IndexEntry("alpha", "1", ModelState.READY),)
        self.process.accept(Scrape(server, Source.INDEX, at, 0.01, index_samples(index), index))

    def fails(self, server: str, at: float) -> None:
        error = Unreachable(f"{server} is not reachable: connection refused")
        for source in (Source.METRICS, Source.STATISTICS, Source.INDEX):
            self.process.accept(Scrape(server, source, at, 0.01, error=error))

    def jobs(self, server: str) -> set[Source]:
        return {source for name, source in self.process.poller.health() if name == server}

    def events(self) -> list[tuple[str, EventKind]]:
        return [(event.server, event.kind) for event in self.process.events.events()]


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def test_a_server_that_comes_is_polled_and_told(fleet: Fleet) -> None:
    assert [server.id for server in fleet.process.servers] == ["a"]
    fleet.lists("b:8002")
    fleet.look()
    assert [server.id for server in fleet.process.servers] == ["a", B]
    assert fleet.jobs(B) >= {Source.METRICS, Source.STATISTICS, Source.INDEX, Source.CONFIG, Source.METADATA}
    (event,) = fleet.process.events.events()
    assert (event.kind, event.text) == (EventKind.JOINED, "b:8002 came: it is in fleet.yml now")
    assert {one.server for one in fleet.process.coverage()} == {"a", B}


def test_a_server_that_goes_is_an_event_its_models_are_gone_and_nothing_is_found(fleet: Fleet) -> None:
    now = time.time()
    fleet.lists("b:8002")
    fleet.look()
    for step, page in enumerate(("b07_overload_t0.prom", "b07_overload_t1.prom")):
        fleet.reads("a", now - 20 + 10 * step, page)
        fleet.reads(B, now - 20 + 10 * step, page)
    assert fleet.process.report().model(ModelKey(B, "alpha", "1")) is not None
    # As a pod that is being ended: it refuses first, and leaves the list then.
    fleet.fails(B, now - 5)
    assert [finding.server for finding in fleet.process.judgement().findings if finding.server == B]
    fleet.lists()
    fleet.look()
    assert fleet.jobs(B) == set()
    assert fleet.events()[-1] == (B, EventKind.LEFT)
    facts = fleet.process.inventory().get(ModelKey(B, "alpha", "1"))
    assert facts is not None and facts.state is ModelState.GONE
    assert facts.since == fleet.process.gone[B] == pytest.approx(time.time(), abs=30)
    row = fleet.process.report().model(ModelKey(B, "alpha", "1"))
    assert row is not None and row.signals.number("requests_per_second") is None
    assert {one.server for one in fleet.process.coverage()} == {"a"}
    assert not [one for one in fleet.process.judgement().findings if one.server == B]
    assert fleet.process.health()["servers"].keys() == {"a"}
    assert {row.server for row in fleet.process.report().servers} == {"a"}


def test_what_was_read_of_a_server_that_went_stays_on_charts_and_ends_there(fleet: Fleet) -> None:
    now = float(int(time.time()))
    fleet.lists("b:8002")
    fleet.look()
    fleet.reads(B, now - 20, "b07_overload_t0.prom")
    fleet.reads(B, now - 10, "b07_overload_t1.prom")
    fleet.lists()
    fleet.look()
    went = fleet.process.gone[B]
    frame = fleet.process.ring.gauge_range(
        "nv_inference_request_success", ("server", "model"), Grid(now - 20, now + 20, 10.0)
    )
    column = frame.column((B, "alpha"))
    assert column is not None
    assert np.isfinite(column[:2]).all()
    assert np.isnan(column[[now + step > went for step in (-20, -10, 0, 10, 20)]]).all()
    # A reading that was under way is not taken any more.
    fleet.reads(B, went + 1, "b07_overload_t1.prom")
    newest = fleet.process.ring.last(B, Source.METRICS)
    assert newest is not None and newest.at == now - 10


def test_a_server_that_returns_goes_on_where_it_was_and_was_not_restarted(fleet: Fleet) -> None:
    now = time.time()
    fleet.lists("b:8002")
    fleet.look()
    fleet.reads(B, now - 20, "b07_overload_t1.prom")
    fleet.lists()
    fleet.look()
    fleet.lists("b:8002")
    fleet.look()
    # Its counters begin again: another process stands there. Nobody saw it restart.
    fleet.reads(B, time.time() + 1, "b07_overload_t0.prom")
    assert [kind for _, kind in fleet.events()] == [EventKind.JOINED, EventKind.LEFT, EventKind.JOINED]
    facts = fleet.process.inventory().get(ModelKey(B, "alpha", "1"))
    assert facts is not None and facts.state is ModelState.READY
    assert fleet.process.gone == {}


def test_what_it_was_like_is_not_held_against_who_comes_back(fleet: Fleet) -> None:
    fleet.lists("b:8002")
    fleet.look()
    for step in range(8):
        # Two processes that answer in turn: their counters fall and are back.
        fleet.reads(B, time.time() - 20 + step, f"b07_overload_t{1 - step % 2}.prom")
    assert fleet.process._one_server.doubt(B)
    fleet.lists()
    fleet.look()
    assert fleet.process._one_server.doubt(B) == ""
    assert fleet.process._configs.known(B, "alpha") is None


def test_after_an_hour_nothing_is_left_of_it(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.lists("b:8002")
    fleet.look()
    fleet.reads(B, time.time() - 5, "b07_overload_t0.prom")
    fleet.lists()
    fleet.look()
    assert B in fleet.process.ring.servers()
    later = time.time() + REMEMBERED_SECONDS + 1
    monkeypatch.setattr(fleet.process.roster, "_clock", lambda: later)
    fleet.look()
    assert B not in fleet.process.ring.servers()
    assert fleet.process.inventory().of_server(B) == ()


def test_a_broken_list_changes_nothing_and_is_a_notice(fleet: Fleet) -> None:
    fleet.lists("b:8002")
    fleet.look()
    fleet.lists("b:8002, [")
    fleet.look()
    assert [server.id for server in fleet.process.servers] == ["a", B]
    (notice,) = fleet.process.notices
    assert (notice.source, notice.line) == ("fleet.yml", 1)
    assert fleet.events() == [(B, EventKind.JOINED)]
