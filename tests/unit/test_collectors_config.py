"""Configurations: read from saved answers, on a change only, a few at a time."""

import json
from typing import Any

import pytest

from collectors.config import ConfigCollector, parse_config, ready_models
from collectors.statistics import parse_statistics
from telemetry.errors import NoAnswer, NotFound
from telemetry.facts import IndexEntry, ModelConfig, ModelState
from tests.saved_answers import SERVER, SavedAnswers, load


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


@pytest.mark.parametrize(
    ("batching", "has"),
    [
        ({}, False),
        ({"default_queue_policy": {"max_queue_size": 0, "default_timeout_microseconds": "0"}}, False),
        ({"default_queue_policy": {"max_queue_size": 8}}, True),
        ({"default_queue_policy": {"default_timeout_microseconds": "5000"}}, True),
        ({"default_queue_policy": {"allow_timeout_override": True}}, True),
        ({"priority_levels": "2"}, True),
    ],
)
def test_what_keeps_triton_from_forming_batches_ahead(batching: dict[str, Any], has: bool) -> None:
    assert parse_config({"name": "m", "dynamic_batching": batching}).queue_policy is has
