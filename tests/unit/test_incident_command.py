"""Incident files on the command line and over HTTP: exit statuses, one sentence, only what one may view."""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from starlette.requests import Request
from starlette.responses import Response

import runtime
import server
from collectors.exposition import read_page
from history.alerts import AlertsSeen
from history.bank import BankState
from history.ring import RingState
from replay import Replay
from runtime import Runtime
from settings import Settings, load_settings
from telemetry.access import VIEWER, Access, Grants
from telemetry.alerts import Alert, AlertState
from telemetry.errors import UnusableFile
from telemetry.identity import Server
from telemetry.objective import Objective
from telemetry.scrape import Scrape, Source
from tests.incident_process import START, Watched
from triage.__main__ import main
from triage.incident import take
from triage.incident_file import member, read, recorded_findings, save
from triage.incident_replay import Opened

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "incident.zip"
    Watched().everything().saved(path)
    return path


@pytest.fixture
def installed() -> Iterator[Watched]:
    watched = Watched().everything()
    runtime.install(watched.process)
    yield watched
    runtime.shut_down()


def asked(path: str, query: str = "") -> Response:
    headers = [(b"host", b"triton.example.com")]
    scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "client": ("192.0.2.1", 1)}
    return server._incident(Request({**scope, "query_string": query.encode(), "server": ("h", 80)}))


def ended(answer: Response) -> None:
    assert answer.background is not None
    asyncio.run(answer.background())


def test_findings_of_a_file_in_the_terminal(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--incident", str(file)]) == 1
    assert "broken failed to load" in capsys.readouterr().out
    assert main(["--incident", str(file), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"] == recorded_findings(file)["findings"]


@pytest.mark.parametrize(
    "words",
    [["--incident", "{}"], ["replay", "{}"], ["capture", "--out", "{}x"],
     ["capture", "--out", "{}x", "--url", "a", "--app-url", "b"],
     ["capture", "--out", "{}x", "--app-url", "127.0.0.1:1"]],
)  # fmt: skip
def test_what_cannot_be_done_is_one_sentence_and_status_2(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = tmp_path / "notes.txt"
    foreign.write_text("no zip")
    assert main([word.format(foreign) for word in words]) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1 and len(told.err) > 20
    assert not Path(f"{foreign}x").exists()


def test_rules_that_changed_since_are_told(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triage.__main__.rules_digest", lambda: "another")
    main(["--incident", str(file)])
    assert "rules are others" in capsys.readouterr().err
    monkeypatch.setattr("replay.rules_digest", lambda: "another")
    process = Replay(Opened(read(file)), Settings())
    assert [one.source for one in process.notices] == ["incident"]


def test_the_setting_makes_the_process_a_replay(file: Path) -> None:
    settings = load_settings({"TRITONSCOPE_INCIDENT": str(file), "TRITONSCOPE_CONTROL": "true"})
    process = runtime._of(settings)
    assert isinstance(process, Replay)
    process.start()
    assert process.control is None and not process.running
    assert process.health() == {
        "status": "ok",
        "poller_age_seconds": 0.0,
        "servers": {"sandbox": None, "other": None},
        "replay_of": START + 12,
    }
    assert process.settings.servers == process.servers and not process.settings.control
    with pytest.raises(UnusableFile, match="cannot be read"):
        runtime._of(load_settings({"TRITONSCOPE_INCIDENT": str(file) + "x"}))


def test_the_file_over_http_has_what_the_person_may_view(installed: Watched, tmp_path: Path) -> None:
    # Somebody from elsewhere is a viewer: no names of people, no reasons.
    answer = asked("/incident.zip")
    assert (
        answer.status_code == 200
        and 'filename="tritonscope-incident-' in answer.headers["content-disposition"]
    )
    kept = tmp_path / "got.zip"
    kept.write_bytes(Path(answer.path).read_bytes())  # type: ignore[attr-defined]
    opened = Opened(read(kept))
    assert [one.id for one in opened.servers] == ["sandbox", "other"]
    assert [one.action.who for one in opened.records()] == [""]
    ended(answer)
    assert not Path(answer.path).exists()  # type: ignore[attr-defined]
    only = Access(servers={"other": Grants(anonymous=VIEWER)}, general=Grants(), configured=True)
    installed.process.settings = installed.process.settings.model_copy(update={"access": only})
    part = asked("/incident.html", "server=other")
    page = bytes(part.body).decode()
    assert part.status_code == 200 and "other" in page and "sandbox" not in page
    ended(part)
    refused = asked("/incident.zip", "server=sandbox")
    assert refused.status_code == 409 and b"nothing to capture" in bytes(refused.body)
    ended(refused)


def test_a_strange_range_and_a_second_writer_are_refused(installed: Watched) -> None:
    for minutes in ("", "x", "0", "-5", "nan", "inf"):
        assert asked("/incident.zip", f"minutes={minutes}").status_code == 400
    with server._capturing:
        assert asked("/incident.zip").status_code == 503
    answer = asked("/incident.html", "minutes=5")
    assert answer.status_code == 200 and answer.headers["cache-control"] == "no-store"
    ended(answer)


def test_what_prometheus_answered_to_rules_is_in_the_file(tmp_path: Path) -> None:
    watched = Watched().everything()
    objective = Objective("alpha", errors_budget_ratio=0.001, latency_us=1000.0, slow_budget_ratio=0.01)
    ring = watched.process.ring
    sources = replace(watched.process.sources(), distant=ring, objectives=(objective,))
    path = tmp_path / "far.zip"
    opened = save(take(sources, START + 12), path)
    incident = read(path)
    assert incident.taped and repr(incident.taped) == repr(opened.incident.taped)
    assert Opened(incident).judged().judgement == opened.judged().judgement
    far = [one.question for one in incident.taped if "increase" in one.question]
    assert far and not any("secret" in one for one in far)


def test_alerts_are_told_as_they_were(tmp_path: Path) -> None:
    alert = Alert(
        "TritonDown", {"instance": "other"}, START, None, AlertState.SILENCED, "Alertmanager", "gone"
    )
    seen = AlertsSeen((alert,), ("Prometheus does not answer",), START + 11)
    sources = replace(Watched().everything().process.sources(), alerts=lambda: seen)
    path = tmp_path / "alerts.zip"
    save(take(sources, START + 12), path)
    process = Replay(Opened(read(path)), Settings())
    assert process.alerts.seen() == seen and process.alerts.configured
    page = member(path, "summary.html")
    assert "alert TritonDown on other (silenced), by Alertmanager" in page
    assert "alpha on sandbox runs with another configuration: max_batch_size" in page
    save(take(sources, START + 12, sees=lambda server: server == "sandbox"), path)
    assert Replay(Opened(read(path)), Settings()).alerts.seen() == AlertsSeen()


def test_fifty_models_over_an_hour_are_small(tmp_path: Path, figure: object) -> None:
    """Counters that grow by chance are as bad to pack as real ones; 200 models are four times as much."""
    text = (FIXTURES / "metrics_50models_summary.txt").read_text()
    page = read_page(text)
    ages = np.concatenate([np.arange(3600, 600, -10), np.arange(600, 0, -2)])
    times = ((START - ages) * 1000).astype(np.int64)
    count, chance = len(page.samples.series), np.random.default_rng(1)
    growth = chance.poisson(50, size=(count, len(times))) * chance.integers(1, 3000, size=(count, 1))
    values = page.samples.values[:, None] + np.cumsum(growth, axis=1)
    state = BankState(
        tuple(page.samples.series), times, np.ones(len(times), dtype=np.bool_), values,
        np.full(count, times[0]), np.full(count, times[-1]), int(times[0]), int(times[-1]),
    )  # fmt: skip
    process = Runtime(Settings(servers=(Server("s1", "http://h:8000", "http://h:8002"),)))
    scrape = Scrape("s1", Source.METRICS, START - 2, 0.1, page.samples, page, raw=text)
    process.ring.restore(RingState((("s1", Source.METRICS, state),), (scrape,), (scrape,), ()))
    path = tmp_path / "large.zip"
    save(take(process.sources(), START), path)
    size = path.stat().st_size
    figure(f"incident file of 50 models over an hour: {size / 1e6:.1f} MB")  # type: ignore[operator]
    assert 1e6 < size < 25e6
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
