"""Collectors on saved answers: facts, derived samples, and a sentence for every answer that is wrong."""

import pytest

from collectors.exposition import MetricsPage
from collectors.metadata import MetadataCollector, parse_metadata
from collectors.metrics_page import MetricsPageCollector
from collectors.reading import decode_json, whole
from collectors.repository import IndexCollector, index_samples, parse_index
from collectors.statistics import StatisticsCollector, parse_statistics, statistics_samples
from telemetry.catalogue import CATALOGUE, Kind
from telemetry.errors import NotFound, Restricted, WrongContent
from telemetry.facts import IndexEntry, MemoryUse, ModelState
from telemetry.identity import Server
from telemetry.scrape import Samples, Source
from tests.saved_answers import SERVER, SavedAnswers, load


def by_series(samples: Samples) -> dict[str, float]:
    """`family{label="value",...}` -> value."""
    return {
        f"{series.name}{{{','.join(f'{key}={value}' for key, value in series.labels)}}}": float(value)
        for series, value in zip(samples.series, samples.values, strict=True)
    }


# ---- metrics page


def test_the_metrics_page_is_read_under_its_usual_path() -> None:
    transport = SavedAnswers({"http://h:8002/metrics": "a 1\n"})
    scrape = MetricsPageCollector(SERVER, transport, timeout_seconds=1).collect()
    assert scrape.ok
    assert scrape.source is Source.METRICS
    assert by_series(scrape.samples) == {"a{}": 1.0}
    assert isinstance(scrape.payload, MetricsPage)


def test_an_address_with_metrics_at_its_end_is_taken_as_it_is() -> None:
    transport = SavedAnswers({"http://h/triton/metrics": "a 1\n"})
    server = Server("s1", None, "http://h/triton/metrics")
    assert MetricsPageCollector(server, transport, timeout_seconds=1).collect().ok


def test_a_404_with_json_says_that_this_is_no_metrics_page() -> None:
    error = NotFound("h:8002 has no such path", detail='{"error":"Not Found"}', status=404)
    transport = SavedAnswers({"http://h:8002/metrics": error})
    scrape = MetricsPageCollector(SERVER, transport, timeout_seconds=1).collect()
    assert isinstance(scrape.error, WrongContent)
    assert scrape.error.sentence == (
        "This address does not serve Prometheus metrics (got application/json). "
        "Triton's usual is http://host:8002/metrics."
    )
    assert len(scrape.samples.series) == 0


# ---- statistics


def test_statistics_of_a_real_server() -> None:
    rows, notices = parse_statistics(load("stats_after_load.json"))
    add = next(row for row in rows if row.name == "add")
    assert not notices
    assert (add.version, add.inference_count, add.execution_count) == ("1", 9786, 2282)
    assert (add.success_count, add.fail_count, add.last_inference_ms) == (4969, 0, 1796045424881)
    assert add.batches[3].batch_size == 4
    assert add.batches[3].executions == 1034
    assert add.durations is not None
    assert add.durations.request_ns == 9872231101
    assert add.memory == ()


def test_samples_of_statistics_are_counted_per_execution_in_microseconds() -> None:
    rows, _ = parse_statistics(load("stats_after_load.json"))
    values = by_series(statistics_samples(rows))
    labels = "{batch_size=4,model=add,version=1}"
    assert values[f"tritonscope_batch_executions_total{labels}"] == 1034
    assert values[f"tritonscope_batch_compute_infer_us_total{labels}"] == 505004.310
    assert values[f"tritonscope_batch_compute_us_total{labels}"] == 623612.501
    assert values["tritonscope_model_executions_total{model=add,version=1}"] == 2282
    assert values["tritonscope_model_last_inference_seconds{model=add,version=1}"] == 1796045424.881


def test_every_sample_has_the_labels_its_catalogue_row_says() -> None:
    rows, _ = parse_statistics(load("stats_memory_usage_and_response_stats.json"))
    samples = statistics_samples(rows)
    families = {series.name for series in samples.series}
    # The history keeps executions by batch size, the exporter makes a histogram of them.
    assert families == {
        name
        for name, row in CATALOGUE.items()
        if row.source is Source.STATISTICS and row.kind is not Kind.HISTOGRAM
    }
    for series in samples.series:
        assert {name for name, _ in series.labels} == set(CATALOGUE[series.name].labels)
        assert list(series.labels) == sorted(series.labels)


def test_e03_memory_not_reported_is_not_zero_bytes() -> None:
    rows, _ = parse_statistics(load("cases/e03_stats_memory_empty.json"))
    alpha, bravo = rows
    assert alpha.memory == ()
    assert bravo.memory == (MemoryUse("GPU", 0, 2147483648), MemoryUse("CPU", 0, 1048576))
    assert alpha.success_count is None
    assert alpha.durations is None
    values = by_series(statistics_samples(rows))
    assert values == {
        "tritonscope_model_executions_total{model=alpha,version=1}": 8,
        "tritonscope_model_executions_total{model=bravo,version=1}": 8,
        "tritonscope_model_memory_bytes{device=0,kind=GPU,model=bravo,source=reported,version=1}": 2147483648,
        "tritonscope_model_memory_bytes{device=0,kind=CPU,model=bravo,source=reported,version=1}": 1048576,
    }


def test_statistics_with_numbers_as_strings_and_rows_without_a_name() -> None:
    data = {
        "model_stats": [
            {
                "name": "m",
                "version": 2,
                "execution_count": "12",
                "last_inference": "0",
                "batch_stats": [{}, 1],
            },
            {"version": "1"},
            "odd",
        ]
    }
    rows, notices = parse_statistics(data, source="s.json")
    assert [(row.name, row.version, row.execution_count, row.batches) for row in rows] == [("m", "2", 12, ())]
    assert [notice.text for notice in notices] == [
        "entry 2 has no model name: not used",
        "entry 3 has no model name: not used",
    ]
    assert by_series(statistics_samples(rows)) == {
        "tritonscope_model_executions_total{model=m,version=2}": 12
    }


@pytest.mark.parametrize("data", [[], {}, {"model_stats": None}, {"error": "no"}, 3, None])
def test_what_is_no_statistics_answer(data: object) -> None:
    with pytest.raises(WrongContent, match=r"h:1 did not answer with model statistics \(`model_stats`\)"):
        parse_statistics(data, who="h:1")


def test_a_restricted_api_is_an_error_in_the_scrape() -> None:
    error = Restricted("h:8000 restricts this API", status=403)
    transport = SavedAnswers({"http://h:8000/v2/models/stats": error})
    scrape = StatisticsCollector(SERVER, transport, timeout_seconds=1).collect()
    assert scrape.error is error
    assert not scrape.ok
    assert scrape.payload is None


# ---- index


def test_index_of_a_real_server_with_broken_models() -> None:
    entries, notices = parse_index(load("repository_index_broken.json"))
    found = {entry.name: entry for entry in entries}
    assert not notices
    assert found["badpbtxt"] == IndexEntry("badpbtxt", "", ModelState.NEVER_LOADED)
    assert found["exitinit"].state is ModelState.UNAVAILABLE
    assert found["exitinit"].failed
    assert found["dynnobatch"].state is ModelState.READY
    assert (
        by_series(index_samples(entries))[
            "tritonscope_model_state{model=badpbtxt,state=NEVER_LOADED,version=}"
        ]
        == 1
    )


def test_index_entries_that_are_odd() -> None:
    data = [
        {"name": "m", "version": 1, "state": "READY"},
        {"name": "m", "version": "1", "state": "READY"},
        {"name": "twice", "reason": "model appears in two or more repositories"},
        {"name": "new", "version": "1", "state": "SLEEPING"},
        {"state": "READY"},
    ]
    entries, notices = parse_index(data)
    assert [entry.state for entry in entries] == [
        ModelState.READY,
        ModelState.READY,
        ModelState.UNAVAILABLE,
        ModelState.UNKNOWN,
    ]
    assert [notice.text for notice in notices] == [
        "model new: state 'SLEEPING' is not known here",
        "entry 5 has no model name: not used",
    ]
    assert len(index_samples(entries).series) == 3


def test_index_is_asked_with_a_post() -> None:
    transport = SavedAnswers({"http://h:8000/v2/repository/index": '[{"name":"m"}]'})
    scrape = IndexCollector(SERVER, transport, timeout_seconds=1).collect()
    assert scrape.payload == (IndexEntry("m", "", ModelState.NEVER_LOADED),)


def test_an_object_is_no_index() -> None:
    with pytest.raises(WrongContent, match="did not answer with a repository index"):
        parse_index({"error": "x"})


# ---- metadata


def test_metadata() -> None:
    metadata = parse_metadata(load("server_metadata.json"))
    assert (metadata.name, metadata.version) == ("triton", "2.51.0")
    assert "model_repository" in metadata.extensions


def test_the_metrics_port_in_place_of_the_http_port_gets_the_hint() -> None:
    transport = SavedAnswers({"http://h:8000/v2": ""})
    scrape = MetadataCollector(SERVER, transport, timeout_seconds=1).collect()
    assert isinstance(scrape.error, WrongContent)
    assert "as Triton's metrics port does: its HTTP API is usually on port 8000" in scrape.error.sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<html>", "h answered with a web page, not with JSON: a proxy or a sign-in page"),
        ("nonsense", "h answered with something that is not JSON"),
        ("[" * 200_000, "h answered with something that is not JSON"),
    ],
)
def test_what_is_no_json(text: str, sentence: str) -> None:
    with pytest.raises(WrongContent) as raised:
        decode_json(text, "h")
    assert raised.value.sentence == sentence


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3),
        ("3", 3),
        ("-3", -3),
        (3.0, 3),
        (3.5, None),
        (True, None),
        ("", None),
        ("٣", None),
        (None, None),
    ],
)
def test_whole(value: object, expected: int | None) -> None:
    assert whole(value) == expected
