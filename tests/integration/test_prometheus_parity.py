"""The ring against a real Prometheus: identical samples within 0.1 %, two live scrapers within 2 %."""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import pytest
import requests

from collectors.config import parse_config
from collectors.metrics_page import MetricsPageCollector
from collectors.statistics import parse_statistics, statistics_samples
from history.protocol import Grid
from history.ring import Ring
from sandbox import FAULT_MODELS, Sandbox, SandboxOptions
from signals.definition import Definition, Level
from signals.definitions import DEFINITIONS, definition
from signals.evaluation import Evaluation
from signals.facts import FactFamily, SignalFacts
from telemetry.errors import Unreachable
from telemetry.identity import Server
from telemetry.scrape import Samples, Scrape, Series, Source
from telemetry.transport import Transport
from tests.parity import differences, of_history, of_prometheus, traffic, without
from tests.prometheus_server import PrometheusServer, TextPage

pytestmark = pytest.mark.integration

SERVER = "sandbox"
MODELS = ("batch_add_model", "batch_cost_model", "resnet18", "label_head", "ensemble_pipeline")
ALL_MODELS = (*MODELS, "flaky", "flaky_pipe", "decoupled_thread")
FLAKY_PIPE = """
name: "flaky_pipe"
platform: "ensemble"
input [ { name: "INPUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUTPUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
ensemble_scheduling { step [ {
  model_name: "flaky" model_version: -1
  input_map { key: "INPUT" value: "INPUT" } output_map { key: "OUTPUT" value: "OUTPUT" }
} ] }
"""
NOT_IN_THE_SANDBOX = {"cache_hit_ratio", "memory_bytes_by_device"}
"""No model has a response cache, and the python backend reports no memory."""
JOBS = {"triton": Source.METRICS, "facts": Source.STATISTICS}
BATCH_SIZES = range(1, 33)


class Until(Protocol):
    def __call__(self, condition: Any, seconds: float = 30.0) -> Any: ...


# ---- the page of facts


class Facts:
    """What an exporter beside Triton publishes: statistics as samples, and facts of the configurations."""

    def __init__(self, url: str) -> None:
        self._url = url
        configs = {
            name: parse_config(requests.get(f"{url}/v2/models/{name}/config", timeout=5).json())
            for name in ALL_MODELS
        }
        self.signal_facts = SignalFacts(
            instances={
                (SERVER, name, "1"): float(config.instance_count)
                for name, config in configs.items()
                if config.instance_count is not None
            },
            steps={
                (SERVER, name): {step.model_name: 1 for step in config.ensemble_steps}
                for name, config in configs.items()
                if config.ensemble
            },
            ensemble_version={(SERVER, name): "1" for name, config in configs.items() if config.ensemble},
            queues_itself=frozenset((SERVER, name) for name, config in configs.items() if config.decoupled),
        )
        self._lines = list(self._fact_lines())

    def _fact_lines(self) -> Iterator[str]:
        for (_, name, version), count in self.signal_facts.instances.items():
            yield f'{FactFamily.INSTANCES}{{model="{name}",version="{version}"}} {count:g}'
        for (_, name), steps in self.signal_facts.steps.items():
            for step, uses in steps.items():
                yield f'{FactFamily.ENSEMBLE_STEP}{{model="{name}",step="{step}"}} {uses}'
        for _, name in self.signal_facts.queues_itself:
            yield f'{FactFamily.QUEUES_ITSELF}{{model="{name}"}} 1'

    def page(self) -> str:
        """The page now; without statistics while the server does not answer."""
        try:
            answer = requests.get(f"{self._url}/v2/models/stats", timeout=0.5)
            rows, _ = parse_statistics(answer.json())
        except requests.RequestException:
            return "\n".join(self._lines) + "\n"
        samples = statistics_samples(rows)
        found = dict(zip(samples.series, samples.values.tolist(), strict=True))
        # A batch size appears in the statistics with its first execution: an exporter begins it at zero.
        for series in [one for one in found if one.name == "tritonscope_model_executions_total"]:
            for family in ("batch_executions_total", "batch_compute_us_total"):
                for size in BATCH_SIZES:
                    labels = (("batch_size", str(size)), *series.labels)
                    found.setdefault(Series(f"tritonscope_{family}", labels), 0.0)
        return "\n".join([*self._lines, *(_line(series, value) for series, value in found.items())]) + "\n"


def _line(series: Series, value: float) -> str:
    labels = ",".join(f'{name}="{text}"' for name, text in series.labels)
    return f"{series.name}{{{labels}}} {value:.17g}"


# ---- the ring from Prometheus' raw answer


def ring_of(prometheus: PrometheusServer, at: float) -> Ring:
    """A ring with exactly the samples that Prometheus holds."""
    ring = Ring()
    for job, source in JOBS.items():
        columns: dict[float, dict[Series, float]] = {}
        for row in prometheus.query(f'{{job="{job}"}}[15m]', at):
            series = _series(row["metric"])
            for time_, value in row["values"]:
                columns.setdefault(time_, {})[series] = float(value)
        for time_ in sorted(columns):
            values = columns[time_]
            up = values.pop(Series("up", ()), 1.0)
            kept = {
                series: value for series, value in values.items() if not series.name.startswith("scrape_")
            }
            samples = Samples(tuple(kept), np.array(list(kept.values()), dtype=np.float64))
            error = None if up else Unreachable("refused")
            ring.accept(Scrape(SERVER, source, time_, 0.0, samples if up else Samples.empty(), error=error))
    return ring


def _series(metric: dict[str, str]) -> Series:
    labels = sorted(
        (name, text) for name, text in metric.items() if name not in ("__name__", "job", "instance")
    )
    return Series(metric["__name__"], tuple(labels))


# ---- identical samples


@pytest.fixture(scope="module")
def observed(
    tmp_path_factory: pytest.TempPathFactory, until: Until
) -> Iterator[tuple[Ring, Facts, Any, Grid]]:
    """Prometheus has watched a load, an unload, a kill and a restart under traffic."""
    pipe = tmp_path_factory.mktemp("models") / "flaky_pipe"
    (pipe / "1").mkdir(parents=True)
    (pipe / "config.pbtxt").write_text(FLAKY_PIPE, encoding="utf-8")
    extra = (FAULT_MODELS["flaky"], FAULT_MODELS["decoupled_thread"], pipe)
    options = SandboxOptions(http_port=0, grpc_port=0, metrics_port=0, models=MODELS, extra_models=extra)
    with Sandbox(options) as triton:
        facts = Facts(triton.http_url)
        rates = {
            "batch_add_model": 15.0,
            "batch_cost_model": 20.0,
            "ensemble_pipeline": 1.5,
            "resnet18": 1.0,
            "flaky": 4.0,
            "flaky_pipe": 5.0,
            "decoupled_thread": 0.5,
        }
        with (
            TextPage(facts.page) as page,
            PrometheusServer(
                tmp_path_factory.mktemp("prometheus"), {"triton": triton.metrics_url, "facts": page.url}
            ) as prometheus,
        ):
            until(prometheus.ready, 30.0)
            begin = time.time()
            with traffic(triton.http_url, rates):
                _watched(prometheus, until, 12)
                _act(triton, "unload")
                _watched(prometheus, until, 6)
                _act(triton, "load")
                _watched(prometheus, until, 8)
                triton.restart()
                _watched(prometheus, until, 12)
            end = math.floor(time.time())
            grid = Grid(math.floor(begin) + 2.0, float(end), 1.0)
            yield ring_of(prometheus, end), facts, prometheus, grid


def _watched(prometheus: PrometheusServer, until: Until, scrapes: int) -> None:
    """Wait until Triton's page was read so many more times."""
    since = time.time()

    def seen() -> bool:
        rows = prometheus.query(
            f'sum(count_over_time(up{{job="triton"}}[{int(time.time() - since) + 1}s]))', time.time()
        )
        return bool(rows) and float(rows[0]["value"][1]) >= scrapes

    until(seen, 60.0)


def _act(triton: Sandbox, action: str) -> None:
    answer = requests.post(f"{triton.http_url}/v2/repository/models/batch_add_model/{action}", timeout=30)
    assert answer.status_code == 200


def test_the_history_holds_what_it_should(observed: tuple[Ring, Facts, PrometheusServer, Grid]) -> None:
    """Without a reset, a gap and a failed reading in it the comparison would prove little."""
    ring, _, _, grid = observed
    by = ("server", "model", "version")
    counter = ring.gauge_range("nv_inference_request_success", by, Grid(grid.start, grid.end, 0.5))
    values = counter.column((SERVER, "batch_add_model", "1"))
    assert values is not None
    there = values[~np.isnan(values)]
    assert (np.diff(there) < 0).any(), "no reset"
    assert np.isnan(values[10:-5]).any(), "no gap"
    times = ring.sample_times(SERVER, Source.METRICS, grid.start, grid.end)
    answered = ring.gauge_range("nv_cpu_memory_total_bytes", ("server",), Grid(grid.start, grid.end, 0.5))
    assert len(times) > 40 and np.isnan(answered.values).any(), "no failed reading"


def without_facts(prometheus: PrometheusServer, grid: Grid) -> frozenset[float]:
    """Moments at which the page of facts was not read: Prometheus does not know then what the ring does."""
    rows = prometheus.query_range('up{job="facts"} == 1', grid.start, grid.end, grid.step_seconds)
    known = {float(at) for row in rows for at, _ in row["values"]}
    moments = grid.times().tolist()
    assert len(known) > 0.6 * len(moments), "too few readings to compare"
    return frozenset(moments) - known


@pytest.mark.parametrize("row", DEFINITIONS, ids=lambda row: f"{row.level}-{row.name}")
def test_on_identical_samples_a_signal_is_that_of_its_promql(
    row: Definition, observed: tuple[Ring, Facts, PrometheusServer, Grid]
) -> None:
    ring, facts, prometheus, grid = observed
    ours = of_history(ring, facts.signal_facts, row, grid, 20.0)
    theirs = of_prometheus(prometheus, row, grid, "20s")
    unread = without_facts(prometheus, grid)
    ours, theirs = without(ours, unread), without(theirs, unread)
    assert bool(ours) == (row.name not in NOT_IN_THE_SANDBOX)
    found = differences(ours, theirs, 1e-3)
    assert not found, "\n".join(found[:20])


def test_failures_of_an_ensemble_are_one_each(
    observed: tuple[Ring, Facts, PrometheusServer, Grid],
) -> None:
    """The comparison above covers halving and overlap only if requests to the ensemble failed."""
    ring, facts, _, grid = observed
    end = Grid(grid.end, grid.end, 1.0)
    evaluation = Evaluation(ring, facts.signal_facts, 10.0, end)

    def number(name: str, level: Level, *key: str) -> float:
        column = evaluation.of(definition(name, level).expression).column((SERVER, *key))
        assert column is not None
        return float(column[0])

    pipe = number("failures_total", Level.MODEL, "flaky_pipe", "1")
    step = number("failures_total", Level.MODEL, "flaky", "1")
    assert pipe > 0 and step > pipe
    assert number("failures_total", Level.SERVER) == step


# ---- two live scrapers

WINDOW_SECONDS = 60.0
EVERY_SECONDS = 1.0
MOMENTS = 10
STEADY = "batch_cost_model"
COMPARED = {
    "requests_per_second", "executions_per_second", "requests_total", "inferences_total", "executions_total",
    "request_us_mean", "queue_us_mean", "compute_infer_us_mean", "queue_ratio", "batch_size_mean",
    "failed_ratio",
}  # fmt: skip
"""Rates, means and ratios of traffic; gauges and quantiles are read at one moment only."""


def test_two_live_scrapers_agree_under_steady_traffic(
    triton: Sandbox, tmp_path_factory: pytest.TempPathFactory, until: Until
) -> None:
    """Our collector and Prometheus read the same page at their own times for a minute.

    Compared is the middle one of ten moments: a hiccup of the machine that only one of the two windows
    holds is no difference of the two histories.
    """
    address = Server(SERVER, triton.http_url, triton.metrics_url)
    collector = MetricsPageCollector(address, Transport(address), timeout_seconds=2.0)
    ring, over = Ring(), threading.Event()
    folder, pages = tmp_path_factory.mktemp("prometheus"), {"triton": triton.metrics_url}
    with (
        PrometheusServer(folder, pages, every_seconds=EVERY_SECONDS) as prometheus,
        traffic(triton.http_url, {STEADY: 40.0}),
    ):
        until(prometheus.ready, 30.0)
        end = time.monotonic() + WINDOW_SECONDS + MOMENTS + 3 * EVERY_SECONDS
        while time.monotonic() < end:
            ring.accept(collector.collect())
            over.wait(EVERY_SECONDS)
        at = float(math.floor(time.time()))
        grid = Grid(at - MOMENTS + 1, at, 1.0)
        rows = [row for row in DEFINITIONS if row.name in COMPARED]
        apart = {f"{row.level} {row.name}": _apart(ring, prometheus, row, grid) for row in rows}
    assert len(apart) == 2 * len(COMPARED)
    assert {name: value for name, value in apart.items() if not value <= 0.02} == {}


def _apart(ring: Ring, prometheus: PrometheusServer, row: Definition, grid: Grid) -> float:
    """Relative difference of the steady model's (or the server's) values, the middle one over the grid."""
    key = (SERVER, STEADY, "1") if row.level is Level.MODEL else (SERVER,)
    ours = of_history(ring, SignalFacts(), row, grid, WINDOW_SECONDS)[key]
    theirs = of_prometheus(prometheus, row, grid, f"{WINDOW_SECONDS:.0f}s")[key]
    assert len(ours) == len(theirs) == MOMENTS
    return statistics.median(abs(ours[at] - theirs[at]) / max(abs(theirs[at]), 1e-9) for at in ours)
