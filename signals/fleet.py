"""Workloads and their replicas side by side: which one behaves unlike its siblings. Pure arithmetic.

Compared are replicas that serve the same version of the same model in the same workload, each with enough
requests to have a mean worth the name. A replica is odd when it lies more than 3 median absolute deviations
(MAD) of its siblings from their median; the deviation never counts as less than a small share, so that
siblings which happen to be equal do not make every difference odd.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from history.protocol import Grid, GroupKey, History
from signals import frames
from signals.definition import Level
from signals.definitions import definition
from signals.evaluation import Evaluation
from signals.facts import SignalFacts
from telemetry.identity import ModelKey

WINDOW_SECONDS = 900.0
ODD_MADS = 3.0
LEAST_REQUESTS = 100.0
LEAST_SIBLINGS = 2
COMPARED: dict[str, tuple[float, float]] = {
    "failed_ratio": (0.0, 0.005),
    "request_us_mean": (0.05, 0.0),
    "queue_us_mean": (0.05, 500.0),
}
"""Signal -> least deviation, as a share of the siblings' median and in the signal's own unit."""
_REQUESTS = "requests_total"


@dataclass(frozen=True, slots=True)
class Replica:
    """One model version on one server: requests answered in the window, and the compared signals."""

    key: ModelKey
    requests: float
    figures: Mapping[str, float]

    @property
    def compared(self) -> bool:
        """Enough requests to be set against its siblings."""
        return self.requests >= LEAST_REQUESTS


@dataclass(frozen=True, slots=True)
class Odd:
    """A replica unlike its siblings: its value, their median, and how many MAD lie between."""

    key: ModelKey
    signal: str
    value: float
    median: float
    mads: float
    siblings: int


@dataclass(frozen=True, slots=True)
class FleetModel:
    """One model version of a workload on all servers that have it, by server."""

    workload: str
    name: str
    version: str
    replicas: tuple[Replica, ...]
    odd: tuple[Odd, ...] = ()

    @property
    def requests(self) -> float:
        """Requests answered in the window by all replicas."""
        return sum(replica.requests for replica in self.replicas)


@dataclass(frozen=True, slots=True)
class Fleet:
    """All workloads with more than one server. `models` with odd replicas come first, then by requests."""

    window_seconds: float
    workloads: Mapping[str, tuple[str, ...]]
    models: tuple[FleetModel, ...] = ()

    @property
    def odd(self) -> tuple[Odd, ...]:
        """All odd replicas, the oddest first."""
        found = [odd for model in self.models for odd in model.odd]
        return tuple(sorted(found, key=lambda one: -one.mads))


def workloads_of(workload_of: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Workloads with more than one server, from the workload of every server ("" = the server alone)."""
    found: dict[str, list[str]] = {}
    for server, workload in sorted(workload_of.items()):
        if workload:
            found.setdefault(workload, []).append(server)
    return {workload: tuple(servers) for workload, servers in found.items() if len(servers) > 1}


def fleet(
    history: History,
    facts: SignalFacts,
    workloads: Mapping[str, Sequence[str]],
    at: float,
    window_seconds: float = WINDOW_SECONDS,
) -> Fleet:
    """The fleet at `at` (unix seconds) over the window before it."""
    kept = {workload: tuple(servers) for workload, servers in workloads.items()}
    if not kept:
        return Fleet(window_seconds, kept)
    evaluation = Evaluation(history, facts, window_seconds, Grid(at, at, 1.0), plain_totals=False)
    values = {
        name: frames.at_first(evaluation.of(definition(name, Level.MODEL).expression))
        for name in (_REQUESTS, *COMPARED)
    }
    models = [one for workload, servers in kept.items() for one in _models(workload, servers, values)]
    models.sort(key=lambda one: (-max((odd.mads for odd in one.odd), default=0.0), -one.requests))
    return Fleet(window_seconds, kept, tuple(models))


def _models(
    workload: str, servers: Sequence[str], values: Mapping[str, Mapping[GroupKey, float]]
) -> Iterator[FleetModel]:
    mine = set(servers)
    rows: dict[tuple[str, str], list[Replica]] = {}
    for key, requests in sorted(values[_REQUESTS].items()):
        if key[0] in mine:
            figures = {name: values[name][key] for name in COMPARED if key in values[name]}
            rows.setdefault((key[1], key[2]), []).append(Replica(ModelKey(*key), requests, figures))
    for (name, version), replicas in rows.items():
        yield FleetModel(workload, name, version, tuple(replicas), tuple(odd_ones(replicas)))


def odd_ones(replicas: Sequence[Replica]) -> Iterator[Odd]:
    """Every compared signal in which a replica lies more than ODD_MADS from its siblings."""
    compared = [replica for replica in replicas if replica.compared]
    for signal in COMPARED:
        known = [replica for replica in compared if signal in replica.figures]
        for replica in known:
            siblings = [one.figures[signal] for one in known if one is not replica]
            if len(siblings) >= LEAST_SIBLINGS:
                odd = _odd(replica, signal, siblings)
                if odd.mads > ODD_MADS:
                    yield odd


def _odd(replica: Replica, signal: str, siblings: Sequence[float]) -> Odd:
    share, least = COMPARED[signal]
    median = float(np.median(siblings))
    mad = float(np.median(np.abs(np.asarray(siblings) - median)))
    deviation = max(mad, share * median, least, np.finfo(float).tiny)
    value = replica.figures[signal]
    return Odd(replica.key, signal, value, median, abs(value - median) / deviation, len(siblings))
