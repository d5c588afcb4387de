"""Custom and unknown families of a metrics page: shown as printed, with the mean of distributions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from collectors.exposition import MetricsPage, family_of
from signals.report import OtherSample
from telemetry.catalogue import Kind, known
from telemetry.scrape import Notice, Series

_Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Distribution:
    """Sum and count of one histogram or summary; `text` is the count as printed."""

    total: float | None = None
    count: float | None = None
    text: str = ""

    @property
    def mean(self) -> float | None:
        if self.total is None or not self.count or not math.isfinite(self.total / self.count):
            return None
        return self.total / self.count


@dataclass(slots=True)
class OtherReader:
    """Collects the other families of the pages it is given, and notices about values that are no numbers."""

    samples: list[OtherSample] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def add(self, server: str, page: MetricsPage) -> None:
        """All custom and unknown families of one server's page, in the order in which they are printed."""
        distributions: dict[tuple[str, _Labels], _Distribution] = {}
        odd: dict[str, list[str]] = {}
        for series, value, text in zip(
            page.samples.series, page.samples.values.tolist(), page.texts, strict=True
        ):
            if known(series.name):
                continue
            family = family_of(series.name, page.families)
            if known(family):
                continue
            declared = page.families.get(family)
            kind = declared.kind if declared is not None else Kind.UNTYPED
            if kind in (Kind.HISTOGRAM, Kind.SUMMARY) and not series.label("quantile"):
                _collect(distributions, family, series, value, text)
                continue
            if not math.isfinite(value):
                odd.setdefault(family, []).append(text)
            finite = value if math.isfinite(value) else None
            self.samples.append(
                OtherSample(server, family, kind.value, dict(series.labels), finite, None, text)
            )
        self.samples += _rows(server, page, distributions)
        for family, texts in odd.items():
            printed = ", ".join(dict.fromkeys(texts))
            self.notices.append(Notice(f"{server} metrics", None, f"{family} reads {printed}: not a number"))


def _collect(
    distributions: dict[tuple[str, _Labels], _Distribution],
    family: str,
    series: Series,
    value: float,
    text: str,
) -> None:
    labels = tuple(pair for pair in series.labels if pair[0] != "le")
    row = distributions.setdefault((family, labels), _Distribution())
    if series.name == f"{family}_sum":
        row.total = value
    elif series.name == f"{family}_count":
        row.count, row.text = value, text


def _rows(
    server: str, page: MetricsPage, distributions: dict[tuple[str, _Labels], _Distribution]
) -> Iterator[OtherSample]:
    for (family, labels), row in distributions.items():
        count = row.count if row.count is not None and math.isfinite(row.count) else None
        kind = page.families[family].kind.value
        yield OtherSample(server, family, kind, dict(labels), count, row.mean, row.text)
