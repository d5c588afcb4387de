"""The boards, the rules and the app on the real thing at once; `make trial` runs it for five minutes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from grafana.boards import BOARDS
from grafana.parameters import Parameters
from signals.definitions import DEFINITIONS
from tests.board_history import Asked, Reader, asked
from tests.integration.test_exporter import Exporter
from tests.trial import Apart, Trial, trial

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

SECONDS = float(os.environ.get("TRIAL_SECONDS", "30"))
NOT_IN_THE_SANDBOX = {
    "tritonscope-fleet": {
        "$cluster", "$namespace", "Sources that did not answer A", "Series published B",
    },
    "tritonscope-model": {"$cluster", "$namespace", "Memory by model and source A"},
    "tritonscope-gpu": {"$cluster", "$namespace", "Memory by model and source A"},
    "tritonscope-llm": {"$cluster", "$namespace"},
}  # fmt: skip
"""What is not there: such labels, a backend that reports memory; no source fails, no series drops."""
ALERTS = {"Alerts A", "Firing now A"}
"""They have something to show once an alert's `for` is over: in the long trial."""
OTHER_SOURCES = ("DCGM_", "vllm:", "nv_trt_llm_", "nv_llm_", "nv_inference_first_response_histogram_ms")
"""Answered by the synthetic histories of test_grafana_queries.py."""
TRAFFIC = {
    "requests_per_second", "executions_per_second", "request_us_mean", "queue_us_mean",
    "compute_infer_us_mean", "batch_size_mean", "queue_ratio",
}  # fmt: skip
"""Rates, means and ratios over the window: what two readers of one page must agree on."""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, until: Any) -> Iterator[Trial]:
    with trial(tmp_path_factory.mktemp("trial"), SECONDS, Exporter, until) as found:
        yield found


@pytest.fixture(scope="module")
def reader(watched: Trial) -> Reader:
    return Reader(watched.prometheus, watched.begin, watched.end, 1, window_seconds=20)


def in_the_sandbox(one: Asked) -> bool:
    missing = NOT_IN_THE_SANDBOX[one.board] | (ALERTS if SECONDS < 300 else set())
    return one.place not in missing and not any(name in one.text for name in OTHER_SOURCES)


def test_every_query_about_what_the_sandbox_has_answers_with_numbers(reader: Reader, figure: Any) -> None:
    queries = [one for build in BOARDS.values() for one in asked(build(Parameters()).document())]
    here = [one for one in queries if in_the_sandbox(one)]
    silent = [f"{one.board}: {one.place}: {one.text}" for one in here if not reader.values(one)]
    figure(f"{len(here)} of {len(queries)} queries asked, {len(here) - len(silent)} answered with numbers")
    assert len(here) > 100
    assert not silent, "\n".join(silent)


def test_the_rest_is_no_error_either(reader: Reader) -> None:
    """What is not there is an empty answer: `values` fails on an error of Prometheus."""
    queries = [one for build in BOARDS.values() for one in asked(build(Parameters()).document())]
    rest = [one for one in queries if not in_the_sandbox(one)]
    assert rest
    for one in rest:
        reader.values(one)


def test_every_rule_is_evaluated_without_an_error(watched: Trial, figure: Any) -> None:
    rules = watched.prometheus.rules()
    raised = {
        f"{rule['name']} {alert['labels'].get('model', '')} {alert['state']}"
        for rule in rules
        for alert in rule.get("alerts", ())
    }
    figure(f"{len(rules)} rules evaluated; raised: {', '.join(sorted(raised)) or 'nothing'}")
    assert len(rules) > 30
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}
    models = {alert["labels"].get("model") for rule in rules for alert in rule.get("alerts", ())}
    assert models <= {"flaky", "flaky_cached", "fail_init"}, "only these have something wrong with them"
    # Half of its requests fail: known at once, told after the `for` of the rule.
    assert any(name.startswith("RequestsFailing flaky ") for name in raised) or SECONDS < 300


def test_what_the_app_shows_live_is_what_prometheus_says(watched: Trial, figure: Any) -> None:
    found: dict[str, Apart] = {f"{row.level} {row.name}": watched.apart(row) for row in DEFINITIONS}
    table = "\n".join(apart.line(name) for name, apart in found.items())
    figure(f"two live readers, {watched.end - watched.begin:.0f} s, by signal:\n{table}")
    assert [name for name, apart in found.items() if bool(apart.ours) != bool(apart.theirs)] == []
    # Half of a short trial lies within a window of a load or an unload, where the moment of reading counts.
    limit = 0.05 if SECONDS >= 300 else 0.15
    medians = {name: found[name].median for name in found if name.split()[1] in TRAFFIC}
    assert len(medians) >= len(TRAFFIC)
    assert {name: value for name, value in medians.items() if value is None or value > limit} == {}
