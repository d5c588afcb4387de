"""Which models there are: what each source says, and where each alone would mislead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.config import parse_config
from collectors.exposition import read_page
from collectors.repository import index_samples, parse_index
from collectors.statistics import parse_statistics, statistics_samples
from history.inventory import Inventory, ModelFacts
from history.ring import Ring
from telemetry.errors import Unreachable
from telemetry.facts import ModelState, ServerMetadata
from telemetry.identity import ModelKey
from telemetry.scrape import Scrape, Source

SMALL = Path(__file__).parents[1] / "fixtures" / "small_repo"
T0 = 1_700_000_000.0


def read(name: str) -> Any:
    return json.loads((SMALL / name).read_text(encoding="utf-8"))


def page_scrape(at: float, text: str) -> Scrape:
    page = read_page(text)
    return Scrape("a", Source.METRICS, at, 0.0, page.samples, page)


def index_scrape(at: float, entries: list[dict[str, str]]) -> Scrape:
    rows, _ = parse_index(entries)
    return Scrape("a", Source.INDEX, at, 0.0, index_samples(rows), rows)


def statistics_scrape(at: float, data: object) -> Scrape:
    rows, _ = parse_statistics(data)
    return Scrape("a", Source.STATISTICS, at, 0.0, statistics_samples(rows), rows)


def config_scrape(at: float, *configs: dict[str, Any]) -> Scrape:
    payload = {one["name"]: parse_config(one) for one in configs}
    return Scrape("a", Source.CONFIG, at, 0.0, payload=payload)


def small(stage: str, at: float = T0) -> list[Scrape]:
    index_stage = stage if (SMALL / f"{stage}_index.json").exists() else ""
    metrics = (SMALL / f"{stage}_metrics.txt").read_text(encoding="utf-8")
    scrapes = [page_scrape(at, metrics), statistics_scrape(at, read(f"{stage}_stats.json"))]
    return [*scrapes, index_scrape(at, read(f"{index_stage}_index.json"))] if index_stage else scrapes


def inventory(*scrapes: Scrape) -> dict[tuple[str, str], ModelFacts]:
    ring = Ring()
    for scrape in scrapes:
        ring.accept(scrape)
    return {(one.key.name, one.key.version): one for one in Inventory.of(ring, ("a",)).models}


def success(name: str, version: str = "1", value: float = 1.0) -> str:
    return f'nv_inference_request_success{{model="{name}",version="{version}"}} {value}\n'


READY = {"name": "one", "version": "1", "state": "READY"}


def test_a_real_server_under_load() -> None:
    found = inventory(*small("default_3_after_load"), config_scrape(T0, read("config_pipeline.json")))
    states = {key: one.state for key, one in found.items()}
    assert states == {
        ("bad_config", ""): ModelState.NEVER_LOADED,
        ("broken_init", "1"): ModelState.UNAVAILABLE,
        ("fast_add", "1"): ModelState.READY,
        ("flaky", "1"): ModelState.READY,
        ("needs_onnx", "1"): ModelState.UNAVAILABLE,
        ("never_loaded", ""): ModelState.NEVER_LOADED,
        ("pipeline", "1"): ModelState.READY,
        ("slow_add", "1"): ModelState.READY,
    }
    assert found["broken_init", "1"].failed and "cannot find weights" in found["broken_init", "1"].reason
    assert found["needs_onnx", "1"].sources == {Source.INDEX}
    assert found["fast_add", "1"].sources == {Source.INDEX, Source.STATISTICS, Source.METRICS}
    statistics = found["fast_add", "1"].statistics
    assert statistics is not None and statistics.version == "1"
    assert found["pipeline", "1"].ensemble and found["pipeline", "1"].instance_count is None


def test_after_an_unload_it_is_unavailable_not_gone_and_not_failed() -> None:
    found = inventory(*small("default_3_after_load"), *small("default_5_unloaded", T0 + 10))
    unloaded = [one for one in found.values() if one.reason == "unloaded"]
    assert unloaded
    for one in unloaded:
        assert one.state is ModelState.UNAVAILABLE and not one.failed and not one.gone
        assert one.since == T0 + 10 and one.sources == {Source.INDEX}


def test_failure_series_that_survive_make_no_model() -> None:
    failures = 'nv_inference_request_failure{model="ghost",reason="OTHER",version="1"} 3\n'
    assert set(inventory(page_scrape(T0, success("one") + failures))) == {("one", "1")}


def test_custom_series_make_no_model() -> None:
    assert set(inventory(page_scrape(T0, success("one") + 'app_seen{model="ghost"} 1\n'))) == {("one", "1")}


def test_without_an_index_the_state_is_not_known() -> None:
    facts = inventory(page_scrape(T0, success("one")))["one", "1"]
    assert facts.state is None and facts.since is None and facts.sources == {Source.METRICS}


def test_a_model_the_index_does_not_list_is_still_there() -> None:
    """Injected by a file override: only statistics and metrics have it."""
    stats = {"model_stats": [{"name": "injected", "version": "1", "execution_count": 1}]}
    found = inventory(
        index_scrape(T0, [READY]),
        statistics_scrape(T0, stats),
        page_scrape(T0, success("one") + success("injected") + success("other")),
    )
    assert found["injected", "1"].state is ModelState.READY
    assert found["other", "1"].state is ModelState.UNKNOWN


def test_a_bare_name_beside_a_version_that_serves_is_no_row() -> None:
    found = inventory(index_scrape(T0, [{"name": "one"}]), page_scrape(T0, success("one")))
    assert set(found) == {("one", "1")}


def test_a_model_in_no_answer_any_more_is_gone_for_an_hour() -> None:
    first = page_scrape(T0, success("one") + success("two"))
    gone = inventory(first, page_scrape(T0 + 10, success("two")))["one", "1"]
    assert gone.gone and gone.since == T0 and gone.sources == frozenset()
    later = [page_scrape(T0 + 10 + 300 * step, success("two")) for step in range(1, 12)]
    assert ("one", "1") in inventory(first, *later)
    too_late = page_scrape(T0 + 3601, success("two"))
    assert ("one", "1") not in inventory(first, *later, too_late)


def test_a_model_that_comes_back_is_not_gone() -> None:
    found = inventory(
        page_scrape(T0, success("one")),
        page_scrape(T0 + 1, success("two")),
        page_scrape(T0 + 2, success("one")),
    )
    assert not found["one", "1"].gone and found["two", "1"].gone


def test_a_failed_reading_does_not_make_models_gone() -> None:
    failed = Scrape("a", Source.METRICS, T0 + 2, 0.0, error=Unreachable("refused"))
    found = inventory(page_scrape(T0, success("one")), failed)
    assert not found["one", "1"].gone and found["one", "1"].sources == {Source.METRICS}


@pytest.mark.parametrize("metrics_version", ["1", "3"])
def test_an_ensemble_is_one_row_whatever_version_its_series_carry(metrics_version: str) -> None:
    ensemble = {**read("config_pipeline.json"), "name": "pipe"}
    entries = [{"name": "pipe", "version": "3", "state": "READY"}]
    page = success("pipe", metrics_version) + success("pipe", "3", 0.0)
    found = inventory(index_scrape(T0, entries), page_scrape(T0, page), config_scrape(T0, ensemble))
    assert set(found) == {("pipe", "3")}
    assert found["pipe", "3"].sources == {Source.INDEX, Source.METRICS}


def test_an_ensemble_without_an_index_is_what_its_series_say() -> None:
    ensemble = {**read("config_pipeline.json"), "name": "pipe"}
    assert set(inventory(page_scrape(T0, success("pipe")), config_scrape(T0, ensemble))) == {("pipe", "1")}


def test_since_is_when_the_state_began() -> None:
    loading = {"name": "two", "version": "1", "state": "LOADING"}
    found = inventory(
        index_scrape(T0, [READY]),
        index_scrape(T0 + 4, [READY, loading]),
        Scrape("a", Source.INDEX, T0 + 6, 0.0, error=Unreachable("refused")),
        index_scrape(T0 + 8, [READY, loading]),
    )
    assert found["two", "1"].since == T0 + 4 and found["two", "1"].state is ModelState.LOADING
    assert found["one", "1"].since is None and found["one", "1"].state_at == T0 + 8


def test_instances_come_from_the_configuration() -> None:
    groups = [
        {"kind": "KIND_GPU", "count": 2, "gpus": [0, 1]},
        {"kind": "KIND_CPU", "count": 3, "gpus": []},
    ]
    facts = inventory(
        page_scrape(T0, success("one")), config_scrape(T0, {"name": "one", "instance_group": groups})
    )
    assert facts["one", "1"].instance_count == 7
    assert inventory(page_scrape(T0, success("one")))["one", "1"].instance_count is None


def test_metadata_and_servers_without_answers() -> None:
    ring = Ring()
    metadata = ServerMetadata("triton", "2.51.0")
    ring.accept(Scrape("a", Source.METADATA, T0, 0.0, payload=metadata))
    found = Inventory.of(ring, ("a", "b"))
    assert found.servers == ("a", "b") and found.models == () and found.index_read == frozenset()
    assert found.metadata == {"a": metadata}
    assert found.get(ModelKey("a", "one", "1")) is None
