"""Which Triton servers a Prometheus knows, by which labels, and which series it holds twice.

Nothing but Triton's own families is needed. Two Prometheus of an HA pair, or two jobs that scrape the same
page, give every series twice: such copies are found out, told, and counted once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from collectors.exporter_families import instance_of
from history.promapi import PrometheusApi
from telemetry.identity import Server
from telemetry.prometheus_endpoint import PrometheusEndpoint, quoted

Labels = Mapping[str, str]

ANCHORS = ("nv_inference_request_success", "nv_pinned_memory_pool_total_bytes", "nv_cpu_memory_total_bytes")
"""Families of which every Triton has at least one, with few series."""
RECENT = "1h"
"""How long a server that is gone stays known."""
DEFAULT_INTERVAL_SECONDS = 15.0

_OF_SERIES = ("model", "version", "gpu_uuid")
_RENAMED = tuple(f"exported_{name}" for name in _OF_SERIES)
_COPY_NAMES = frozenset(("prometheus", "receive", "monitor"))
_SCRAPE_NAMES = frozenset(("job", "endpoint", "service", "container"))
"""Labels that say by whom and how a page was read, not whose page it is."""
_MAX_JOBS = 4


@dataclass(frozen=True, slots=True)
class Target:
    """One Triton server as Prometheus knows it.

    `labels` are those its copies share; `copies` the whole label sets under which its series stand now, ()
    for a server that is gone.
    """

    server: str
    labels: Labels
    copies: tuple[Labels, ...] = ()
    workload: str = ""

    @property
    def alive(self) -> bool:
        """Prometheus has fresh samples of it."""
        return bool(self.copies)


@dataclass(frozen=True, slots=True)
class Targets:
    """All servers a Prometheus knows, and what queries must know about its labels.

    `group` are the labels that tell servers apart, `duplicates` those in which copies differ,
    `interval_seconds` the time between two scrapes, and `gpus` the uuids of each server's GPUs that a DCGM
    exporter tells of.
    """

    endpoint: PrometheusEndpoint
    servers: tuple[Server, ...] = ()
    targets: tuple[Target, ...] = ()
    duplicates: tuple[str, ...] = ()
    group: tuple[str, ...] = ("instance",)
    model_label: str = "model"
    version_label: str = "version"
    interval_seconds: float = DEFAULT_INTERVAL_SECONDS
    gpus: Mapping[str, frozenset[str]] = field(default_factory=dict)
    _ids: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    def get(self, server: str) -> Target | None:
        """The target with this id."""
        return next((one for one in self.targets if one.server == server), None)

    def find(self, text: str) -> Target | None:
        """A target by id, by the value of its server label (instance), or by its pod."""
        for matches in (
            lambda one: one.server == text,
            lambda one: one.labels.get(self.endpoint.server_label) == text,
            lambda one: one.labels.get("pod") == text,
        ):
            found = next(filter(matches, self.targets), None)
            if found is not None:
                return found
        return None

    def server_of(self, labels: Labels) -> str:
        """The id of the server whose labels (at least `group`) these are; "" if nothing names one."""
        for server in self.servers:
            if _matches(matchers_of(server, self.endpoint), labels):
                return server.id
        known = self._ids.get(tuple(labels.get(name, "") for name in self.group))
        return known or labels.get(self.endpoint.server_label, "")

    def selecting(self, server: str) -> tuple[tuple[str, str], ...]:
        """Label values that select one server's series; those of an unknown id by the server label."""
        configured = next((one for one in self.servers if one.id == server), None)
        if configured is not None:
            return tuple(sorted(matchers_of(configured, self.endpoint).items()))
        target = self.get(server)
        if target is None:
            return ((self.endpoint.server_label, server),)
        return tuple((name, target.labels.get(name, "")) for name in self.group)


def matchers_of(server: Server, endpoint: PrometheusEndpoint) -> Labels:
    """The labels of a configured server's series: its `match`, else its instance."""
    if server.match:
        return dict(server.match)
    return {endpoint.server_label: instance_of(server)}


def _matches(wanted: Labels, labels: Labels) -> bool:
    return all(labels.get(name) == value for name, value in wanted.items())


def selector(endpoint: PrometheusEndpoint, *matchers: str, name: str = "") -> str:
    """A PromQL selector with the matchers that every query carries."""
    return f"{name}{{{', '.join([*matchers, *endpoint.matchers])}}}"


def equal(name: str, value: str) -> str:
    """One matcher."""
    return f"{name}={quoted(value)}"


def discover(
    api: PrometheusApi, servers: Sequence[Server], now: float, *, timeout_seconds: float | None = None
) -> Targets:
    """Ask for the servers that are there now and were within the last hour; raises SourceError."""
    endpoint = api.endpoint
    anchors = selector(endpoint, f"__name__=~{quoted('|'.join(ANCHORS))}")
    by_server = f"count without ({', '.join((*_OF_SERIES, *_RENAMED))}) ({{}})"

    def rows(text: str) -> list[Labels]:
        answer = api.instant(by_server.format(text), now, timeout_seconds=timeout_seconds)
        return [one.labels for one in answer.series]

    live = rows(anchors)
    recent = rows(f"last_over_time({anchors}[{RECENT}])")
    labels = {"model": endpoint.model_label, "version": endpoint.version_label}
    for name in [name for name, configured in labels.items() if not configured]:
        renamed = selector(endpoint, f'exported_{name}!=""', name=ANCHORS[0])
        is_renamed = bool(api.instant(f"count({renamed})", now, timeout_seconds=timeout_seconds).series)
        labels[name] = f"exported_{name}" if is_renamed else name
    return targets_of(
        endpoint,
        servers,
        live,
        recent,
        model_label=labels["model"],
        version_label=labels["version"],
        interval_seconds=_interval(api, live, now),
    )


def _interval(api: PrometheusApi, live: Sequence[Labels], now: float) -> float:
    """Seconds between two scrapes of the server that is scraped least often; by its most frequent job.

    From the times at which one target of each job was scraped.
    """
    jobs = {labels.get("job", ""): labels for labels in live}
    of_job: dict[str, float] = {}
    for job, labels in list(jobs.items())[:_MAX_JOBS]:
        matchers = [equal(name, value) for name, value in sorted(labels.items())]
        for series in api.instant(f"{selector(api.endpoint, *matchers, name='up')}[5m]", now).series:
            if len(series.times) > 1:
                of_job[job] = float(np.median(np.diff(series.times)))
    of_server: dict[str, float] = {}
    for labels in live:
        known = of_job.get(labels.get("job", ""))
        if known is not None:
            server = labels.get(api.endpoint.server_label, "")
            of_server[server] = min(known, of_server.get(server, known))
    return max(of_server.values(), default=DEFAULT_INTERVAL_SECONDS)


def targets_of(
    endpoint: PrometheusEndpoint,
    servers: Sequence[Server],
    live: Sequence[Labels],
    recent: Sequence[Labels] = (),
    *,
    model_label: str = "model",
    version_label: str = "version",
    interval_seconds: float = DEFAULT_INTERVAL_SECONDS,
) -> Targets:
    """The servers behind label sets (one for each page read by each scraper), fresh ones and older ones."""
    copies: dict[tuple[tuple[str, str], ...], list[Labels]] = {}
    for labels in live:
        copies.setdefault(_identity(labels, endpoint), []).append(labels)
    duplicates = sorted({name for same in copies.values() for name in _differing(same)})
    seen = {dict(identity).get(endpoint.server_label, "") for identity in copies}
    for labels in recent:
        identity = _identity(labels, endpoint)
        # The address of a server that is there now may have had other labels before: the same server.
        if identity not in copies and dict(identity).get(endpoint.server_label, "") not in seen:
            copies[identity] = []
    group = _group(endpoint, servers, [dict(identity) for identity in copies])
    if endpoint.replica_label and endpoint.replica_label not in duplicates:
        duplicates.append(endpoint.replica_label)
    several = {value for value, count in _counted(copies, endpoint).items() if count > 1}
    found: dict[str, Target] = {}
    ids: dict[tuple[str, ...], str] = {}
    for identity, same in copies.items():
        labels = dict(identity)
        server, workload = _named(labels, endpoint, servers, group, several)
        if not server or server in found:
            continue
        ids[tuple(labels.get(name, "") for name in group)] = server
        ordered = tuple(sorted(same, key=lambda one: sorted(one.items())))
        workload = workload or _workload(labels, ordered, endpoint)
        found[server] = Target(server, labels, ordered, workload)
    return Targets(
        endpoint,
        tuple(servers),
        tuple(sorted(found.values(), key=lambda one: one.server)),
        tuple(duplicates),
        group,
        model_label,
        version_label,
        interval_seconds,
        _ids=ids,
    )


def is_copy_label(name: str, endpoint: PrometheusEndpoint) -> bool:
    """True for a label that tells Prometheus servers apart, not Tritons."""
    return name == endpoint.replica_label or name in _COPY_NAMES or "replica" in name


def _identity(labels: Labels, endpoint: PrometheusEndpoint) -> tuple[tuple[str, str], ...]:
    own = endpoint.server_label
    return tuple(
        sorted(
            (name, value)
            for name, value in labels.items()
            if name == own or not (name in _SCRAPE_NAMES or is_copy_label(name, endpoint))
        )
    )


def _differing(rows: Sequence[Labels]) -> list[str]:
    names = {name for row in rows for name in row}
    return [name for name in names if len({row.get(name) for row in rows}) > 1]


def _group(
    endpoint: PrometheusEndpoint, servers: Iterable[Server], identities: Sequence[Labels]
) -> tuple[str, ...]:
    """The server label, the labels of configured matches, and what tells equal server labels apart."""
    names = {endpoint.server_label: None}
    for server in servers:
        names |= dict.fromkeys(matchers_of(server, endpoint))
    same: dict[str, list[Labels]] = {}
    for labels in identities:
        same.setdefault(labels.get(endpoint.server_label, ""), []).append(labels)
    for rows in same.values():
        names |= dict.fromkeys(sorted(_differing(rows)))
    return tuple(names)


def _counted(identities: Iterable[tuple[tuple[str, str], ...]], endpoint: PrometheusEndpoint) -> Counter[str]:
    return Counter(dict(identity).get(endpoint.server_label, "") for identity in identities)


def _named(
    labels: Labels,
    endpoint: PrometheusEndpoint,
    servers: Sequence[Server],
    group: Sequence[str],
    several: Collection[str],
) -> tuple[str, str]:
    """Id and workload: of the configured server, else the server label with what tells it from others."""
    for server in servers:
        if _matches(matchers_of(server, endpoint), labels):
            return server.id, server.workload
    matched = {name for server in servers for name, _ in server.match}
    own = labels.get(endpoint.server_label, "")
    if own not in several:
        return own, ""
    more = [labels[name] for name in group[1:] if labels.get(name) and name not in matched]
    return "/".join([*more, own]), ""


def _workload(labels: Labels, copies: Sequence[Labels], endpoint: PrometheusEndpoint) -> str:
    if labels.get(endpoint.workload_label):
        return labels[endpoint.workload_label]
    job = copies[0].get("job", "") if copies else ""
    return "/".join(part for part in (labels.get("namespace", ""), job) if part)
