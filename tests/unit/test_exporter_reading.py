"""How the exporter reads one server: what is asked when, what is kept, and that nothing outlives its time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping

import pytest

from collectors import exporter_reading
from collectors.exporter_reading import Answers, SourceState, Target
from telemetry.errors import NotFound, SourceError, Unreachable
from telemetry.scrape import Source
from telemetry.transport import Answer
from tests.saved_answers import SERVER, SavedAnswers

BASE = "http://h:8000/v2"
INDEX, STATISTICS = f"{BASE}/repository/index", f"{BASE}/models/stats"
LIMIT_SECONDS = 5.0


def config_url(name: str) -> str:
    return f"{BASE}/models/{name}/config"


def index_of(names: Mapping[str, str]) -> str:
    """Names -> states, all of version 1."""
    return json.dumps([{"name": name, "version": "1", "state": state} for name, state in names.items()])


def statistics_of(executions: Mapping[str, int]) -> str:
    rows = [
        {"name": name, "version": "1", "execution_count": count, "batch_stats": []}
        for name, count in executions.items()
    ]
    return json.dumps({"model_stats": rows})


class Triton(SavedAnswers):
    """A server with ready models; one source can be made to hang until it is released."""

    def __init__(self, *names: str) -> None:
        super().__init__(
            {
                BASE: json.dumps({"name": "triton", "version": "2.51.0"}),
                INDEX: index_of(dict.fromkeys(names, "READY")),
                STATISTICS: statistics_of(dict.fromkeys(names, 3)),
                **{config_url(name): json.dumps({"name": name, "max_batch_size": 4}) for name in names},
            }
        )
        self.hanging = ""
        self.released = threading.Event()

    def get(self, url: str, *, timeout_seconds: float | None = None) -> Answer:
        answer = super().get(url, timeout_seconds=timeout_seconds)
        if url == self.hanging:
            self.released.wait(20)
        return answer

    def took(self) -> list[str]:
        """What was asked since the last call, sorted, without the address of the server."""
        asked, self.asked = sorted(url.removeprefix(BASE) for url in self.asked), []
        return asked


@pytest.fixture
def triton() -> Iterator[Triton]:
    server = Triton("add", "slow")
    yield server
    server.released.set()


@pytest.fixture
def target(triton: Triton) -> Iterator[Target]:
    reader = Target(SERVER, triton)
    yield reader
    triton.released.set()
    reader.close()


def state(answers: Answers, source: Source) -> SourceState:
    return next(one for one in answers.sources if one.source is source)


LIVE = ["/models/stats", "/repository/index"]
EVERYTHING = ["", "/models/add/config", "/models/slow/config", *LIVE]


def test_configurations_and_metadata_are_asked_once_and_kept(triton: Triton, target: Target) -> None:
    first = target.read(LIMIT_SECONDS)
    assert triton.took() == EVERYTHING
    second = target.read(LIMIT_SECONDS)
    assert triton.took() == LIVE
    assert first.configs.keys() == second.configs.keys() == {"add", "slow"}
    assert second.metadata == first.metadata
    assert second.metadata is not None
    assert second.metadata.version == "2.51.0"
    told = {one.source: one.success for one in second.sources}
    assert told.pop(Source.PROCESSES) is None, "they are another machine's"
    assert set(told.values()) == {True} and len(told) == 4
    assert second.configs_pending == 0


def test_a_model_whose_state_changed_has_its_configuration_read_again(triton: Triton, target: Target) -> None:
    target.read(LIMIT_SECONDS)
    triton.took()
    ready = [("add", "1"), ("add", "2"), ("slow", "1")]
    rows = [{"name": name, "version": version, "state": "READY"} for name, version in ready]
    triton.answers[INDEX] = json.dumps(rows)
    answers = target.read(LIMIT_SECONDS)
    assert triton.took() == ["/models/add/config", *LIVE]
    assert answers.ready == tuple(ready)


def test_counters_that_fell_tell_a_reload_that_no_probe_saw(triton: Triton, target: Target) -> None:
    target.read(LIMIT_SECONDS)
    triton.took()
    triton.answers[STATISTICS] = statistics_of({"add": 3, "slow": 2})
    triton.answers[config_url("slow")] = json.dumps({"name": "slow", "max_batch_size": 16})
    answers = target.read(LIMIT_SECONDS)
    assert triton.took() == ["/models/slow/config", *LIVE]
    assert answers.configs["slow"].max_batch_size == 16


def test_a_server_that_is_down_leaves_nothing_and_is_read_anew_when_it_is_back(
    triton: Triton, target: Target
) -> None:
    target.read(LIMIT_SECONDS)
    saved = dict(triton.answers)
    down: dict[str, str | SourceError] = {
        url: Unreachable("h:8000 is not reachable: connection refused") for url in saved
    }
    triton.answers = down
    answers = target.read(LIMIT_SECONDS)
    assert (answers.index, answers.statistics, answers.metadata) == (None, None, None)
    assert (dict(answers.configs), answers.ready, answers.configs_pending) == ({}, (), 0)
    assert state(answers, Source.INDEX).success is False
    assert state(answers, Source.INDEX).age_seconds is None
    triton.answers = saved
    triton.took()
    back = target.read(LIMIT_SECONDS)
    assert triton.took() == EVERYTHING
    assert back.configs.keys() == {"add", "slow"}


def test_a_model_that_vanished_is_in_the_next_answer_no_more(triton: Triton, target: Target) -> None:
    target.read(LIMIT_SECONDS)
    triton.answers[INDEX] = index_of({"slow": "READY"})
    triton.answers[STATISTICS] = statistics_of({"slow": 3})
    answers = target.read(LIMIT_SECONDS)
    assert answers.index is not None
    assert [entry.name for entry in answers.index] == ["slow"]
    assert answers.configs.keys() == {"slow"}
    assert answers.ready == (("slow", "1"),)


def test_a_source_that_hangs_costs_neither_the_others_nor_the_time_limit(
    triton: Triton, target: Target
) -> None:
    triton.hanging = STATISTICS
    begin = time.monotonic()
    answers = target.read(0.5)
    assert 0.4 < time.monotonic() - begin < 2.0
    assert answers.statistics is None
    assert answers.index is not None
    assert answers.configs.keys() == {"add", "slow"}
    hanging = state(answers, Source.STATISTICS)
    assert hanging.success is False
    assert hanging.duration_seconds == pytest.approx(0.5, abs=0.4)
    triton.took()
    target.read(0.5)
    assert STATISTICS.removeprefix(BASE) not in triton.took(), "a reading under way must not be doubled"
    triton.released.set()
    late = target.read(LIMIT_SECONDS)
    assert late.statistics is not None


def test_a_defect_in_one_source_is_that_sources_failure(triton: Triton, target: Target) -> None:
    del triton.answers[STATISTICS]
    answers = target.read(LIMIT_SECONDS)
    assert state(answers, Source.STATISTICS).success is False
    assert answers.index is not None
    assert answers.configs.keys() == {"add", "slow"}


def test_a_configuration_that_is_refused_stays_pending(triton: Triton, target: Target) -> None:
    triton.answers[config_url("slow")] = NotFound("no such model", status=400)
    answers = target.read(LIMIT_SECONDS)
    assert answers.configs.keys() == {"add"}
    assert answers.configs_pending == 1
    assert state(answers, Source.CONFIG).success is True
    assert state(answers, Source.CONFIG).notices == 1


def test_configurations_of_many_models_arrive_over_several_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"m{number:03d}" for number in range(30)]
    many = Triton(*names)
    target = Target(SERVER, many)
    monkeypatch.setattr(exporter_reading, "CONFIG_SECONDS", 0.0)
    answers = target.read(LIMIT_SECONDS)
    assert (len(answers.configs), answers.configs_pending) == (0, 30)
    assert answers.statistics is not None
    assert len(answers.statistics) == 30
    monkeypatch.setattr(exporter_reading, "CONFIG_SECONDS", 3.0)
    answers = target.read(LIMIT_SECONDS)
    assert (len(answers.configs), answers.configs_pending) == (30, 0)
    target.close()


def test_metadata_is_asked_again_when_it_is_old(
    triton: Triton, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.read(LIMIT_SECONDS)
    triton.took()
    monkeypatch.setattr(exporter_reading, "METADATA_SECONDS", 0.0)
    target.read(LIMIT_SECONDS)
    assert triton.took() == ["", *LIVE]


def test_a_name_that_http_cannot_take_is_unreadable_not_pending() -> None:
    triton = Triton("has space")
    target = Target(SERVER, triton)
    answers = target.read(LIMIT_SECONDS)
    assert (answers.configs_unreadable, answers.configs_pending) == (1, 0)
    assert config_url("has space") not in triton.asked
    target.close()
