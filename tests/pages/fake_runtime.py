"""A process whose history is saved answers of real servers: nothing is polled, everything else is real."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from collectors.config import parse_config
from collectors.exposition import SeriesCache, read_page
from collectors.metadata import parse_metadata
from collectors.repository import index_samples, parse_index
from collectors.statistics import parse_statistics, statistics_samples
from runtime import Runtime
from settings import load_settings
from telemetry.errors import NotFound, Unreachable
from telemetry.scrape import Scrape, Source

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
CASES = FIXTURES / "cases"
SMALL = FIXTURES / "small_repo"
SETTINGS = {"TRITONSCOPE_URL": "http://127.0.0.1:1", "TRITONSCOPE_REFRESH_SECONDS": "10"}
"""A slow interval, so that what was read just now stays fresh while a test looks at it."""
OUTAGE_SECONDS = 30.0


def text(path: Path) -> str:
    return path.read_bytes().decode("utf-8")


def runtime_of(
    pages: Sequence[str] = (),
    *,
    statistics: Sequence[str] = (),
    indexes: Sequence[str] = (),
    configs: Sequence[str] = (),
    every_seconds: float = 20.0,
    down: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Runtime:
    """Answers `every_seconds` apart, the last of each just now; `down`: the next reading found nobody."""
    process = Runtime(load_settings({**SETTINGS, **(environ or {})}, path=None))
    server = process.servers[0].id
    # On a whole step of the charts' grid, so that the last point of a chart is the last reading.
    newest = time.time() // 4.0 * 4.0
    now = newest - (OUTAGE_SECONDS if down else 0.0)
    cache = SeriesCache()
    for at, page in _timed(pages, now, every_seconds):
        read = read_page(page, cache, source="metrics")
        process.accept(Scrape(server, Source.METRICS, at, 0.01, read.samples, read, read.notices))
    for at, answer in _timed(statistics, now, every_seconds):
        rows, notices = parse_statistics(json.loads(answer))
        process.accept(Scrape(server, Source.STATISTICS, at, 0.01, statistics_samples(rows), rows, notices))
    for at, answer in _timed(indexes, now, every_seconds):
        entries, notices = parse_index(json.loads(answer))
        process.accept(Scrape(server, Source.INDEX, at, 0.01, index_samples(entries), entries, notices))
    if configs:
        read_configs = {one.name: one for one in (parse_config(json.loads(answer)) for answer in configs)}
        process.accept(Scrape(server, Source.CONFIG, now, 0.01, payload=read_configs))
    if pages:
        metadata = parse_metadata(json.loads(text(FIXTURES / "server_metadata.json")))
        process.accept(Scrape(server, Source.METADATA, now, 0.01, payload=metadata))
    if down:
        error = Unreachable("triton-a is not reachable: connection refused")
        for source in (Source.METRICS, Source.STATISTICS, Source.INDEX, Source.METADATA):
            process.accept(Scrape(server, source, newest, 0.01, error=error))
    return process


def _timed(answers: Sequence[str], now: float, every_seconds: float) -> list[tuple[float, str]]:
    count = len(answers)
    return [(now - (count - 1 - place) * every_seconds, answer) for place, answer in enumerate(answers)]


def small_repository(*, down: bool = False) -> Runtime:
    """Eight models of a real server: idle, under load, after it."""
    moments = ("1_idle", "2_under_load", "3_after_load")
    return runtime_of(
        [text(SMALL / f"summary_{moment}_metrics.txt") for moment in moments],
        statistics=[text(SMALL / f"summary_{moment}_stats.json") for moment in moments],
        indexes=[text(SMALL / f"summary_{moment}_index.json") for moment in moments],
        configs=[text(SMALL / "config_fast_add.json"), text(SMALL / "config_pipeline.json")],
        down=down,
    )


def case(*names: str, every_seconds: float = 10.0) -> Runtime:
    """The metrics pages of one case, one after the other; a single one is read twice."""
    pages = [text(CASES / name) for name in names]
    return runtime_of(pages * 2 if len(pages) == 1 else pages, every_seconds=every_seconds)


def wrong_metrics_page(server: str) -> Scrape:
    """An attempt just now at a metrics page that is not where the settings say."""
    error = NotFound("http://127.0.0.1:1/metrics answered 404")
    return Scrape(server, Source.METRICS, time.time(), 0.01, error=error)
