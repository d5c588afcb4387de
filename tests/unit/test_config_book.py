"""The one memory of configurations: what triage, the timeline and an incident file have from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.config import parse_config
from history.config_book import ConfigBook, KnownConfig
from history.events import EventLog
from history.inventory import Inventory
from history.ring import Ring
from telemetry.config_diff import changes_between, in_words
from telemetry.facts import IndexEntry, ModelConfig, ModelState
from telemetry.plain import from_plain, to_plain
from telemetry.scrape import Scrape, Source
from triage.__main__ import main
from triage.happenings import Happened

CASES = Path(__file__).parents[1] / "fixtures" / "cases"
KEY = ("a", "alpha")


def config(**changes: Any) -> ModelConfig:
    raw = {"name": "alpha", "max_batch_size": 8, "instance_group": [{"kind": "KIND_CPU", "count": 1}]}
    return parse_config(raw | changes)


def read(book: ConfigBook, at: float, one: ModelConfig) -> None:
    book.accept(Scrape("a", Source.CONFIG, at, 0.001, payload={"alpha": one}))


def index(book: ConfigBook, at: float, state: ModelState) -> None:
    book.accept(Scrape("a", Source.INDEX, at, 0.001, payload=(IndexEntry("alpha", "1", state),)))


def secret(value: str, **changes: Any) -> ModelConfig:
    return config(parameters={"token": {"string_value": value}}, **changes)


def test_a_change_is_told_for_an_hour_in_words_that_hold_no_secret() -> None:
    book = ConfigBook()
    before, after = secret("sesame"), secret("open-up", max_batch_size=16)
    for at, one in ((1000.0, before), (1010.0, before), (1020.0, after)):
        read(book, at, one)
    happened = Happened.watched(Ring(), EventLog(), book)
    [change] = happened.now(Inventory(()), 1030.0).config_changes[KEY]
    assert (change.at, change.sizes, change.anew) == (1020.0, True, False)
    assert change.words() == "max_batch_size 16 (was 8), another parameters.token.string_value"
    assert happened.now(Inventory(()), 1020.0 + 3601.0).config_changes == {}
    assert book.changes(1020.0) == {KEY: (change,)}


def test_changes_of_other_fields_are_no_changes_of_sizes() -> None:
    book = ConfigBook()
    read(book, 1000.0, config())
    read(book, 1010.0, config(dynamic_batching={"max_queue_delay_microseconds": 100}))
    read(book, 1020.0, config(dynamic_batching={}, instance_group=[{"kind": "KIND_CPU", "count": 3}]))
    first, second = book.changes(0.0)[KEY]
    assert (first.sizes, second.sizes) == (False, True)
    assert first.words() == "dynamic batching max_queue_delay_microseconds 100 (was not set)"
    assert second.words() == "max_queue_delay_microseconds not set (was 100), instances 3 (was 1)"


def test_another_way_to_say_the_same_is_no_change() -> None:
    book = ConfigBook()
    read(book, 1000.0, config(dynamic_batching={"preferred_batch_size": []}))
    read(book, 1010.0, config(dynamic_batching={}))
    assert book.changes(0.0) == {}


def test_a_change_over_an_unload_is_remembered_as_what_the_files_gave() -> None:
    book, other = ConfigBook(), config(max_batch_size=4)
    read(book, 1000.0, config())
    index(book, 1010.0, ModelState.UNAVAILABLE)
    index(book, 1012.0, ModelState.UNAVAILABLE)
    known = book.known(*KEY)
    assert known is not None and (known.unloaded, known.unloaded_at) == (True, 1012.0)
    index(book, 1014.0, ModelState.READY)
    # Its reader still brings the configuration from before, and then the new one.
    read(book, 1014.0, config())
    read(book, 1016.0, other)
    known = book.known(*KEY)
    assert known is not None and (known.anew_at, known.unloaded, known.first) == (1014.0, False, other)
    [change] = known.changes
    assert (change.at, change.anew) == (1016.0, True)
    # Half a minute later a change is one of a model that runs.
    read(book, 1060.0, config())
    assert [one.anew for one in book.changes(0.0)[KEY]] == [True, False]


def test_what_was_masked_is_told_as_other_settings() -> None:
    book = ConfigBook()
    read(book, 1000.0, secret("sesame"))
    read(book, 1010.0, secret("open-up"))
    [change] = book.changes(0.0)[KEY]
    masked = KnownConfig(secret("x"), secret("x"), changes=(type(change)(1010.0, secret("x"), secret("x")),))
    there = ConfigBook()
    there.restore(
        from_plain(dict[tuple[str, str], KnownConfig], json.loads(json.dumps(to_plain({KEY: masked}))))
    )
    [told] = there.changes(0.0)[KEY]
    assert told.words() == "other settings"


def test_instances_are_named_by_their_group() -> None:
    one = {"kind": "KIND_CPU", "count": 1}
    before = {"instance_group": [one, one]}
    after = {"instance_group": [one | {"count": 2}, one | {"count": 4}]}
    words = in_words(changes_between(before, after))
    assert words == "instances 2 (was 1), instances of group 2 4 (was 1)"


def test_saved_answers_with_a_configuration_that_changed_show_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = json.loads((CASES / "b07.config.json").read_text())
    arguments = ["--json", "--every", "10"]
    for name in ("b07_overload_t0.prom", "b07_overload_t1.prom"):
        arguments += ["--scrape", str(CASES / name)]

    def told(*sizes: int) -> list[str]:
        saved = list(arguments)
        for place, size in enumerate(sizes):
            path = tmp_path / f"{place}.config.json"
            path.write_text(json.dumps(given | {"max_batch_size": size}))
            saved += ["--config", str(path)]
        main(saved)
        findings = json.loads(capsys.readouterr().out)["findings"]
        return [one["sentence"] for one in findings if one["rule"] == "ConfigDrift"]

    size = given["max_batch_size"]
    assert told(size, 2 * size) == [
        f"The configuration of alpha changed while it was loaded: max_batch_size {2 * size} (was {size})."
    ]
    assert told(size) == told(size, size) == told(size, 2 * size, size) == []
