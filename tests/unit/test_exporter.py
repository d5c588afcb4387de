"""The exporter's page: what is published, under which labels, within which budget."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from collectors.config import parse_config
from collectors.exporter_families import HEALTH, Options, families, instance_of, server_labels
from collectors.exporter_http import DEFAULT_TIMEOUT_SECONDS, page_text, scrape_timeout_seconds
from collectors.exporter_reading import Answers, SourceState
from collectors.exporter_values import STATES, bounds, exported, families_by_importance
from collectors.repository import parse_index
from collectors.statistics import parse_statistics, statistics_samples
from signals.definitions import DEFINITIONS
from signals.evaluation import Dialect
from signals.facts import FactFamily
from telemetry.catalogue import CATALOGUE
from telemetry.facts import IndexEntry, ModelConfig, ModelState, ServerMetadata
from telemetry.identity import Server
from telemetry.memory import ServerProcesses, StubProcess
from telemetry.reasons import ReasonClass
from telemetry.scrape import Source
from tests.saved_answers import load

SERVER = Server("search-1", "http://triton:8000", "http://triton:8002")
RAW = Options(raw_batch_sizes=True)
Labels = dict[str, str]


def configs(*names: str) -> dict[str, ModelConfig]:
    saved = load("model_configs.json")
    assert isinstance(saved, dict)
    return {name: parse_config(saved[name]) for name in names}


def answers(**changes: object) -> Answers:
    """What a real server answered, with the configurations of some of its models."""
    rows, _ = parse_statistics(load("stats_under_load.json"))
    index, _ = parse_index(load("repository_index_main.json"))
    plain = Answers(
        SERVER,
        (SourceState(Source.INDEX, True, 0.25, 1.5), SourceState(Source.CONFIG)),
        index,
        rows,
        ServerMetadata("triton", "2.51.0"),
        configs("add", "ens"),
        tuple((row.name, row.version) for row in rows),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def page(given: Answers, options: Options | None = None) -> dict[str, list[tuple[Labels, float]]]:
    """Sample name -> labels without `instance` and value, as an independent reader reads the page."""
    text = page_text(families(given, options or Options())).decode()
    found: dict[str, list[tuple[Labels, float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels["instance"] == instance_of(given.server)
            own = {name: value for name, value in sample.labels.items() if name != "instance"}
            found.setdefault(sample.name, []).append((own, sample.value))
    return found


def values(found: dict[str, list[tuple[Labels, float]]], name: str, **labels: str) -> list[float]:
    return [value for own, value in found.get(name, []) if labels.items() <= own.items()]


# ---- who the series are of


def test_instance_is_that_of_the_metrics_page_unless_the_settings_say_otherwise() -> None:
    assert instance_of(SERVER) == "triton:8002"
    assert instance_of(replace(SERVER, metrics_url=None)) == "triton:8000"
    assert instance_of(replace(SERVER, match=(("instance", "10.0.0.7:8002"),))) == "10.0.0.7:8002"


def test_the_other_labels_of_match_are_written_but_never_over_our_own() -> None:
    match = (("model", "x"), ("namespace", "search"), ("pod", "triton-0"), ("version", "1.4"), ("le", "3"))
    labels = server_labels(replace(SERVER, match=match))
    assert labels == {"instance": "triton:8002", "namespace": "search", "pod": "triton-0"}
    found = page(answers(server=replace(SERVER, match=match)))
    assert found["tritonscope_model_instances"][0][0]["namespace"] == "search"


# ---- models


def test_every_state_is_a_series_and_one_of_them_is_1() -> None:
    index = (
        IndexEntry("a", "1", ModelState.READY),
        IndexEntry("a", "2", ModelState.LOADING),
        IndexEntry("b", "", ModelState.NEVER_LOADED),
    )
    found = page(answers(index=index))["tritonscope_model_state"]
    assert len(found) == 3 * len(STATES)
    assert [own for own, value in found if value == 1] == [
        {"model": "a", "version": "1", "state": "READY"},
        {"model": "a", "version": "2", "state": "LOADING"},
        {"model": "b", "version": "", "state": "NEVER_LOADED"},
    ]
    assert {value for _, value in found} == {0, 1}


def test_a_failed_load_has_a_class_and_its_text_is_on_no_page() -> None:
    text = "Internal: ModuleNotFoundError: No module named 'secret_module'"
    index = (
        IndexEntry("bad", "1", ModelState.UNAVAILABLE, text),
        IndexEntry("off", "1", ModelState.UNAVAILABLE, "unloaded"),
        IndexEntry("good", "1", ModelState.READY),
        IndexEntry("coming", "1", ModelState.LOADING, text),
    )
    given = answers(index=index)
    assert page(given)["tritonscope_model_load_failed"] == [
        ({"model": "bad", "version": "1", "reason_class": "import_failed"}, 1)
    ]
    assert b"secret_module" not in page_text(families(given, Options()))


def test_a_failed_update_counts_while_the_version_before_still_serves() -> None:
    text = "Internal: Stub process 'm_0' is not healthy."
    given = answers(index=(IndexEntry("m", "3", ModelState.READY, text),))
    assert page(given)["tritonscope_model_load_failed"] == [
        ({"model": "m", "version": "3", "reason_class": "stub_died"}, 1)
    ]


def test_reason_classes_of_a_real_broken_repository_are_bounded() -> None:
    index, _ = parse_index(load("repository_index_broken.json"))
    found = page(answers(index=index))["tritonscope_model_load_failed"]
    assert len(found) == sum(entry.failed for entry in index) > 10
    assert {own["reason_class"] for own, _ in found} <= {str(one) for one in ReasonClass}


def test_facts_of_the_configuration_are_those_of_ready_models() -> None:
    found = page(answers())
    add = configs("add")["add"]
    assert values(found, "tritonscope_model_instances", model="add", version="1") == [add.instance_count]
    assert values(found, "tritonscope_model_max_batch_size", model="add") == [add.max_batch_size] == [8]
    assert values(found, "tritonscope_model_dynamic_batching", model="add") == [1]
    assert values(found, "tritonscope_model_max_queue_delay_us", model="add") == [add.max_queue_delay_us]
    assert not values(found, "tritonscope_model_instances", model="slow")
    assert page(answers(ready=())).get("tritonscope_model_instances") is None


def test_an_ensemble_has_steps_but_neither_instances_nor_batches_of_its_own() -> None:
    found = page(answers())
    steps = {own["step"]: value for own, value in found["tritonscope_ensemble_step"] if own["model"] == "ens"}
    assert steps == {step.model_name: 1 for step in configs("ens")["ens"].ensemble_steps}
    assert steps
    assert not values(found, "tritonscope_model_instances", model="ens")
    assert not values(found, "tritonscope_model_dynamic_batching", model="ens")


def test_a_decoupled_model_queues_itself() -> None:
    assert configs("dec")["dec"].decoupled
    found = page(answers(configs=configs("dec", "add")))
    assert found["tritonscope_model_queues_itself"] == [({"model": "dec"}, 1)]


def test_memory_is_published_by_device_with_its_source_and_nothing_where_nothing_is_reported() -> None:
    rows, _ = parse_statistics(load("cases/e03_stats_memory_empty.json"))
    found = page(answers(statistics=rows))["tritonscope_model_memory_bytes"]
    bravo = {"model": "bravo", "version": "1", "source": "reported", "device": "0"}
    assert found == [(bravo | {"kind": "GPU"}, 2147483648), (bravo | {"kind": "CPU"}, 1048576)]


def test_memory_of_processes_is_published_beside_what_backends_report() -> None:
    stub = StubProcess(7, "py", "1", "py_0", 200, {"GPU-1": 40})
    processes = ServerProcesses(1, stubs=(stub, replace(stub, pid=8, instance="py_1")))
    found = page(answers(statistics=(), processes=processes))["tritonscope_model_memory_bytes"]
    py = {"model": "py", "version": "1", "source": "process"}
    assert found == [
        (py | {"kind": "GPU", "device": "GPU-1"}, 80),
        (py | {"kind": "CPU", "device": "0"}, 400),
    ]


# ---- batch sizes and time


@pytest.mark.parametrize(
    ("largest", "sizes", "expected"),
    [
        (0, [1], (1,)),
        (1, [1], (1,)),
        (6, [1, 6], (1, 2, 4, 8)),
        (8, [1], (1, 2, 4, 8)),
        (None, [3], (1, 2, 4)),
        (None, [], (1,)),
    ],
)
def test_bounds_are_powers_of_two_up_to_the_largest_batch(
    largest: int | None, sizes: list[int], expected: tuple[int, ...]
) -> None:
    assert bounds(largest, sizes) == expected


def test_the_histogram_of_batch_sizes_adds_up() -> None:
    given = answers()
    assert given.statistics is not None
    row = next(one for one in given.statistics if one.name == "add")
    counts = {batch.batch_size: batch.executions for batch in row.batches}
    found = page(given)
    buckets = {
        own["le"]: value for own, value in found["tritonscope_batch_size_bucket"] if own["model"] == "add"
    }
    assert buckets == {
        "1.0": counts[1],
        "2.0": counts[1] + counts[2],
        "4.0": sum(counts[size] for size in (1, 2, 3, 4)),
        "8.0": sum(counts.values()),
        "+Inf": sum(counts.values()),
    }
    assert values(found, "tritonscope_batch_size_count", model="add") == [sum(counts.values())]
    assert values(found, "tritonscope_batch_size_sum", model="add") == [row.inference_count]


def test_raw_sizes_are_the_samples_that_the_history_of_the_app_keeps() -> None:
    given = answers()
    assert given.statistics is not None
    found = page(given, RAW)
    samples = statistics_samples(given.statistics)
    kept = {
        (series.name, series.labels): value
        for series, value in zip(samples.series, samples.values.tolist(), strict=True)
    }
    published = {
        (name, tuple(sorted(own.items()))): value
        for name in {series.name for series in samples.series}
        for own, value in found[name]
    }
    assert published == kept


def test_without_raw_sizes_compute_time_is_the_total_of_the_model() -> None:
    by_size = values(page(answers(), RAW), "tritonscope_batch_compute_us_total", model="add")
    found = page(answers())
    assert len(by_size) == 8
    [total] = values(found, "tritonscope_batch_compute_us_total", model="add")
    assert total == pytest.approx(sum(by_size), rel=1e-12)
    assert found["tritonscope_batch_compute_us_total"][0][0].keys() == {"model", "version"}
    assert "tritonscope_batch_executions_total" not in found


def test_a_model_that_has_not_executed_begins_at_zero_so_that_no_increase_is_lost() -> None:
    rows, _ = parse_statistics(
        {
            "model_stats": [
                {"name": "add", "version": "1", "execution_count": 0, "batch_stats": []},
                {"name": "tells_nothing", "version": "1", "execution_count": 7, "batch_stats": []},
            ]
        }
    )
    found = page(answers(statistics=rows))
    add = {"model": "add", "version": "1"}
    assert found["tritonscope_batch_compute_us_total"] == [(add, 0)]
    bounds_of_add = ("1.0", "2.0", "4.0", "8.0", "+Inf")
    assert found["tritonscope_batch_size_bucket"] == [(add | {"le": le}, 0) for le in bounds_of_add]


# ---- what is not there


def test_what_does_not_answer_is_absent_and_the_rest_is_there() -> None:
    found = page(answers(index=None, metadata=None))
    assert "tritonscope_model_state" not in found
    assert "tritonscope_server_info" not in found
    assert found["tritonscope_model_executions_total"]
    empty = page(Answers(SERVER, (SourceState(Source.INDEX, False, 3.0),)))
    assert set(empty) == {
        "tritonscope_exporter_source_success",
        "tritonscope_exporter_source_duration_seconds",
        "tritonscope_exporter_source_notices",
        "tritonscope_exporter_model_configs",
        "tritonscope_exporter_series",
        "tritonscope_exporter_series_budget",
    }
    assert empty["tritonscope_exporter_source_success"] == [({"source": "index"}, 0)]
    assert empty["tritonscope_exporter_series"] == [({}, 0)]


def test_a_source_that_was_never_asked_says_nothing() -> None:
    found = page(answers())
    assert found["tritonscope_exporter_source_success"] == [({"source": "index"}, 1)]
    assert found["tritonscope_exporter_source_age_seconds"] == [({"source": "index"}, 1.5)]


def test_configurations_still_to_come_are_counted() -> None:
    given = answers(ready=(("add", "1"), ("ens", "1"), ("slow", "1"), ("slow", "2"), ("has space", "1")))
    states = {own["state"]: value for own, value in page(given)["tritonscope_exporter_model_configs"]}
    assert states == {"known": 2, "pending": 1, "unreadable": 1}


def test_no_family_repeats_one_of_tritons_page() -> None:
    assert not [name for name in page(answers(), RAW) if not name.startswith("tritonscope_")]


# ---- the budget


def series_of(found: dict[str, list[tuple[Labels, float]]]) -> int:
    return sum(len(rows) for name, rows in found.items() if not name.startswith("tritonscope_exporter_"))


def test_within_the_budget_nothing_is_dropped() -> None:
    whole = page(answers(), RAW)
    count = series_of(whole)
    assert whole["tritonscope_exporter_series"] == [({}, count)]
    assert page(answers(), Options(True, count)) == whole | {
        "tritonscope_exporter_series_budget": [({}, count)]
    }


def test_beyond_the_budget_the_least_important_families_go_wholly_and_are_named() -> None:
    whole = page(answers(), RAW)
    budget = series_of(whole) - 1
    found = page(answers(), Options(True, budget))
    last = "tritonscope_batch_compute_infer_us_total"
    assert found["tritonscope_exporter_series_dropped"] == [({"family": last}, len(whole[last]))]
    assert last not in found
    assert found["tritonscope_batch_executions_total"] == whole["tritonscope_batch_executions_total"]
    assert series_of(found) == series_of(whole) - len(whole[last])


def test_the_states_of_models_are_kept_to_the_last() -> None:
    states = len(page(answers())["tritonscope_model_state"])
    found = page(answers(), Options(False, states + 1))
    assert len(found["tritonscope_model_state"]) == states
    assert "tritonscope_model_executions_total" not in found
    dropped = {own["family"] for own, _ in found["tritonscope_exporter_series_dropped"]}
    assert "tritonscope_batch_size" in dropped
    assert "tritonscope_model_executions_total" in dropped


# ---- one definition


def test_every_family_the_signals_use_is_published() -> None:
    published = {row.family for row, _ in families_by_importance()}
    derived = {row.family for row in CATALOGUE.values() if row.family.startswith("tritonscope_")}
    used = {family for family in derived for one in DEFINITIONS if family in one.expression.promql(Dialect())}
    assert {str(family) for family in FactFamily} <= used <= published
    assert published == derived


def test_labels_on_the_page_are_those_of_the_catalogue() -> None:
    found = page(answers(configs=configs("add", "ens", "dec", "queue2")), RAW)
    for row, _ in families_by_importance():
        names = [row.family] if row.kind != "histogram" else [f"{row.family}_count"]
        for name in names:
            for own, _ in found.get(name, []):
                assert own.keys() == set(row.labels), name
    assert len(exported(True)) == len(families_by_importance())
    assert all(row.family.startswith("tritonscope_exporter_") for row in HEALTH)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("10", 10.0),
        ("0.5", 0.5),
        ("0.0001", 0.2),
        ("9999", 120.0),
        (None, DEFAULT_TIMEOUT_SECONDS),
        ("", DEFAULT_TIMEOUT_SECONDS),
        ("soon", DEFAULT_TIMEOUT_SECONDS),
        ("-1", DEFAULT_TIMEOUT_SECONDS),
        ("nan", DEFAULT_TIMEOUT_SECONDS),
        ("inf", DEFAULT_TIMEOUT_SECONDS),
    ],
)
def test_the_scrape_timeout_of_the_header(header: str | None, seconds: float) -> None:
    assert scrape_timeout_seconds(header) == seconds
