"""The load generator against NVIDIA's perf_analyzer 2.51, alternating on one server: throughput and p99.

    python -m benchmarks.load_generator [--rounds 3] [--seconds 3] [--url http://127.0.0.1:8000]

Without an address it starts the embedded tritonserver. Prints one JSON document; a ratio is the median
throughput of the generator / that of perf_analyzer. Client and server share the machine: what a client costs
the server is part of the figure.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from control.inference import InferenceRequest, Tensor
from control.tensors import random_array
from experiments.fresh_reader import FreshReader
from experiments.load_process import Target, Watch, run_load
from experiments.plan import LoadPlan
from sandbox import Sandbox, SandboxOptions
from telemetry.identity import Server

BATCHING_MODEL = "batch_cost_model"
"""Its time is slept, not burnt: here a generator that is too slow shows, not the load of the machine."""
MODELS = (BATCHING_MODEL, "batch_add_model")
WANTED_RATIO = 0.9
CONCURRENCIES = (1, 8, 64)
_ROOT = Path(__file__).resolve().parents[1]
_TOOL = _ROOT / ".tools" / "perf_analyzer"
_WARM_UP_SECONDS = 0.5

Figure = dict[str, float]


def ours(url: str, model: str, concurrency: int, seconds: float) -> Figure:
    """One load by this project's generator: requests/s, and p99 in us."""
    server = Server("bench", url, None)
    config = FreshReader(lambda: (server,)).config("bench", model)
    tensors = tuple(
        Tensor(spec.name, spec.datatype, random_array(spec.datatype, (1, *spec.dims), 1))
        for spec in config.inputs
    )
    target = Target(server, config, InferenceRequest("bench", model, "", tensors))
    plan = LoadPlan(concurrency=concurrency, seconds=seconds, warmup_seconds=_WARM_UP_SECONDS)
    found = run_load(target, plan, Watch(lambda progress: None, lambda: None, lambda: False))
    if found.failed or not found.throughput_per_second or not found.p99_us:
        raise SystemExit(f"{model} at {concurrency}: {dict(found.errors)}")
    return {"per_second": found.throughput_per_second, "p99_us": found.p99_us}


def perf_analyzer(url: str, model: str, concurrency: int, seconds: float) -> Figure:
    """The same by perf_analyzer: three windows, of which it takes the mean, whatever they vary."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.csv"
        command = [
            str(_TOOL / "perf_analyzer"), "-m", model, "-u", urlsplit(url).netloc,
            "--concurrency-range", str(concurrency), "-p", str(round(seconds / 3 * 1000)), "-r", "3",
            "-s", "999", "-f", str(file),
        ]  # fmt: skip
        environ = dict(os.environ) | {"LD_LIBRARY_PATH": str(_TOOL)}
        subprocess.run(command, env=environ, check=True, capture_output=True, timeout=seconds * 5 + 60)
        (row,) = csv.DictReader(file.read_text().splitlines())
    return {"per_second": float(row["Inferences/Second"]), "p99_us": float(row["p99 latency"])}


def compared(url: str, model: str, concurrency: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Both in turn, so that what else the machine does meets both."""
    mine: list[Figure] = []
    theirs: list[Figure] = []
    for number in range(rounds):
        # The order changes too: the second of a pair meets a warmer server.
        for which in (ours, perf_analyzer) if number % 2 == 0 else (perf_analyzer, ours):
            (mine if which is ours else theirs).append(which(url, model, concurrency, seconds))
    rate, reference = (statistics.median(one["per_second"] for one in side) for side in (mine, theirs))
    return {
        "model": model,
        "concurrency": concurrency,
        "generator_per_second": round(rate, 1),
        "perf_analyzer_per_second": round(reference, 1),
        "ratio": round(rate / reference, 3),
        "ratio_of_each_round": [
            round(one["per_second"] / other["per_second"], 3) for one, other in zip(mine, theirs, strict=True)
        ],
        "generator_p99_us": round(statistics.median(one["p99_us"] for one in mine)),
        "perf_analyzer_p99_us": round(statistics.median(one["p99_us"] for one in theirs)),
    }


@contextmanager
def served(url: str | None) -> Iterator[str]:
    """The address to measure: the given one, or that of an embedded server for the time of the block."""
    if url is not None:
        yield url
        return
    options = SandboxOptions(http_port=0, grpc_port=0, metrics_port=0, models=MODELS, simulated_gpu=False)
    with Sandbox(options) as server:
        yield server.http_url


def main() -> None:
    """Measure all and print the figures."""
    parser = argparse.ArgumentParser(description="The load generator against perf_analyzer 2.51.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--url", help="a server with the example models; default: an embedded one")
    chosen = parser.parse_args()
    subprocess.run([str(_ROOT / "tools" / "perf_analyzer.sh")], check=True, stdout=subprocess.DEVNULL)
    with served(chosen.url) as url:
        rows = [
            compared(url, model, concurrency, chosen.rounds, chosen.seconds)
            for model in MODELS
            for concurrency in CONCURRENCIES
        ]
    accepted = all(row["ratio"] >= WANTED_RATIO for row in rows if row["model"] == BATCHING_MODEL)
    figures = {"seconds": chosen.seconds, "rounds": chosen.rounds, "results": rows, "accepted": accepted}
    print(json.dumps(figures, indent=2))
    if not accepted:
        raise SystemExit(f"below {WANTED_RATIO} of perf_analyzer's throughput on {BATCHING_MODEL}")


if __name__ == "__main__":
    main()
