"""Who is asked by itself and who is not; what is told, and what of it is written to the journal."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import pytest

from collectors.config import parse_config
from control.facade import Control
from control.golden import Asked, GoldenRequests
from control.saved_requests import SavedRequest
from experiments import golden_prober
from experiments.golden_prober import GoldenProber, Hearers, Rhythm, Target
from experiments.golden_side import golden_prober as golden_prober_of
from history.inventory import Inventory
from replay import replayed
from settings import Settings
from telemetry.access import GOLDEN, LOCAL
from telemetry.actions import Action, ActionKind, Outcome
from telemetry.errors import NotAllowed
from telemetry.facts import IndexEntry, ModelConfig, ModelStatistics
from telemetry.golden_choice import GoldenChoice
from telemetry.identity import Server
from telemetry.probe import ProbeCause, ProbeResult
from telemetry.scrape import Scrape, Source
from tests.incident_process import Watched
from tests.unit.test_golden import golden

ROOT = Path(__file__).resolve().parents[2]
SERVER = Server("a1", "http://127.0.0.1:9", None, control=True)
CONFIG = parse_config({"name": "alpha"})


class NobodyAsked:
    """A reader that nothing here reads."""

    def index(self, server_id: str) -> tuple[IndexEntry, ...]:
        raise AssertionError("the index is not read here")

    def statistics(self, server_id: str) -> tuple[ModelStatistics, ...]:
        raise AssertionError("the statistics are not read here")

    def config(self, server_id: str, model: str, version: str = "") -> ModelConfig:
        raise AssertionError("no configuration is read here")


class Desk:
    """A prober whose requests are answered from a list."""

    def __init__(self, folder: Path, server: Server = SERVER, config: ModelConfig = CONFIG) -> None:
        self.server, self.rhythm, self.ready = server, Rhythm(5.0, 1.0), True
        self.answers: Iterator[Asked] = iter(())
        self.results: list[ProbeResult] = []
        self.forgotten: list[str] = []
        self.scrapes: list[Scrape] = []
        self.control = Control(
            lambda: (self.server,), NobodyAsked(), lambda _: False, golden=GoldenRequests(lambda _: folder)
        )
        self.control.golden.keep(golden(1.0))
        self.prober = GoldenProber(
            self.control,
            lambda: (self.server,),
            lambda _: [Target(self.server, "alpha", "3", config)] if self.ready else [],
            lambda _: self.rhythm,
            Hearers(self.results.append, lambda _, model: self.forgotten.append(model), self.scrapes.append),
        )

    def round(self, *answers: Asked) -> None:
        self.answers = iter(answers)
        self.prober.round("a1")
        assert next(self.answers, None) is None, "fewer requests than expected were sent"

    def lines(self) -> list[tuple[str, Outcome | None]]:
        """The journal, oldest first."""
        for record in self.control.records():
            job = self.control.job(record.id)
            if job is not None:
                job.wait(10.0)
        return [(one.sentence, one.outcome) for one in reversed(self.control.records())]


GOOD = Asked(None, "as expected", 900.0, "3")
BAD = Asked(ProbeCause.WRONG_ANSWER, "OUT differs", 900.0, "3")
SILENT = Asked(ProbeCause.UNREACHABLE, "not reachable")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk(tmp_path)
    stand_in(made, monkeypatch)
    return made


def stand_in(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """No request leaves: the answers come from the desk. No pauses either."""

    def ask(server: Server, config: ModelConfig, saved: SavedRequest, timeout_seconds: float) -> Asked:
        return next(desk.answers)

    monkeypatch.setattr(golden_prober, "ask", ask)
    monkeypatch.setattr(golden_prober, "GAP_SECONDS", 0.0)
    monkeypatch.setattr(golden_prober, "AGAIN_SECONDS", 0.0)


def test_only_changes_reach_the_journal_and_all_results_are_told(desk: Desk) -> None:
    desk.round(GOOD)
    desk.round(GOOD)
    desk.round(BAD, BAD)
    desk.round(BAD, BAD)
    desk.round(GOOD)
    assert [one.label for one in desk.results] == ["ok", "ok", "wrong_answer", "wrong_answer", "ok"]
    assert desk.lines() == [
        ("alpha fails its golden request: OUT differs", Outcome.FAILED),
        ("alpha answers its golden request again: as expected", Outcome.DONE),
    ]
    assert {one.action.who for one in desk.control.records()} == {GOLDEN.name}


def test_a_failure_that_is_gone_when_asked_again_is_none(desk: Desk) -> None:
    desk.round(Asked(ProbeCause.QUEUE_FULL, "full"), GOOD)
    assert [one.label for one in desk.results] == ["ok"]


def test_a_silent_server_is_no_line_of_the_journal(desk: Desk) -> None:
    desk.round(GOOD)
    desk.round(SILENT, SILENT)
    assert desk.results[-1].label == "unreachable"
    assert desk.results[-1].version == "3"
    assert desk.lines() == []


def test_the_ring_gets_one_series_for_each_model_with_its_cause(desk: Desk) -> None:
    desk.round(BAD, BAD)
    scrape = desk.scrapes[-1]
    assert scrape.source is Source.PROBES
    assert scrape.samples.series[0].labels == (
        ("cause", "wrong_answer"),
        ("model", "alpha"),
        ("version", "3"),
    )
    assert scrape.samples.values.tolist() == [0.0]
    # An incident file knows the payloads of what servers answer; the results are in it by themselves.
    assert scrape.payload is None


def test_a_model_that_is_not_ready_any_more_is_forgotten(desk: Desk) -> None:
    desk.round(GOOD)
    desk.ready = False
    desk.round()
    assert desk.forgotten == ["alpha"]


def test_a_model_that_is_unloaded_while_it_is_asked_has_not_failed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Asked(ProbeCause.NOT_READY, "alpha is not loaded")
    desk.round(missing, missing)
    assert [one.label for one in desk.results] == ["not_ready"], "READY in the index, and it does not answer"

    def ask(server: Server, config: ModelConfig, saved: SavedRequest, timeout_seconds: float) -> Asked:
        desk.ready = False
        return missing

    monkeypatch.setattr(golden_prober, "ask", ask)
    desk.prober.round("a1")
    assert len(desk.results) == 1
    assert desk.forgotten == ["alpha"]


def test_what_a_model_answered_is_forgotten_soon_after_it_is_unloaded(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its next turn is minutes away: until then nothing may be said of a model that is not there.
    monkeypatch.setattr(golden_prober, "LOOK_SECONDS", 0.01)
    gone = threading.Event()

    def forget(server_id: str, model: str) -> None:
        desk.forgotten.append(model)
        gone.set()

    hearers = Hearers(desk.results.append, forget, desk.scrapes.append)
    monkeypatch.setattr(desk.prober, "_hearers", hearers)
    desk.answers = iter((BAD, BAD))
    desk.prober.round("a1")
    desk.prober._last_round["a1"] = time.monotonic()
    desk.prober.start()
    desk.ready = False
    assert gone.wait(10.0)
    desk.prober.stop()
    assert desk.forgotten == ["alpha"]
    assert [one.label for one in desk.results] == ["wrong_answer"]


class OneServer:
    """A process that looks at one server, which may be the sandbox it started."""

    def __init__(self, *, sandbox: bool) -> None:
        self.servers = (SERVER,)
        self._sandbox = sandbox

    def inventory(self) -> Inventory:
        raise AssertionError("nobody asks for models here")

    def is_sandbox(self, server_id: str) -> bool:
        return self._sandbox


@pytest.mark.parametrize(
    ("sandbox", "choice", "minutes"),
    [
        (False, None, 0.0),
        (True, None, 1.0),
        (False, GoldenChoice(Path("kept")), 5.0),
        (True, GoldenChoice(Path("kept"), 0.0), 0.0),
    ],
)
def test_outside_the_sandbox_they_are_off_until_the_settings_say_otherwise(
    desk: Desk, sandbox: bool, choice: GoldenChoice | None, minutes: float
) -> None:
    hearers = Hearers(desk.results.append, lambda _server, _model: None, desk.scrapes.append)
    made = golden_prober_of(OneServer(sandbox=sandbox), desk.control, choice, hearers)
    assert made.every_minutes("a1") == minutes
    off = "golden requests are not sent by themselves there (golden: every_minutes)"
    assert made.why_not("a1", "alpha", CONFIG) == ("" if minutes else off)
    assert made._takes_turn("a1") == bool(minutes)


def test_the_label_cause_has_no_values_but_those_that_are_documented() -> None:
    table = (ROOT / "docs" / "golden_requests.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)
    assert sorted(listed) == sorted(["ok", *ProbeCause])
    assert get_type_hints(Asked)["cause"] == ProbeCause | None


def test_nothing_is_sent_where_it_is_not_allowed_switched_off_or_limited(desk: Desk) -> None:
    assert desk.prober.why_not("a1", "alpha", CONFIG) == ""
    for changed, words in (
        (replace(SERVER, control=False), "Read-only"),
        (replace(SERVER, load_run_limit_per_second=50.0), "limit on load"),
    ):
        desk.server = changed
        assert words in desk.prober.why_not("a1", "alpha", CONFIG)
        desk.round()
    desk.server = SERVER
    desk.rhythm = Rhythm(0.0, 1.0)
    assert "every_minutes" in desk.prober.why_not("a1", "alpha", CONFIG)
    desk.round()
    assert desk.results == []
    assert desk.lines() == []


def test_without_the_journal_only_test_requests_pass_the_guard(desk: Desk) -> None:
    assert desk.control.admit(Action(ActionKind.TEST_REQUEST, "a1", "alpha"), by=GOLDEN) is SERVER
    with pytest.raises(NotAllowed, match="never sent without a line"):
        desk.control.admit(Action(ActionKind.UNLOAD, "a1", "alpha"), by=LOCAL)
    with pytest.raises(NotAllowed, match="right 'load'"):
        desk.control.admit(Action(ActionKind.UNLOAD, "a1", "alpha"), by=GOLDEN)


def test_an_incident_file_holds_results_and_series(tmp_path: Path, desk: Desk) -> None:
    watched = Watched().everything()
    server = watched.process.servers[0].id
    at = watched.process.now()
    desk.round(BAD, BAD)
    result = replace(desk.results[-1], server=server, at=at, since=at - 5.0)
    watched.process.probes.report(result)
    watched.process.accept(replace(desk.scrapes[-1], server=server, at=at))
    watched.saved(tmp_path / "incident.zip")
    there = replayed(tmp_path / "incident.zip", Settings())
    assert there.probes.results()[server, "alpha"] == result
    scrape = there.ring.last(server, Source.PROBES)
    assert scrape is not None
    assert scrape.samples.series[0].label("cause") == "wrong_answer"


def test_what_was_sent_is_remembered_with_whether_the_server_counted_it(desk: Desk) -> None:
    before = desk.prober.since
    desk.round(GOOD)
    desk.round(BAD, BAD)
    desk.round(SILENT, SILENT)
    sent = desk.prober.sent("a1", before)
    assert [(one.model, one.requests, one.answered) for one in sent] == [
        ("alpha", 1, True), ("alpha", 1, True), ("alpha", 1, True), ("alpha", 1, False), ("alpha", 1, False),
    ]  # fmt: skip
    assert all(before <= one.began <= one.ended for one in sent)
    assert desk.prober.sent("other", before) == []
    assert desk.prober.sent("a1", sent[-1].ended + 1.0) == []
