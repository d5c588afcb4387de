"""Drift: marked where the file can be read, where the journal knows, where only changes are seen."""

from __future__ import annotations

import json
import time
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from collectors.config import parse_config
from history.config_book import ConfigBook
from history.drift import Drift, Drifts, KnownFrom, overrides_in_force
from history.events import EventLog
from telemetry.actions import (
    CHANGED_IN_USE,
    LOADED_ANEW,
    UNCHANGED_ON_DISK,
    Action,
    ActionKind,
    Outcome,
    Record,
)
from telemetry.config_diff import journal_parameters
from telemetry.config_file import changes_from_file
from telemetry.facts import IndexEntry, ModelConfig, ModelState
from telemetry.pbtxt import parse_pbtxt
from telemetry.scrape import Scrape, Source

RECORDED = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "small_repo" / "config_fast_add.json").read_text()
)
NOW = time.time()
FILE = """
# A comment
name: "fast_add"
backend: "python"
max_batch_size: 8
input [ { name: "A" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "B" data_type: TYPE_FP32 dims: [ -1 ] } ]
output { name: "SUM" data_type: TYPE_FP32 dims: -1 }
instance_group [ { count: 2 kind: KIND_CPU } ]
dynamic_batching { max_queue_delay_microseconds: 100 }
"""


def config(**changes: Any) -> ModelConfig:
    raw = deepcopy(RECORDED)
    raw["dynamic_batching"] = {
        "preferred_batch_size": [8],
        "max_queue_delay_microseconds": 100,
        "preserve_ordering": False,
    }
    raw.update(changes)
    return parse_config({key: value for key, value in raw.items() if value is not None})


def scrape(source: Source, payload: object, at: float) -> Scrape:
    return Scrape("a", source, at, 0.01, payload=payload)


def record(kind: ActionKind, at: float, outcome: Outcome = Outcome.DONE, **parameters: object) -> Record:
    action = Action(kind, "a", "fast_add", who="ops", parameters=parameters)
    return Record(1, action, at, "", sent=True, ended_at=at + 1.0, outcome=outcome)


def override(at: float, before: ModelConfig, after: ModelConfig) -> Record:
    return record(ActionKind.OVERRIDE, at, **journal_parameters(before.raw, after.raw))


def drifts(book: ConfigBook, *records: Record, text: str | None = None) -> Drifts:
    revision = iter(range(1000))
    return Drifts(book, EventLog(), lambda: records, lambda server, model: text, lambda: next(revision))


def names(drift: Drift | None) -> dict[str, tuple[object, object]]:
    assert drift is not None
    return {change.path: (change.before, change.after) for change in drift.changes}


def test_the_file_is_the_judge_where_it_can_be_read() -> None:
    assert drifts(ConfigBook(), text=FILE).of("a", "fast_add", config()) is None
    running = config(max_batch_size=16, response_cache={"enable": True})
    drift = drifts(ConfigBook(), text=FILE).of("a", "fast_add", running)
    assert names(drift) == {
        "max_batch_size": (8, 16),
        # Triton fills in the largest batch, 16, where no size is preferred: [8] was asked for.
        "dynamic_batching.preferred_batch_size": ([], [8]),
        "response_cache.enable": (False, True),
    }
    assert drift is not None and drift.source is KnownFrom.FILE
    # A file that was broken after the load tells nothing.
    assert drifts(ConfigBook(), text="max_batch_size: {").of("a", "fast_add", running) is None


def test_every_field_is_compared_and_what_the_file_leaves_open_is_not() -> None:
    file = parse_pbtxt(FILE)
    running = dict(config().raw)
    groups = [{**running["instance_group"][0], "count": 3, "kind": "KIND_GPU", "gpus": [0]}]
    found = changes_from_file(
        file,
        running
        | {
            "instance_group": groups,
            "dynamic_batching": {
                **running["dynamic_batching"],
                "max_queue_delay_microseconds": 7,
                "preserve_ordering": True,
                "default_queue_policy": {"max_queue_size": 5, "timeout_action": "DELAY"},
            },
            "version_policy": {"all": {}},
        },
    )
    assert [change.path for change in found] == [
        "dynamic_batching.max_queue_delay_microseconds",
        "dynamic_batching.preserve_ordering",
        "dynamic_batching.default_queue_policy.timeout_action",
        "dynamic_batching.default_queue_policy.max_queue_size",
        "instance_group[0].count",
        "instance_group[0].kind",
        "version_policy",
    ]
    without = {key: value for key, value in running.items() if key != "dynamic_batching"}
    assert [change.path for change in changes_from_file(file, without)] == ["dynamic_batching"]
    bare = parse_pbtxt('backend: "python"\n')
    one = running | {"instance_group": [{**running["instance_group"][0], "count": 1}]}
    assert [change.path for change in changes_from_file(bare, one)] == ["dynamic_batching"]
    assert [change.path for change in changes_from_file(bare, running)] == [
        "dynamic_batching",
        "instance_group",
    ]


def test_an_override_is_known_from_the_journal_until_the_model_is_loaded_from_its_files() -> None:
    disk, eight, two = config(), config(max_batch_size=16), config(max_batch_size=2)
    first, second = override(NOW - 50, disk, eight), override(NOW - 20, eight, two)
    drift = drifts(ConfigBook(), second, first).of("a", "fast_add", two)
    assert names(drift) == {"max_batch_size": (8, 2)}
    assert drift is not None and (drift.source, drift.who) == (KnownFrom.JOURNAL, "ops")
    assert drift.words(lambda at: "14:02").startswith(
        "It runs with max_batch_size 2 (its file: 8) since 14:02, overridden by ops; it is lost when"
    )
    # Somebody restarted the server meanwhile: what runs is what was before.
    assert drifts(ConfigBook(), second, first).of("a", "fast_add", disk) is None
    # A reload keeps an override; a revert, an unload or a load from nothing does not, if it went well.
    assert drifts(ConfigBook(), record(ActionKind.RELOAD, NOW), first).of("a", "fast_add", eight) is not None
    for kind in (ActionKind.REVERT, ActionKind.UNLOAD, ActionKind.LOAD):
        assert drifts(ConfigBook(), record(kind, NOW), first).of("a", "fast_add", eight) is None
        failed = record(kind, NOW, Outcome.FAILED)
        assert drifts(ConfigBook(), failed, first).of("a", "fast_add", eight) is not None
    refused = replace(first, outcome=Outcome.REFUSED, sent=False)
    assert drifts(ConfigBook(), refused).of("a", "fast_add", eight) is None


def test_a_block_that_was_removed_comes_back_in_the_difference() -> None:
    disk, off = config(), config(dynamic_batching=None)
    drift = drifts(ConfigBook(), override(NOW - 9, disk, off)).of("a", "fast_add", off)
    assert list(names(drift)) == ["dynamic_batching"]
    assert drift is not None and "dynamic batching not set (its file: " in drift.words(str)


def test_a_change_nobody_told_us_of_is_marked_for_an_hour() -> None:
    book = ConfigBook()
    book.accept(scrape(Source.CONFIG, {"fast_add": config()}, NOW - 300))
    changed = config(max_batch_size=2)
    book.accept(scrape(Source.CONFIG, {"fast_add": changed}, NOW - 100))
    drift = drifts(book).of("a", "fast_add", changed)
    assert names(drift) == {"max_batch_size": (8, 2)}
    assert drift is not None and drift.source is KnownFrom.SEEN
    assert "by somebody else: max_batch_size 2 (was 8). Whether its files were edited" in drift.words(str)
    # Our own reload explains it, and one long before does not.
    assert drifts(book, record(ActionKind.RELOAD, NOW - 101)).of("a", "fast_add", changed) is None
    assert drifts(book, record(ActionKind.RELOAD, NOW - 250)).of("a", "fast_add", changed) is not None
    old = ConfigBook()
    old.accept(scrape(Source.CONFIG, {"fast_add": config()}, NOW - 9000))
    old.accept(scrape(Source.CONFIG, {"fast_add": changed}, NOW - 8000))
    assert drifts(old).of("a", "fast_add", changed) is None


def test_a_model_seen_unloaded_begins_anew() -> None:
    book, changed = ConfigBook(), config(max_batch_size=2)
    book.accept(scrape(Source.CONFIG, {"fast_add": config()}, NOW - 300))
    unloaded = (IndexEntry("fast_add", "1", ModelState.UNAVAILABLE, "unloaded"),)
    book.accept(scrape(Source.INDEX, unloaded, NOW - 200))
    # Its reader still keeps the configuration from before.
    book.accept(scrape(Source.CONFIG, {"fast_add": config()}, NOW - 199))
    book.accept(scrape(Source.INDEX, (IndexEntry("fast_add", "1", ModelState.READY),), NOW - 198))
    book.accept(scrape(Source.CONFIG, {"fast_add": changed}, NOW - 197))
    assert drifts(book).of("a", "fast_add", changed) is None
    known = book.known("a", "fast_add")
    assert known is not None and (known.anew_at, known.first) == (NOW - 197, changed)
    # An override from before is over, whatever the numbers say.
    first = override(NOW - 400, config(), changed)
    assert drifts(book, first).of("a", "fast_add", changed) is None


def test_an_override_is_in_force_until_a_load_took_the_files() -> None:
    first = override(NOW - 50, config(), config(max_batch_size=16))
    unsure = replace(override(NOW - 40, config(), config(max_batch_size=16)), outcome=Outcome.UNKNOWN)

    def after(kind: ActionKind, sentence: str, outcome: Outcome = Outcome.DONE) -> list[Record]:
        newest = replace(record(kind, NOW - 20, outcome), sentence=f"fast_add: {sentence}")
        return overrides_in_force([newest, unsure, first])

    assert after(ActionKind.RELOAD, f"{UNCHANGED_ON_DISK}, so") == [unsure, first]
    # Asked to load what is loaded already, Triton does what a reload does.
    assert after(ActionKind.LOAD, f"{UNCHANGED_ON_DISK}, so") == [unsure, first]
    assert after(ActionKind.LOAD, "fast_add is loaded after 2.0 s") == []
    for words in (LOADED_ANEW, CHANGED_IN_USE):
        assert after(ActionKind.RELOAD, words) == []
        assert after(ActionKind.RELOAD, words, Outcome.FAILED) == [unsure, first]
    # The server was restarted after the first and, as far as the readings tell, perhaps before the second.
    assert overrides_in_force([unsure, first], restarted_after=NOW - 45) == [unsure]
