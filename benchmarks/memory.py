"""Resident memory of the whole process after one hour of readings every 2 s.

    python -m benchmarks.memory [--models 200] [--hours 1] [--app]

Feeds the runtime pages, statistics and an index of `models` models with summaries (48 samples a model), as
text through the page reader, with counters that grow; then prints the resident memory, the size of the
history and the time of a report. `--app` imports Streamlit and the pages' libraries first, as the app has.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.exposition import page_for
from collectors.exposition import SeriesCache, read_page
from collectors.repository import index_samples, parse_index
from collectors.statistics import parse_statistics, statistics_samples
from runtime import Runtime
from settings import load_settings
from telemetry.scrape import Scrape, Source

STEP_SECONDS = 2.0
SERVER = "bench"
_LAST_NUMBER = re.compile(r" (\d+)$", re.MULTILINE)


def resident_mib() -> float:
    """Resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def growing(page: str, rounds: int) -> Iterator[str]:
    """The page again and again, every whole number a little larger each time."""
    parts = _LAST_NUMBER.split(page)
    numbers = [int(number) for number in parts[1::2]]
    for step in range(rounds):
        parts[1::2] = [f" {number + step * (number % 7)}" for number in numbers]
        yield "".join(parts)


def statistics_of(models: int, step: int) -> object:
    """An answer of the statistics with four batch sizes a model."""
    time_of = {"count": 10 + step, "ns": 1_000_000 * (10 + step)}
    parts = {f"compute_{part}": time_of for part in ("input", "infer", "output")}
    return {
        "model_stats": [
            {
                "name": f"model_{index:05d}",
                "version": "1",
                "last_inference": 1_790_000_000_000 + step,
                "inference_count": 40 + 4 * step,
                "execution_count": 40 + 4 * step,
                "batch_stats": [{"batch_size": size, **parts} for size in (1, 2, 4, 8)],
                "memory_usage": [],
            }
            for index in range(models)
        ]
    }


def fill(process: Runtime, models: int, hours: float) -> int:
    """Feed readings up to now; returns how many metrics pages were read."""
    rounds = int(hours * 3600 / STEP_SECONDS)
    start = time.time() - rounds * STEP_SECONDS
    index, _ = parse_index(
        [{"name": f"model_{number:05d}", "version": "1", "state": "READY"} for number in range(models)]
    )
    cache = SeriesCache()
    for step, text in enumerate(growing(page_for(models), rounds)):
        at = start + step * STEP_SECONDS
        page = read_page(text, cache)
        process.accept(Scrape(SERVER, Source.METRICS, at, 0.02, page.samples, page, page.notices))
        rows, notices = parse_statistics(json.loads(json.dumps(statistics_of(models, step))))
        process.accept(Scrape(SERVER, Source.STATISTICS, at, 0.01, statistics_samples(rows), rows, notices))
        if step % 2 == 0:
            process.accept(Scrape(SERVER, Source.INDEX, at, 0.01, index_samples(index), index))
    return rounds


def main() -> None:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--app", action="store_true", help="import Streamlit and the pages' libraries first")
    options = parser.parse_args()
    if options.app:
        for module in ("streamlit", "pandas", "pyarrow", "tritonclient.http", "server"):
            importlib.import_module(module)
    process = Runtime(load_settings({"TRITONSCOPE_SERVERS": f"{SERVER}=127.0.0.1:8000"}, Path(os.devnull)))
    print(f"before: {resident_mib():.0f} MiB resident")
    began = time.perf_counter()
    rounds = fill(process, options.models, options.hours)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    report = process.report()
    report_ms = (time.perf_counter() - began) * 1e3
    began = time.perf_counter()
    process.judgement()
    judgement_ms = (time.perf_counter() - began) * 1e3
    gc.collect()
    scrape = process.ring.last(SERVER, Source.METRICS)
    samples = 0 if scrape is None else len(scrape.samples.series)
    print(f"{rounds} pages of {samples} samples in {seconds:.0f} s ({seconds / rounds * 1e3:.1f} ms each)")
    print(f"history {process.ring.nbytes() / 2**20:.0f} MiB, resident {resident_mib():.0f} MiB")
    print(f"report of {len(report.models)} models {report_ms:.0f} ms, judgement {judgement_ms:.0f} ms")


if __name__ == "__main__":
    main()
