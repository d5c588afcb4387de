"""What the process answers beside its pages: health, its own metrics, plotly's script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.requests import Request

import runtime
import server
from collectors.exposition import SeriesCache, read_page
from control.restoration import Restoration
from runtime import Runtime
from settings import Settings
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.catalogue import Kind
from telemetry.identity import Server
from telemetry.journal_choice import JournalChoice
from telemetry.own_families import OWN_FAMILIES
from telemetry.scrape import Scrape, Series, Source

CASES = Path(__file__).parent.parent / "fixtures" / "cases"


@pytest.fixture
def process() -> Iterator[Runtime]:
    """A runtime of one server, fed with one page; its poller knows no source to ask."""
    process = Runtime(Settings(servers=(Server("s1", None, None),)))
    page = read_page((CASES / "a02_counter_suffix.prom").read_text(), SeriesCache())
    process.accept(Scrape("s1", Source.METRICS, 1_700_000_000.0, 0.01, page.samples, page))
    runtime.install(process)
    yield process
    runtime.shut_down()


def request(path: str) -> Request:
    return Request({"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""})


def test_health_is_503_only_when_the_poller_is_dead(process: Runtime) -> None:
    answer = asyncio.run(server._healthz(request("/healthz")))
    assert answer.status_code == 503
    assert json.loads(bytes(answer.body))["status"] == "dead"
    process.start()
    answer = asyncio.run(server._healthz(request("/healthz")))
    assert answer.status_code == 200
    assert json.loads(bytes(answer.body)) == {
        "status": "ok",
        "poller_age_seconds": 0.0,
        "servers": {"s1": None},
    }


def test_its_own_metrics_are_a_metrics_page(process: Runtime) -> None:
    page = read_page(server.own_metrics(process).decode())
    assert page.notices == ()
    values = {
        series.name: value for series, value in zip(page.samples.series, page.samples.values, strict=True)
    }
    assert values["tritonscope_reports_total"] == process.effort.reports == 1
    assert values["tritonscope_report_duration_seconds"] == process.effort.last_report_seconds
    assert values["tritonscope_history_bytes"] == process.ring.nbytes() > 0
    assert page.families["tritonscope_poller_failures_total"].kind is Kind.COUNTER
    assert page.families["tritonscope_findings"].kind is Kind.GAUGE
    assert not [series for series in page.samples.series if series.name.startswith("nv_")]


def test_actions_are_counted_and_a_journal_that_is_held_is_told(tmp_path: Path) -> None:
    choice = JournalChoice(tmp_path / "journal.jsonl")
    lab = Server("lab", "http://lab:8000", None, control=True)
    process = Runtime(Settings(servers=(lab,), journal=choice))
    second = Runtime(Settings(servers=(lab,), journal=choice))
    assert process.control is not None
    process.control.journal.intend(Restoration("lab", "alpha", None, "the run"))
    job = process.control.perform(
        Action(ActionKind.TEST_REQUEST, "lab", "alpha"), lambda course: Conclusion(Outcome.DONE, "answered"),
        by=LOCAL,
    )  # fmt: skip
    job.wait(5.0)
    values = {
        (series.name, *(value for _, value in series.labels)): value for series, value in _samples(process)
    }
    assert values["tritonscope_actions_total", "test request", "done", "lab"] == 1
    assert values["tritonscope_restorations_open", "lab"] == 1
    assert values["tritonscope_journal_writable",] == 1
    assert {series.name: value for series, value in _samples(second)}["tritonscope_journal_writable"] == 0
    for one in (process, second):
        one.stop()


def test_every_family_is_in_the_documentation(process: Runtime) -> None:
    documented = {family.exposed for family in OWN_FAMILIES}
    lab = Runtime(Settings(servers=(Server("lab", "http://lab:8000", None, control=True),)))
    reported = {series.name for one in (process, lab) for series, _ in _samples(one)}
    assert {name for name in reported if name.startswith("tritonscope_")} <= documented


def _samples(process: Runtime) -> list[tuple[Series, float]]:
    page = read_page(server.own_metrics(process).decode())
    return list(zip(page.samples.series, page.samples.values.tolist(), strict=True))


def test_plotlys_script_is_the_one_of_the_package() -> None:
    script = server.plotly_script()
    assert script.stat().st_size > 1_000_000
    with script.open(encoding="utf-8") as text:
        assert "plotly.js v" in text.read(200)


def test_the_addresses() -> None:
    assert sorted({route.path for route in server.routes()}) == [
        "/healthz", "/incident.html", "/incident.zip", "/metrics", "/plotly.min.js", "/sign-in", "/sign-out",
    ]  # fmt: skip
