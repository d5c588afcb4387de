"""The exporter's families as what Triton's HTTP API would have answered: states, facts, statistics.

Only what is published is filled in; a configuration made here has no `raw` text and says so by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from collectors.repository import index_samples
from history.promapi import PromSeries
from history.promapi_series import own_series
from history.promapi_targets import Targets
from telemetry.catalogue import CATALOGUE
from telemetry.facts import (
    EnsembleStep,
    IndexEntry,
    InstanceGroup,
    ModelConfig,
    ModelState,
    ServerMetadata,
)
from telemetry.scrape import Samples, Scrape, Series, Source

Cell = tuple[Series, float]
_STATE = "tritonscope_model_state"
_LOAD_FAILED = "tritonscope_model_load_failed"
_INFO = "tritonscope_server_info"


def scrapes_of_facts(server: str, rows: Sequence[PromSeries], targets: Targets) -> list[Scrape]:
    """Readings of statistics and index at every time, of configurations and metadata at the newest."""
    columns: dict[float, list[Cell]] = {}
    for row in rows:
        series = own_series(str(row.labels.get("__name__", "")), row.labels, targets)
        for at, value in zip(row.times.tolist(), row.values.tolist(), strict=True):
            columns.setdefault(at, []).append((series, value))
    found: list[Scrape] = []
    for at in sorted(columns):
        found += _at_each_time(server, at, columns[at])
    if columns:
        newest = max(columns)
        found += _at_the_newest(server, newest, columns[newest])
    return found


def _at_each_time(server: str, at: float, cells: Sequence[Cell]) -> Iterator[Scrape]:
    counted = [one for one in cells if _source(one[0]) is Source.STATISTICS]
    if counted:
        values = np.array([value for _, value in counted], dtype=np.float64)
        samples = Samples(tuple(series for series, _ in counted), values)
        yield Scrape(server, Source.STATISTICS, at, 0.0, samples)
    entries = tuple(_entries(cells))
    if any(series.name == _STATE for series, _ in cells):
        yield Scrape(server, Source.INDEX, at, 0.0, index_samples(entries), entries)


def _at_the_newest(server: str, at: float, cells: Sequence[Cell]) -> Iterator[Scrape]:
    configs = {one.name: one for one in _configs(cells)}
    if configs:
        yield Scrape(server, Source.CONFIG, at, 0.0, payload=configs)
    for series, _ in _of(cells, _INFO):
        metadata = ServerMetadata(series.label("name"), series.label("version"))
        yield Scrape(server, Source.METADATA, at, 0.0, payload=metadata)


def _source(series: Series) -> Source | None:
    row = CATALOGUE.get(series.name)
    return row.source if row is not None else None


def _of(cells: Iterable[Cell], family: str) -> list[Cell]:
    return [one for one in cells if one[0].name == family]


def _entries(cells: Sequence[Cell]) -> Iterator[IndexEntry]:
    reasons = {
        (series.label("model"), series.label("version")): series.label("reason_class")
        for series, value in _of(cells, _LOAD_FAILED)
        if value
    }
    for series, value in _of(cells, _STATE):
        if not value:
            continue
        row = series.label("model"), series.label("version")
        name = series.label("state")
        state = ModelState(name) if name in ModelState.__members__ else ModelState.UNKNOWN
        why = f"{reasons[row]} (the exporter tells only the kind of the failure)" if row in reasons else ""
        yield IndexEntry(*row, state, why)


def _configs(cells: Sequence[Cell]) -> Iterator[ModelConfig]:
    largest = _by_model(cells, "tritonscope_model_max_batch_size")
    batching = _by_model(cells, "tritonscope_model_dynamic_batching")
    delay = _by_model(cells, "tritonscope_model_max_queue_delay_us")
    instances = _by_model(cells, "tritonscope_model_instances")
    inside = {series.label("model") for series, _ in _of(cells, "tritonscope_model_queues_itself")}
    steps: dict[str, list[EnsembleStep]] = {}
    for series, uses in _of(cells, "tritonscope_ensemble_step"):
        steps.setdefault(series.label("model"), []).extend(
            [EnsembleStep(series.label("step"), -1)] * int(uses)
        )
    preferred: dict[str, list[int]] = {}
    for series, _ in _of(cells, "tritonscope_model_preferred_batch_size"):
        preferred.setdefault(series.label("model"), []).append(int(series.label("batch_size")))
    for name in dict.fromkeys((*largest, *instances, *steps, *inside)):
        count = instances.get(name)
        yield ModelConfig(
            name=name,
            backend="",
            platform="ensemble" if name in steps else "",
            max_batch_size=int(largest.get(name, 0)),
            dynamic_batching=bool(batching.get(name)),
            preferred_batch_sizes=tuple(sorted(preferred.get(name, ()))),
            max_queue_delay_us=int(delay[name]) if name in delay else None,
            max_queue_size=None,
            queue_timeout_us=None,
            instance_groups=() if count is None else (InstanceGroup("", "", int(count)),),
            ensemble_steps=tuple(steps.get(name, ())),
            sequence_batching=False,
            decoupled=name in inside,
            response_cache=False,
            inputs=(),
            outputs=(),
        )


def _by_model(cells: Sequence[Cell], family: str) -> dict[str, float]:
    return {series.label("model"): value for series, value in _of(cells, family)}
