"""Collectors on saved answers: facts, derived samples, and a sentence for every answer that is wrong."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from collectors.config import ConfigCollector, parse_config, ready_models
from collectors.exposition import MetricsPage
from collectors.metadata import MetadataCollector, parse_metadata
from collectors.metrics_page import MetricsPageCollector
from collectors.reading import decode_json, whole
from collectors.repository import IndexCollector, index_samples, parse_index
from collectors.statistics import StatisticsCollector, parse_statistics, statistics_samples
from telemetry.catalogue import CATALOGUE, Kind
from telemetry.errors import NoAnswer, NotFound, Restricted, SourceError, WrongContent
from telemetry.facts import IndexEntry, MemoryUse, ModelConfig, ModelState
from telemetry.identity import Server
from telemetry.scrape import Samples, Source
from telemetry.transport import Answer, Transport

FIXTURES = Path(__file__).parent.parent / "fixtures"
SERVER = Server("s1", "http://h:8000", "http://h:8002")


class SavedAnswers(Transport):
    """A transport that answers from a mapping of address -> text or error, and counts."""

    def __init__(self, answers: Mapping[str, str | SourceError]) -> None:
        super().__init__(SERVER)
        self.answers = dict(answers)
        self.asked: list[str] = []

    def get(self, url: str, *, timeout_seconds: float | None = None) -> Answer:
        self.asked.append(url)
        answer = self.answers[url]
        if isinstance(answer, SourceError):
            raise answer
        return Answer(200, "text/plain", answer)

    def post(self, url: str, body: str = "", *, timeout_seconds: float | None = None) -> Answer:
        return self.get(url)


def load(name: str) -> object:
    return json.loads((FIXTURES / name).read_text())


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


# ---- config


def test_configs_of_a_real_server() -> None:
    data = load("model_configs.json")
    assert isinstance(data, dict)
    add = parse_config(data["add"])
    assert (add.backend, add.max_batch_size, add.dynamic_batching) == ("python", 8, True)
    assert (add.preferred_batch_sizes, add.max_queue_delay_us) == ((4, 8), 2000)
    assert add.instance_count == 2
    assert [(tensor.name, tensor.datatype, tensor.dims) for tensor in add.inputs] == [
        ("A", "FP32", (-1,)),
        ("B", "FP32", (-1,)),
    ]
    ensemble = parse_config(data["ens"])
    assert ensemble.ensemble
    assert ensemble.instance_count is None
    assert len(ensemble.ensemble_steps) >= 2
    for name, row in data.items():
        assert parse_config(row).name == name


def test_config_with_everything_set() -> None:
    data = load("model_configs_full.json")
    assert isinstance(data, dict)
    full = parse_config(data["full"])
    assert full.max_queue_delay_us == 99
    assert full.queue_timeout_us == 123


def test_c09_config_of_an_ensemble_in_a_saved_dump() -> None:
    config = parse_config(load("cases/c09_ensemble.config.json"))
    assert config.ensemble
    assert [(step.model_name, step.model_version) for step in config.ensemble_steps] == [
        ("step_one", -1),
        ("step_two", -1),
    ]
    assert not config.dynamic_batching
    assert config.max_queue_delay_us is None


def test_ready_models_are_those_of_index_and_statistics() -> None:
    rows, _ = parse_statistics(
        {"model_stats": [{"name": "injected", "version": "1"}, {"name": "m", "version": "1"}]}
    )
    entries = (
        IndexEntry("m", "1", ModelState.READY),
        IndexEntry("off", "1", ModelState.UNAVAILABLE, "unloaded"),
    )
    ready = ready_models(entries, rows)
    assert ready is not None
    assert set(ready) == {"m", "injected"}
    assert ready_models(None, None) is None
    assert ready_models((), None) == {}
    again = ready_models((IndexEntry("m", "1", ModelState.READY, "update failed"),), rows)
    assert again is not None
    assert again["m"] != ready["m"]


class Configs(SavedAnswers):
    """Answers with a config for every model."""

    def __init__(self, *names: str) -> None:
        super().__init__({self.url(name): json.dumps({"name": name}) for name in names})

    @staticmethod
    def url(name: str) -> str:
        return f"http://h:8000/v2/models/{name}/config"

    def names_asked(self) -> list[str]:
        names = [url.split("/")[-2] for url in self.asked]
        self.asked.clear()
        return names


def configs(collector: ConfigCollector) -> dict[str, ModelConfig]:
    scrape = collector.collect()
    assert scrape is not None
    assert isinstance(scrape.payload, dict)
    return scrape.payload


def test_configs_are_read_on_a_change_only_and_a_few_at_a_time() -> None:
    names = [f"m{number:02d}" for number in range(10)]
    transport = Configs(*names)
    ready = dict.fromkeys(names, frozenset({("1", "")}))
    collector = ConfigCollector(SERVER, transport, lambda: ready, timeout_seconds=1)
    assert len(configs(collector)) == 8
    second = configs(collector)
    assert sorted(second) == names
    assert collector.collect() is None
    assert sorted(transport.names_asked()) == names
    ready["m03"] = frozenset({("2", "")})
    assert configs(collector) is second
    assert transport.names_asked() == ["m03"]
    collector.reread("m04")
    collector.collect()
    assert transport.names_asked() == ["m04"]
    collector.reread()
    collector.collect()
    assert len(transport.names_asked()) == 8


def test_a_changed_config_is_a_new_payload() -> None:
    transport = Configs("m")
    ready = {"m": 1}
    collector = ConfigCollector(SERVER, transport, lambda: ready, timeout_seconds=1)
    first = configs(collector)
    transport.answers[Configs.url("m")] = json.dumps({"name": "m", "max_batch_size": 4})
    ready["m"] = 2
    second = configs(collector)
    assert (first["m"].max_batch_size, second["m"].max_batch_size) == (0, 4)


def test_configs_of_models_that_went_away_are_kept_for_now() -> None:
    ready: dict[str, int] = {"m": 1}
    collector = ConfigCollector(SERVER, Configs("m", "n"), lambda: ready, timeout_seconds=1)
    collector.collect()
    ready.clear()
    ready["n"] = 1
    assert sorted(configs(collector)) == ["m", "n"]


def test_one_model_that_fails_costs_its_own_config_only() -> None:
    transport = Configs("good")
    transport.answers[Configs.url("bad")] = NotFound(
        "h:8000 has no such path or model (HTTP 404)", status=404
    )
    ready = {"bad": 1, "sp ace": 1, "good": 1}
    collector = ConfigCollector(SERVER, transport, lambda: ready, timeout_seconds=1)
    scrape = collector.collect()
    assert scrape is not None
    assert isinstance(scrape.payload, dict)
    assert list(scrape.payload) == ["good"]
    assert [notice.text for notice in scrape.notices] == [
        "model bad: h:8000 has no such path or model (HTTP 404)",
        "model sp ace: this name cannot be used over Triton's HTTP API (special characters); "
        "its configuration is not read",
    ]
    transport.asked.clear()
    assert collector.collect() is None
    assert transport.asked == []
    collector.reread("good")
    again = collector.collect()
    assert again is not None
    assert again.notices == scrape.notices


def test_no_answer_for_one_model_ends_the_round() -> None:
    error = NoAnswer("h:8000 gave no answer within 1 s")
    transport = SavedAnswers({Configs.url("a"): error, Configs.url("b"): error})
    collector = ConfigCollector(SERVER, transport, lambda: {"a": 1, "b": 1}, timeout_seconds=1)
    scrape = collector.collect()
    assert scrape is not None
    assert scrape.error is error
    assert len(transport.asked) == 1


def test_without_index_and_statistics_nothing_is_asked() -> None:
    transport = SavedAnswers({})
    collector = ConfigCollector(SERVER, transport, lambda: None, timeout_seconds=1)
    assert collector.collect() is None
    assert transport.asked == []
