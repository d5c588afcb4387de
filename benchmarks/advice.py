"""How far the advice can be trusted: predicted against measured throughput and queue, on the real server.

    python -m benchmarks.advice

Starts a sandbox of its own. The model batch_cost_model first serves traffic under the configuration in its
file; from the statistics of that time alone T(b) is fitted. Then each of the other configurations is
predicted, loaded with an override and measured, under clients that wait for their answers and under random
arrivals. One JSON line for each measurement, and one with the median errors. `execution_ratio` is how much
longer an execution took than T(b) says: on a machine with other work it tells a prediction that was wrong
from a machine that had become slower.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import requests

from collectors.config import parse_config
from collectors.statistics import read_statistics
from control.inference import InferenceRequest, Tensor
from experiments.load_process import Target, Watch, run_load
from experiments.plan import LoadPlan, Loop
from sandbox import Sandbox, SandboxOptions
from signals.batch_time import BatchTime, fit_batch_time, size_times
from signals.batcher import Arrivals, BatcherConfig, Outcome, handover_us, simulate
from telemetry.facts import ModelConfig, ModelStatistics
from telemetry.identity import Server
from telemetry.transport import Transport

MODEL = "batch_cost_model"
CLIENTS = 16
RATE_PER_SECOND = 300.0
LEARNING_RATES = (60.0, 150.0, 400.0, 700.0)
COSTS_US = {"execution_cost_us": 8000.0, "row_cost_us": 300.0}
BASELINE = BatcherConfig(16, True, 2000.0, (8, 16), 1)
CONFIGS = (
    BatcherConfig(16, True, 0.0, (), 1),
    BatcherConfig(16, True, 10_000.0, (16,), 1),
    BatcherConfig(16, True, 5_000.0, (4, 8), 1),
    BatcherConfig(8, True, 2_000.0, (8,), 1),
    BatcherConfig(16, True, 2_000.0, (8, 16), 2),
    BatcherConfig(16, True, 0.0, (), 2),
    BatcherConfig(4, True, 1_000.0, (4,), 3),
    BatcherConfig(16, False, 0.0, (), 4),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What the server counted over one load: requests per second, mean times in us, mean rows and time of an
    execution.
    """  # fmt: skip

    requests_per_second: float
    queue_us_mean: float
    request_us_mean: float
    batch_size_mean: float
    execution_us_mean: float


FIGURES = tuple(Measured.__dataclass_fields__)
ROUNDS = 3


class Bench:
    """One model of one sandbox: loads it with a configuration, sends load, reads what the server counted."""

    def __init__(self, sandbox: Sandbox, seconds: float, slower: float) -> None:
        self._server = Server("bench", sandbox.http_url, sandbox.metrics_url)
        self._transport = Transport(self._server, timeout_seconds=10.0)
        self._seconds = seconds
        self._slower = slower

    def load(self, config: BatcherConfig) -> None:
        """Load with an override of the whole effective configuration."""
        raw = json.dumps(overridden(self._config().raw, config, self._costs))
        url = f"{self._server.http_url}/v2/repository/models/{MODEL}/load"
        requests.post(url, json={"parameters": {"config": raw}}, timeout=60).raise_for_status()

    @property
    def _costs(self) -> dict[str, dict[str, str]]:
        return {name: {"string_value": f"{cost * self._slower:.0f}"} for name, cost in COSTS_US.items()}

    def measure(self, plan: LoadPlan) -> Measured:
        """Send one load in rounds; the median of each figure: another program's burst is no measurement."""
        found = [self._once(plan) for _ in range(ROUNDS)]
        return Measured(*(statistics.median(getattr(one, name) for one in found) for name in FIGURES))

    def _once(self, plan: LoadPlan) -> Measured:
        """The server's own counts, of the measured part alone."""
        request = InferenceRequest(
            "bench", MODEL, "", (Tensor("INPUT", "FP32", np.ones((1, 4), np.float32)),)
        )
        began: list[ModelStatistics] = []
        watch = Watch(lambda progress: None, lambda: began.append(self.statistics()), lambda: False)
        plan = replace(plan, seconds=self._seconds, warmup_seconds=1.0)
        figures = run_load(Target(self._server, self._config(), request), plan, watch)
        return counted(began[0], self.statistics(), figures.seconds)

    def statistics(self) -> ModelStatistics:
        """The model's statistics now."""
        rows, _ = read_statistics(self._server, self._transport, 10.0)
        return next(row for row in rows if row.name == MODEL)

    def _config(self) -> ModelConfig:
        url = f"{self._server.http_url}/v2/models/{MODEL}/config"
        return parse_config(requests.get(url, timeout=10).json())


def overridden(
    raw: Mapping[str, Any], config: BatcherConfig, costs: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """A whole configuration with another way to form batches and other costs."""
    changed = {key: value for key, value in raw.items() if key != "dynamic_batching"}
    changed["max_batch_size"] = config.max_batch_size
    changed["parameters"] = dict(costs)
    changed["instance_group"] = [{"count": config.instances, "kind": "KIND_CPU"}]
    if config.dynamic:
        changed["dynamic_batching"] = {
            "preferred_batch_size": list(config.preferred),
            "max_queue_delay_microseconds": int(config.delay_us),
        }
    return changed


def counted(before: ModelStatistics, after: ModelStatistics, seconds: float) -> Measured:
    """The increase between two readings."""
    if before.durations is None or after.durations is None:
        raise ValueError("the statistics have no durations")
    done = (after.success_count or 0) - (before.success_count or 0)
    executions = (after.execution_count or 0) - (before.execution_count or 0)
    rows = (after.inference_count or 0) - (before.inference_count or 0)
    return Measured(
        done / seconds,
        (after.durations.queue_ns - before.durations.queue_ns) / done / 1e3,
        (after.durations.request_ns - before.durations.request_ns) / done / 1e3,
        rows / executions,
        (_compute_us(after) - _compute_us(before)) / executions,
    )


def _compute_us(row: ModelStatistics) -> float:
    return sum(one.mean_us * one.executions for one in size_times(row.batches))


def plans(slower: float) -> dict[str, LoadPlan]:
    """The two loads each configuration is measured under."""
    return {
        "clients": LoadPlan(Loop.CLOSED, CLIENTS),
        "random arrivals": LoadPlan(Loop.OPEN, 128, RATE_PER_SECOND / slower),
    }


def delayed(config: BatcherConfig, slower: float) -> BatcherConfig:
    """The same with its delay in proportion."""
    return replace(config, delay_us=config.delay_us * slower)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all; exit status 1 if the median error of throughput or queue is above --limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.advice", description=__doc__)
    parser.add_argument(
        "--seconds",
        type=float,
        default=3.0,
        help="length of each of the three rounds of a load (%(default)s)",
    )
    parser.add_argument("--limit", type=float, default=0.15, help="median error allowed (%(default)s)")
    parser.add_argument(
        "--slower", type=float, default=1.0,
        help="costs and delays times this, rates divided by it, on a busy machine (%(default)s)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    slower = options.slower
    sandbox_options = SandboxOptions(
        http_port=0, grpc_port=0, metrics_port=0, models=(MODEL,), simulated_gpu=False
    )
    with Sandbox(sandbox_options) as sandbox:
        bench = Bench(sandbox, options.seconds, slower)
        bench.load(delayed(BASELINE, slower))
        learnt = learn(bench, slower)
        rows = [row for config in CONFIGS for row in compare(bench, delayed(config, slower), learnt, slower)]
    return summary(rows, options.limit)


@dataclass(frozen=True, slots=True)
class Learnt:
    """What the traffic under the first configuration taught: T(b), the hand-over, the clients' own time."""

    time: BatchTime
    handover_us: float
    think_us: float


def learn(bench: Bench, slower: float) -> Learnt:
    """From the statistics under the configuration of the file alone."""
    rates = [rate / slower for rate in LEARNING_RATES]
    open_loops = {rate: bench.measure(LoadPlan(Loop.OPEN, 128, rate)) for rate in rates}
    closed = bench.measure(LoadPlan(Loop.CLOSED, CLIENTS))
    time = fit_batch_time(size_times(bench.statistics().batches))
    if time is None:
        raise SystemExit("Too few batch sizes were executed: nothing can be fitted.")
    # What else keeps requests waiting on a busy machine comes on top of it: the least is nearest to it.
    handover = min(
        handover_us(time, delayed(BASELINE, slower), Arrivals(rate_per_second=rate), row.queue_us_mean)
        for rate, row in open_loops.items()
    )
    # Little's law: the clients of a closed loop are either inside the server or on their way.
    think_us = max(0.0, CLIENTS / closed.requests_per_second * 1e6 - closed.request_us_mean)
    line = {
        "kind": "fit",
        "fixed_us": round(time.fixed_us),
        "per_row_us": round(time.per_row_us, 1),
        "error_ratio": time.error_ratio and round(time.error_ratio, 4),
        "sizes": [time.smallest, time.largest],
        "handover_us": round(handover),
        "think_us": round(think_us),
    }
    print(json.dumps(line), flush=True)
    return Learnt(time, handover, think_us)


def compare(bench: Bench, config: BatcherConfig, learnt: Learnt, slower: float) -> list[dict[str, Any]]:
    """Predict one configuration, then load and measure it, under both loads."""
    bench.load(config)
    rows = []
    for name, plan in plans(slower).items():
        arrivals = (
            Arrivals(clients=CLIENTS, think_us=learnt.think_us)
            if plan.loop is Loop.CLOSED
            else Arrivals(rate_per_second=plan.rate_per_second)
        )
        predicted = simulate(learnt.time, config, arrivals, handover_us=learnt.handover_us)
        measured = bench.measure(plan)
        slower = measured.execution_us_mean / learnt.time.us(measured.batch_size_mean)
        rows.append(told(config, name, predicted, measured) | {"execution_ratio": round(slower, 3)})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def told(config: BatcherConfig, load: str, predicted: Outcome, measured: Measured) -> dict[str, Any]:
    """One measurement as a JSON line."""
    return {
        "kind": "measurement",
        "load": load,
        "max_batch_size": config.max_batch_size,
        "dynamic_batching": config.dynamic,
        "delay_us": config.delay_us,
        "preferred": list(config.preferred),
        "instances": config.instances,
        "predicted_per_second": round(predicted.requests_per_second, 1),
        "measured_per_second": round(measured.requests_per_second, 1),
        "throughput_error": _off(predicted.requests_per_second, measured.requests_per_second),
        "predicted_queue_us": round(predicted.queue_us_mean),
        "measured_queue_us": round(measured.queue_us_mean),
        "queue_error": _off(predicted.queue_us_mean, measured.queue_us_mean),
        "predicted_batch": round(predicted.batch_size_mean, 2),
        "measured_batch": round(measured.batch_size_mean, 2),
        "stable": predicted.stable,
    }


def _off(predicted: float, measured: float) -> float:
    return round(abs(predicted - measured) / measured, 4)


def summary(rows: list[dict[str, Any]], limit: float) -> int:
    """The medians. Throughput only under clients that wait: random arrivals set it themselves."""
    throughput = statistics.median(row["throughput_error"] for row in rows if row["load"] == "clients")
    queue = statistics.median(row["queue_error"] for row in rows if row["stable"])
    result = {
        "kind": "summary",
        "configurations": len(CONFIGS),
        "throughput_error_median": throughput,
        "queue_error_median": queue,
        "limit": limit,
    }
    print(json.dumps(result), flush=True)
    return int(max(throughput, queue) > limit)


if __name__ == "__main__":
    raise SystemExit(main())
