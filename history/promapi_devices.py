"""GPU figures of a DCGM exporter in Prometheus: whose they are is told by the GPU's uuid.

The exporter has an `instance` of its own, and reads every GPU of its machine. Triton's series of models on a
GPU carry the uuid: by it a server is given the figures of its GPUs, also where it reports none itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from history.promapi import PrometheusApi, PromSeries
from history.promapi_targets import RECENT, Labels, Targets, selector
from telemetry.catalogue import CATALOGUE
from telemetry.prometheus_endpoint import quoted
from telemetry.scrape import Samples, Scrape, Series, Source

FAMILIES = tuple(name for name in CATALOGUE if name.startswith("DCGM_"))
_NAMES = f"__name__=~{quoted('|'.join(FAMILIES))}"
_CARRIERS = f"__name__=~{quoted('nv_inference_request_success|nv_gpu_memory_total_bytes')}"
_OWN_LABELS = ("UUID", "GPU_I_ID", "namespace", "pod", "container")

Gpus = Mapping[str, frozenset[str]]
"""Uuids of the GPUs each server uses, by its id."""


def is_of_devices(family: str) -> bool:
    """True for a family of a DCGM exporter."""
    return family in FAMILIES


def gpus_of(api: PrometheusApi, targets: Targets, now: float) -> Gpus:
    """The GPUs of every server that a DCGM exporter tells of; raises SourceError."""
    told = api.instant(
        f"count by (UUID) (last_over_time({selector(api.endpoint, _NAMES)}[{RECENT}]))", now
    ).series
    uuids = {one.labels.get("UUID", "") for one in told} - {""}
    if not uuids:
        return {}
    carriers = selector(api.endpoint, _CARRIERS, 'gpu_uuid!=""')
    names = ", ".join((*targets.group, "gpu_uuid"))
    used = api.instant(f"count by ({names}) (last_over_time({carriers}[{RECENT}]))", now).series
    found: dict[str, set[str]] = {}
    for one in used:
        if (uuid := one.labels.get("gpu_uuid", "")) in uuids:
            found.setdefault(targets.server_of(one.labels), set()).add(uuid)
    return {server: frozenset(own) for server, own in found.items() if server}


def with_uuids(uuids: Iterable[str]) -> str:
    """A matcher for the series of these GPUs."""
    return f"UUID=~{quoted('|'.join(sorted(map(re.escape, uuids))))}"


def owners(targets: Targets, labels: Labels, wanted: Collection[str]) -> Iterator[str]:
    """The servers, among those wanted, that use the GPU these labels are about."""
    uuid = labels.get("UUID", "")
    for server in wanted:
        if uuid in targets.gpus.get(server, ()):
            yield server


class DeviceFeed:
    """The figures of all GPUs, read again and again, as readings of the servers that use them.

    For one thread.
    """

    def __init__(self, api: PrometheusApi, targets: Callable[[], Targets]) -> None:
        self._api, self._targets = api, targets
        self._read_at: dict[str, float] = {}

    def scrapes(self, now: float, back_seconds: float, servers: Collection[str]) -> list[Scrape]:
        """What is new since the last call, at most `back_seconds` ago; raises SourceError."""
        targets = self._targets()
        wanted = [server for server in servers if targets.gpus.get(server)]
        if not wanted:
            return []
        since = min(self._read_at.get(server, float("-inf")) for server in wanted)
        back = min(back_seconds, now - since + 1.0)
        uuids = {uuid for server in wanted for uuid in targets.gpus[server]}
        text = selector(targets.endpoint, _NAMES, with_uuids(uuids))
        rows = _first_of_each(self._api.instant(f"{text}[{max(1, round(back * 1000))}ms]", now).series)
        found = [scrape for server in wanted for scrape in self._of(server, targets, rows)]
        for scrape in found:
            self._read_at[scrape.server] = max(scrape.at, self._read_at.get(scrape.server, 0.0))
        return sorted(found, key=lambda one: one.at)

    def _of(self, server: str, targets: Targets, rows: Mapping[Series, PromSeries]) -> Iterator[Scrape]:
        columns: dict[float, list[tuple[Series, float]]] = {}
        for series, row in rows.items():
            if series.label("UUID") in targets.gpus[server]:
                for at, value in zip(row.times.tolist(), row.values.tolist(), strict=True):
                    columns.setdefault(at, []).append((series, value))
        for at, cells in columns.items():
            if at > self._read_at.get(server, float("-inf")):
                values = np.array([value for _, value in cells], dtype=np.float64)
                samples = Samples(tuple(series for series, _ in cells), values)
                yield Scrape(server, Source.DEVICES, at, 0.0, samples)


def _first_of_each(rows: Sequence[PromSeries]) -> dict[Series, PromSeries]:
    """Without copies: two scrapers, or two exporters on one machine, tell of the same GPU."""
    found: dict[Series, PromSeries] = {}
    for row in sorted(rows, key=lambda one: sorted(one.labels.items())):
        own = tuple(sorted((name, row.labels[name]) for name in _OWN_LABELS if row.labels.get(name)))
        found.setdefault(Series(row.labels.get("__name__", ""), own), row)
    return found
