"""Time to read a metrics page, cold and with memoised series keys, beside prometheus_client's parser.

    python -m benchmarks.exposition [models ...]

Prints milliseconds, the best of several rounds; pages have 48 samples per model, as with summaries on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from collectors.exposition import SeriesCache, read_page

_FIXTURE = Path(__file__).parent.parent / "tests" / "fixtures" / "metrics_50models_summary.txt"


def page_for(models: int) -> str:
    """A page with `models` models, made from a real one of 50 models by renaming them."""
    lines = _FIXTURE.read_text().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    per_model = [line for line in lines if 'model="m000"' in line]
    if not per_model:
        first = next(line.split('model="')[1].split('"')[0] for line in lines if 'model="' in line)
        per_model = [line.replace(f'"{first}"', '"m000"') for line in lines if f'model="{first}"' in line]
    body = [line.replace('"m000"', f'"model_{index:05d}"') for index in range(models) for line in per_model]
    return "\n".join((*comments, *body, ""))


def best_ms(call: Callable[[], object], rounds: int) -> float:
    """Best time of `rounds` calls in milliseconds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def main(counts: list[int]) -> None:
    """Print one row for each number of models."""
    print(f"{'models':>7} {'samples':>8} {'kB':>6} {'oracle ms':>10} {'cold ms':>8} {'warm ms':>8}")
    for models in counts:
        text = page_for(models)
        cache = SeriesCache()
        cold = best_ms(lambda text=text: read_page(text), 3)  # type: ignore[misc]
        samples = len(read_page(text, cache).samples.series)
        warm = best_ms(lambda text=text, cache=cache: read_page(text, cache), 7)  # type: ignore[misc]
        oracle = best_ms(lambda text=text: list(text_string_to_metric_families(text)), 2)  # type: ignore[misc]
        size = len(text) / 1e3
        print(f"{models:7d} {samples:8d} {size:6.0f} {oracle:10.1f} {cold:8.1f} {warm:8.2f}")


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [10, 100, 1000])
