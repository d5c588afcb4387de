"""What happened: loads, unloads, reloads, resets, restarts, outages, and no event where nothing happened."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collectors.exposition import read_page
from collectors.repository import index_samples, parse_index
from collectors.statistics import parse_statistics, statistics_samples
from history.changes import lasting_falls
from history.events import EventKind, EventLog
from telemetry.errors import NoAnswer, Restricted, Unreachable
from telemetry.facts import ServerMetadata
from telemetry.identity import ModelKey
from telemetry.scrape import Notice, Scrape, Source

SMALL = Path(__file__).parents[1] / "fixtures" / "small_repo"
T0 = 1_700_000_000.0
KINDS = ("OTHER", "BACKEND", "CANCELED", "REJECTED")


def page(at: float, models: dict[str, float], failures: dict[str, float] | None = None) -> Scrape:
    """`models`: name -> requests served; `failures`: name -> failures (default: zero for each model)."""
    lines = [f'nv_inference_request_success{{model="{name}",version="1"}} {n}' for name, n in models.items()]
    for name, count in (dict.fromkeys(models, 0.0) if failures is None else failures).items():
        lines += [
            f'nv_inference_request_failure{{model="{name}",reason="{kind}",version="1"}} {count}'
            for kind in KINDS
        ]
    return text_page(at, "\n".join(["# TYPE nv_inference_request_success counter", *lines]) + "\n")


def text_page(at: float, text: str) -> Scrape:
    read = read_page(text)
    return Scrape("a", Source.METRICS, at, 0.0, read.samples, read, read.notices)


def index(at: float, *entries: dict[str, str]) -> Scrape:
    rows, _ = parse_index(list(entries))
    return Scrape("a", Source.INDEX, at, 0.0, index_samples(rows), rows)


def entry(name: str, state: str, reason: str = "") -> dict[str, str]:
    return {"name": name, "version": "1", "state": state, "reason": reason}


def statistics(at: float, **executions: int) -> Scrape:
    rows, _ = parse_statistics(
        {
            "model_stats": [
                {"name": name, "version": "1", "execution_count": n} for name, n in executions.items()
            ]
        }
    )
    return Scrape("a", Source.STATISTICS, at, 0.0, statistics_samples(rows), rows)


def failed(at: float, source: Source = Source.METRICS) -> Scrape:
    return Scrape("a", source, at, 0.0, error=Unreachable("a is not reachable: connection refused"))


def log_of(scrapes: Iterable[Scrape]) -> EventLog:
    log = EventLog()
    for scrape in scrapes:
        log.accept(scrape)
    return log


def happened(*scrapes: Scrape) -> list[tuple[float, str, str]]:
    """(seconds after T0, kind, model name or "")."""
    return [
        (round(event.at - T0, 3), event.kind.value, event.model.name if event.model is not None else "")
        for event in log_of(scrapes).events()
    ]


def test_the_first_answers_are_no_events() -> None:
    assert happened(page(T0, {"one": 5}), index(T0, entry("one", "READY")), statistics(T0, one=5)) == []


def test_counting_on_is_no_event() -> None:
    assert happened(*(page(T0 + step, {"one": step, "two": 0}) for step in range(5))) == []


def test_load_and_unload_from_the_index_once_each() -> None:
    events = happened(
        index(T0, entry("one", "READY")),
        page(T0, {"one": 1}),
        index(T0 + 4, entry("one", "UNLOADING")),
        page(T0 + 5, {}, {"one": 0}),
        index(T0 + 8, entry("one", "UNAVAILABLE", "unloaded")),
        index(T0 + 12, entry("one", "LOADING")),
        index(T0 + 16, entry("one", "READY")),
        page(T0 + 17, {"one": 0}),
    )
    assert events == [(4, "unload", "one"), (12, "state", "one"), (16, "load", "one")]


def test_a_first_load_is_one_event_though_the_entry_without_a_version_goes() -> None:
    log = EventLog()
    log.accept(index(T0, {"name": "m"}, entry("n", "READY")))
    log.accept(index(T0 + 2, entry("m", "READY"), entry("n", "READY")))
    assert [event.text for event in log.events()] == ["m v1 was loaded"]
    log.accept(index(T0 + 4, entry("n", "READY")))
    assert [event.text for event in log.events()][1:] == ["m v1 was unloaded"]


def test_without_an_index_the_page_tells() -> None:
    events = happened(page(T0, {"one": 1, "two": 1}), page(T0 + 2, {"two": 2}, {"one": 0, "two": 0}),
                      page(T0 + 4, {"one": 0, "two": 2}))  # fmt: skip
    assert events == [(2, "unload", "one"), (4, "load", "one")]


def test_a_load_that_failed_says_why() -> None:
    reason = "Internal: RuntimeError: cannot find weights\n\nAt:\n  model.py(6): initialize\n"
    log = log_of([index(T0), index(T0 + 2, entry("one", "UNAVAILABLE", reason))])
    (event,) = log.events()
    assert event.kind is EventKind.STATE and event.model == ModelKey("a", "one", "1")
    assert event.text == "one v1 failed to load: RuntimeError: cannot find weights"


def test_an_update_that_failed_while_the_old_version_serves() -> None:
    log = log_of([index(T0, entry("one", "READY")), index(T0 + 2, entry("one", "READY", "Internal: boom"))])
    (event,) = log.events()
    assert event.kind is EventKind.STATE and "the version before still serves: boom" in event.text


def test_a_model_whose_counters_fall_is_reset() -> None:
    assert happened(page(T0, {"one": 100, "two": 5}), page(T0 + 2, {"one": 4, "two": 5})) == [
        (2, "reset", "one")
    ]


def test_statistics_that_begin_again_while_the_page_goes_on_are_a_reload() -> None:
    events = happened(
        statistics(T0, one=50), page(T0 + 0.1, {"one": 50}),
        statistics(T0 + 2, one=3), page(T0 + 2.1, {"one": 53}),
    )  # fmt: skip
    assert events == [(2, "reload", "one")]


def test_statistics_that_begin_again_with_the_counters_are_no_reload() -> None:
    events = happened(
        statistics(T0, one=50), page(T0 + 0.1, {"one": 50}),
        statistics(T0 + 2, one=3), page(T0 + 2.1, {"one": 3}),
    )  # fmt: skip
    assert events == [(2.1, "reset", "one")]


def test_statistics_that_begin_again_after_an_unload_and_load_are_no_reload() -> None:
    events = happened(
        statistics(T0, one=50), page(T0 + 0.1, {"one": 50}),
        page(T0 + 2.1, {}, {"one": 0}),
        page(T0 + 4.1, {"one": 1}),
        statistics(T0 + 4.2, one=1), page(T0 + 6.1, {"one": 2}),
    )  # fmt: skip
    assert events == [(2.1, "unload", "one"), (4.1, "load", "one")]


def test_fallen_failures_are_a_restart_because_nothing_else_resets_them() -> None:
    events = happened(page(T0, {"one": 9}, {"one": 2}), page(T0 + 2, {"one": 0}, {"one": 0}))
    assert events == [(2, "restart", "")]


def test_vanished_failures_are_a_restart() -> None:
    """Failure series outlive the unload of their model; a new process does not have them."""
    before = page(T0, {"one": 0, "two": 0})
    assert happened(before, page(T0 + 2, {"one": 0})) == [(2, "restart", "")]
    assert happened(before, page(T0 + 2, {"one": 0}, {"one": 0, "two": 0})) == [(2, "unload", "two")]


def test_a_page_that_was_cut_off_is_no_restart() -> None:
    before = page(T0, {"one": 0, "two": 0})
    cut = page(T0 + 2, {"one": 0, "two": 0}, {"one": 0})
    noticed = Scrape(
        "a", Source.METRICS, cut.at, 0.0, cut.samples, cut.payload, (Notice("page", None, "perhaps cut off"),)
    )
    assert happened(before, noticed) == []


def test_an_outage_and_a_restart_in_it() -> None:
    log = log_of(
        [
            page(T0, {"one": 100, "two": 50}),
            failed(T0 + 2),
            failed(T0 + 4),
            page(T0 + 20, {"one": 1, "two": 0}),
        ]
    )
    events = log.events()
    assert [(event.at - T0, event.kind) for event in events] == [
        (2, EventKind.DOWN),
        (20, EventKind.UP),
        (20, EventKind.RESTART),
    ]
    assert events[0].text == "a is down: a is not reachable: connection refused"
    assert events[1].text == "a answers again after 18 s"


@pytest.mark.parametrize("source", [Source.PROCESSES, Source.DEVICES, Source.PROBES])
def test_what_the_server_itself_does_not_answer_is_no_return(source: Source) -> None:
    """Processes are listed, and a GPU is told, whether the server lives or not."""
    readings = page(T0, {"one": 100}), failed(T0 + 2), Scrape("a", source, T0 + 3, 0.01), failed(T0 + 4)
    assert happened(*readings) == [(2, "down", "")]


def test_an_outage_without_a_restart() -> None:
    hung = Scrape("a", Source.METRICS, T0 + 2, 3.0, error=NoAnswer("no answer within 3 s"))
    assert happened(page(T0, {"one": 100}), hung, page(T0 + 9, {"one": 101})) == [
        (2, "down", ""),
        (9, "up", ""),
    ]


def test_one_source_that_fails_is_not_the_server_down() -> None:
    events = happened(
        page(T0, {"one": 1}),
        statistics(T0, one=1),
        failed(T0 + 2, Source.STATISTICS),
        page(T0 + 2, {"one": 1}),
    )
    assert events == []


def test_a_server_that_starts_after_the_app_is_no_outage() -> None:
    assert happened(failed(T0), failed(T0 + 2)) == []
    assert happened(failed(T0), failed(T0 + 2), page(T0 + 4, {"alpha": 1})) == []
    later = happened(failed(T0), page(T0 + 2, {"alpha": 1}), failed(T0 + 4))
    assert later == [(4, "down", "")]


def test_sources_asked_rarely_do_not_keep_a_dead_server_alive() -> None:
    metadata = Scrape("a", Source.METADATA, T0, 0.0, payload=ServerMetadata("x", "1"))
    events = happened(
        metadata, index(T0), page(T0 + 1, {"one": 1}), statistics(T0 + 1, one=1),
        failed(T0 + 3), failed(T0 + 3.1, Source.STATISTICS), failed(T0 + 5, Source.INDEX),
        index(T0 + 9),
    )  # fmt: skip
    assert events == [(3.1, "down", ""), (9, "up", "")]


def test_a_refusal_is_an_answer() -> None:
    refused = Scrape("a", Source.STATISTICS, T0, 0.0, error=Restricted("restricted", status=403))
    assert happened(refused, failed(T0), failed(T0 + 2)) == []


def test_another_version_and_another_name() -> None:
    def metadata(at: float, name: str, version: str) -> Scrape:
        return Scrape("a", Source.METADATA, at, 0.0, payload=ServerMetadata(name, version))

    events = happened(
        metadata(T0, "x", "2.51.0"), metadata(T0 + 300, "y", "2.51.0"), metadata(T0 + 600, "y", "2.60.0")
    )
    assert events == [(300, "restart", ""), (600, "version", "")]


def test_a_restart_seen_by_two_sources_is_one() -> None:
    events = happened(
        Scrape("a", Source.METADATA, T0, 0.0, payload=ServerMetadata("x", "1")),
        page(T0, {"one": 5}, {"one": 5}),
        page(T0 + 10, {"one": 0}, {"one": 0}),
        Scrape("a", Source.METADATA, T0 + 12, 0.0, payload=ServerMetadata("y", "1")),
    )
    assert events == [(10, "restart", "")]


def test_counters_of_the_server_that_fall_are_a_restart() -> None:
    name = 'nv_energy_consumption{gpu_uuid="GPU-a"}'
    assert happened(text_page(T0, f"{name} 500\n"), text_page(T0 + 2, f"{name} 3\n")) == [(2, "restart", "")]


def test_events_are_chosen_by_time_server_and_model() -> None:
    log = log_of(
        [
            page(T0, {"one": 10, "two": 10}),
            page(T0 + 2, {"one": 1, "two": 11}),
            failed(T0 + 4),
            page(T0 + 6, {"one": 2, "two": 12}),
        ]
    )
    one, two = ModelKey("a", "one", "1"), ModelKey("a", "two", "1")
    assert [event.kind for event in log.events(model=one)] == [EventKind.RESET, EventKind.DOWN, EventKind.UP]
    assert [event.kind for event in log.events(model=two)] == [EventKind.DOWN, EventKind.UP]
    assert [event.kind for event in log.events(since=T0 + 5)] == [EventKind.UP]
    assert log.events(server="b") == ()
    assert log.revision == 3


def test_old_events_are_dropped() -> None:
    log = EventLog(retention_seconds=100)
    for scrape in (page(T0, {"one": 5}), page(T0 + 1, {"one": 1}), page(T0 + 200, {"one": 2})):
        log.accept(scrape)
    assert log.events() == ()


def test_a_real_unload_and_load() -> None:
    """The saved answers of a real server: under load, unloaded, loaded again."""

    def stage(name: str, at: float) -> list[Scrape]:
        entries: Any = json.loads((SMALL / f"{name}_index.json").read_text(encoding="utf-8"))
        rows, _ = parse_index(entries)
        stats, _ = parse_statistics(json.loads((SMALL / f"{name}_stats.json").read_text(encoding="utf-8")))
        return [
            text_page(at, (SMALL / f"{name}_metrics.txt").read_text(encoding="utf-8")),
            Scrape("a", Source.STATISTICS, at + 0.1, 0.0, statistics_samples(stats), stats),
            Scrape("a", Source.INDEX, at + 0.2, 0.0, index_samples(rows), rows),
        ]

    stages = ("default_1_idle", "default_2_under_load", "default_3_after_load", "default_5_unloaded",
              "default_6_reloaded")  # fmt: skip
    scrapes = [scrape for step, name in enumerate(stages) for scrape in stage(name, T0 + 10 * step)]
    kinds = [(event[1], event[2]) for event in happened(*scrapes)]
    unloaded = [name for kind, name in kinds if kind == "unload"]
    loaded = [name for kind, name in kinds if kind == "load"]
    assert unloaded and set(loaded) <= set(unloaded)
    assert not [kind for kind, _ in kinds if kind in ("restart", "reload", "down")]


@pytest.mark.parametrize(
    ("values", "lasting"),
    [
        ([900, 10, 904, 12, 908, 14, 912], 0),
        ([900, 904, 0, 0, 0, 908, 912, 0, 0, 916], 0),
        # Loaded anew every three readings: it climbs again, and the newest fall is not known to last.
        ([0, 5, 10, 15, 0, 5, 10, 15, 0, 5, 10, 15, 0, 5], 2),
        ([900, 0, 5, 2, 7], 1),
        ([900], 0),
        ([], 0),
    ],
)
def test_two_counters_read_in_turn_are_no_loads(values: list[float], lasting: int) -> None:
    assert lasting_falls(np.array(values, dtype=np.float64)) == lasting
