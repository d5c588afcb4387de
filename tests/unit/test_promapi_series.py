"""Raw samples of Prometheus become readings: own labels, own times, failed scrapes, facts of the exporter."""

from __future__ import annotations

import numpy as np

from collectors.exposition import MetricsPage
from history.promapi import PromSeries
from history.promapi_facts import scrapes_of_facts
from history.promapi_feed import scrapes_of, settled
from history.promapi_series import first_copies, own_series
from history.promapi_targets import targets_of
from telemetry.facts import IndexEntry, ModelConfig, ModelState, ServerMetadata
from telemetry.prometheus_endpoint import PrometheusEndpoint
from telemetry.scrape import Series, Source

COPY = {
    "instance": "a:8002",
    "job": "triton",
    "pod": "t-0",
    "version": "chart-1.2",
    "prometheus_replica": "a",
}
OTHER = {**COPY, "prometheus_replica": "b"}
ENDPOINT = PrometheusEndpoint("http://prom")
TARGETS = targets_of(ENDPOINT, (), [COPY, OTHER], version_label="exported_version")


def row(name: str, values: dict[float, str], base: dict[str, str] = COPY, **labels: str) -> PromSeries:
    return PromSeries(
        {"__name__": name, **base, **labels}, np.array(list(values), dtype=np.float64), tuple(values.values())
    )


def test_labels_that_scraping_added_are_taken_off_and_renamed_ones_get_their_names_back() -> None:
    labels = row("nv_inference_count", {1.0: "2"}, model="m", exported_version="3").labels
    assert own_series("nv_inference_count", labels, TARGETS) == Series(
        "nv_inference_count", (("model", "m"), ("version", "3"))
    )
    custom = {**COPY, "shard": "7", "exported_pod": "mine"}
    assert own_series("my_counter", custom, TARGETS) == Series(
        "my_counter", (("pod", "mine"), ("shard", "7"))
    )
    summary = {**COPY, "model": "m", "exported_version": "3", "quantile": "0.99"}
    assert own_series("nv_inference_request_summary_us", summary, TARGETS).label("quantile") == "0.99"
    assert own_series("nv_inference_request_summary_us_count", summary, TARGETS).label("version") == "3"
    ours = own_series("tritonscope_model_instances", {**COPY, "model": "m", "version": "3"}, TARGETS)
    assert ours == Series("tritonscope_model_instances", (("model", "m"), ("version", "3")))


def test_each_time_is_one_reading_and_a_failed_scrape_a_failed_one() -> None:
    rows = [
        row("up", {10.0: "1", 20.0: "0", 30.0: "1"}),
        row("nv_inference_count", {10.0: "5", 30.0: "7"}, model="m", exported_version="1"),
        row("nv_cpu_utilization", {30.0: "NaN"}),
    ]
    first, failed, last = scrapes_of("a:8002", rows, TARGETS, payload=True)
    assert (first.at, first.ok, first.samples.values.tolist()) == (10.0, True, [5.0])
    assert first.payload is None
    assert (failed.at, failed.ok) == (20.0, False)
    assert failed.error is not None
    assert failed.error.sentence == "Prometheus could not scrape a:8002 when it last tried"
    assert last.at == 30.0 and [one.name for one in last.samples.series] == [
        "nv_inference_count",
        "nv_cpu_utilization",
    ]
    assert np.isnan(last.samples.values[1])
    assert isinstance(last.payload, MetricsPage)
    assert last.payload.texts == ("7", "NaN") and "nv_inference_count" in last.payload.families
    assert all(one.source is Source.METRICS for one in (first, failed, last))


def test_raw_samples_of_two_scrapers_do_not_mix() -> None:
    rows = [row("nv_inference_count", {1.0: "1"}, OTHER), row("nv_inference_count", {2.0: "2"}, COPY)]
    assert [one.times.tolist() for one in first_copies(rows, TARGETS)] == [[2.0]]


def test_the_exporters_families_become_states_facts_and_statistics() -> None:
    base = {"instance": "a:8002", "job": "exporter"}

    def fact(family: str, value: str, /, **labels: str) -> PromSeries:
        return PromSeries({"__name__": f"tritonscope_{family}", **base, **labels}, np.array([10.0]), (value,))

    rows = [
        fact("model_state", "1", model="m", version="1", state="READY"),
        fact("model_state", "0", model="m", version="1", state="LOADING"),
        fact("model_state", "1", model="bad", version="2", state="UNAVAILABLE"),
        fact("model_load_failed", "1", model="bad", version="2", reason_class="backend_missing"),
        fact("model_instances", "2", model="m", version="1"),
        fact("model_max_batch_size", "8", model="m", version="1"),
        fact("model_dynamic_batching", "1", model="m", version="1"),
        fact("model_max_queue_delay_us", "500", model="m", version="1"),
        fact("model_preferred_batch_size", "1", model="m", version="1", batch_size="4"),
        fact("ensemble_step", "2", model="e", step="m"),
        fact("model_executions_total", "12", model="m", version="1"),
        fact("server_info", "1", server="x", name="triton", version="2.51.0"),
    ]
    by_source = {one.source: one for one in scrapes_of_facts("a:8002", rows, TARGETS)}
    entries = by_source[Source.INDEX].payload
    assert entries == (
        IndexEntry("m", "1", ModelState.READY),
        IndexEntry(
            "bad",
            "2",
            ModelState.UNAVAILABLE,
            "backend_missing (the exporter tells only the kind of the failure)",
        ),
    )
    assert by_source[Source.STATISTICS].samples.values.tolist() == [12.0]
    assert by_source[Source.STATISTICS].payload is None
    configs = by_source[Source.CONFIG].payload
    assert isinstance(configs, dict)
    model, ensemble = configs["m"], configs["e"]
    assert isinstance(model, ModelConfig) and isinstance(ensemble, ModelConfig)
    assert (model.instance_count, model.max_batch_size, model.max_queue_delay_us) == (2, 8, 500)
    assert model.dynamic_batching and model.preferred_batch_sizes == (4,) and model.raw == {}
    assert ensemble.ensemble and ensemble.step_uses == {"m": 2} and ensemble.instance_count is None
    assert by_source[Source.METADATA].payload == ServerMetadata("triton", "2.51.0")


def test_a_scrape_that_is_still_coming_in_is_left_for_the_next_look() -> None:
    rows = [
        row("nv_inference_count", {10.0: "1", 20.0: "2"}, model="a"),
        row("nv_inference_count", {10.0: "1"}, model="b"),
    ]

    def times(now: float) -> list[list[float]]:
        return [one.times.tolist() for one in settled(rows, now, 15.0)]

    assert times(21.0) == [[10.0], [10.0]]
    assert times(36.0) == [[10.0, 20.0], [10.0]], "the model was unloaded"
    whole = [*rows[:1], row("nv_inference_count", {10.0: "1", 20.0: "1"}, model="b")]
    assert [one.times.tolist() for one in settled(whole, 21.0, 15.0)] == [[10.0, 20.0]] * 2
