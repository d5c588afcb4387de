"""One reading of one source: samples, what they came with, and where they go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from telemetry.errors import SourceError

FloatArray = NDArray[np.float64]
"""float64 values; NaN = the source reported NaN or nothing, as the context says."""


class Source(StrEnum):
    """What a server can be asked; each has its own collector, period and time-out."""

    METRICS = "metrics"
    STATISTICS = "statistics"
    INDEX = "index"
    CONFIG = "config"
    METADATA = "metadata"
    PROCESSES = "processes"
    """The server's processes on this machine, where they can be seen."""
    DEVICES = "devices"
    """The GPUs it uses, as another exporter tells them."""
    PROBES = "probes"
    """How its models answer golden requests."""


ANSWERED = tuple(
    source for source in Source if source not in (Source.PROCESSES, Source.DEVICES, Source.PROBES)
)
"""Sources that the server itself answers: a process or a GPU says nothing about whether it serves."""


class Series(NamedTuple):
    """Name and labels of one series. `labels` is sorted by label name, so equal series are equal keys."""

    name: str
    labels: tuple[tuple[str, str], ...]

    def label(self, name: str) -> str:
        """The value of one label, "" if the series does not carry it (as Prometheus reads it)."""
        for key, value in self.labels:
            if key == name:
                return value
        return ""


@dataclass(frozen=True, slots=True)
class Samples:
    """`series[i]` had `values[i]`; shape (n,), in the unit the family's name or catalogue row says."""

    series: Sequence[Series]
    values: FloatArray

    def __post_init__(self) -> None:
        if len(self.series) != len(self.values):
            raise ValueError(f"{len(self.series)} series but {len(self.values)} values")

    @classmethod
    def empty(cls) -> Samples:
        """No samples at all."""
        return cls((), np.empty(0))


@dataclass(frozen=True, slots=True)
class Notice:
    """Something in the input that could not be used; the rest was kept.

    `source` names the file or source, `line` the 1-based line in it, None where none applies.
    """

    source: str
    line: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one source of one server answered at one time.

    `at` is the unix time in seconds when the reading began (Prometheus stamps samples the same way).
    A failed reading has `error` and no samples. `payload` is the source's own reading, typed by the
    collector: `MetricsPage`, a tuple of `ModelStatistics` or `IndexEntry`, a dict of `ModelConfig`,
    `ServerMetadata`. `raw` is the answer's text as it came, where it was one text; None elsewhere.
    """

    server: str
    source: Source
    at: float
    duration_seconds: float
    samples: Samples = field(default_factory=Samples.empty)
    payload: object = None
    notices: tuple[Notice, ...] = ()
    error: SourceError | None = None
    raw: str | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """True if the source answered with something readable."""
        return self.error is None


class Sink(Protocol):
    """Where scrapes go. Called from collector threads; must not block and must not raise."""

    def accept(self, scrape: Scrape) -> None:
        """Take one scrape, successful or failed."""
