"""What a metrics page says beside the signals: custom and unknown families as printed, NaN, GPUs named."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from collectors.exposition import MetricsPage, family_of
from signals.report import OtherSample
from telemetry.catalogue import CATALOGUE, Kind, known
from telemetry.scrape import Notice, Series

_Labels = tuple[tuple[str, str], ...]
_OF_GPUS = frozenset(name for name, row in CATALOGUE.items() if row.labels == ("gpu_uuid",))


@dataclass(slots=True)
class _Distribution:
    """Sum and count of one histogram or summary; `text` is the count as printed."""

    total: float | None = None
    count: float | None = None
    text: str = ""

    def take(self, suffix: str, series: Series, value: float, text: str) -> None:
        """One of its samples; the last bucket counts everything too."""
        if suffix == "_sum":
            self.total = value
        elif suffix == "_count" or (not self.text and math.isinf(_bound(series))):
            self.count, self.text = value if math.isfinite(value) else None, text

    @property
    def mean(self) -> float | None:
        """Sum / count in the family's unit, None without a finite one."""
        if self.total is None or not self.count or not math.isfinite(self.total / self.count):
            return None
        return self.total / self.count


@dataclass(frozen=True, slots=True)
class _Row:
    """One sample, or one histogram or summary."""

    server: str
    family: str
    kind: Kind
    labels: _Labels
    value: float = math.nan
    text: str = ""
    distribution: _Distribution | None = None

    def sample(self) -> OtherSample:
        found, labels = self.distribution, dict(self.labels)
        if found is not None:
            return OtherSample(
                self.server, self.family, self.kind.value, labels, found.count, found.mean, found.text
            )
        value = self.value if math.isfinite(self.value) else None
        return OtherSample(self.server, self.family, self.kind.value, labels, value, None, self.text)


@dataclass(slots=True)
class PageReader:
    """Collects the other families of the pages it is given, notices about NaN, and which GPUs are named."""

    _rows: list[_Row] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    gpus: set[tuple[str, ...]] = field(default_factory=set)
    """(server, gpu_uuid) of every GPU that Triton's own families name."""

    @property
    def samples(self) -> tuple[OtherSample, ...]:
        """All custom and unknown families, in the order in which they are printed."""
        return tuple(row.sample() for row in self._rows)

    def add(self, server: str, page: MetricsPage) -> None:
        """One server's page."""
        distributions: dict[tuple[str, _Labels], _Distribution] = {}
        odd: dict[str, list[str]] = {}
        for series, value, text in zip(
            page.samples.series, page.samples.values.tolist(), page.texts, strict=True
        ):
            if known(series.name):
                self._add_known(server, series, value, text, odd)
                continue
            family = family_of(series.name, page.families)
            if known(family) or _part_of_known(series.name):
                continue
            if not math.isfinite(value):
                odd.setdefault(family, []).append(text)
            kind = _kind(family, page)
            if kind in (Kind.HISTOGRAM, Kind.SUMMARY) and not series.label("quantile"):
                labels = tuple(pair for pair in series.labels if pair[0] != "le")
                row = distributions.get((family, labels))
                if row is None:
                    row = distributions[family, labels] = _Distribution()
                    self._rows.append(_Row(server, family, kind, labels, distribution=row))
                row.take(series.name.removeprefix(family), series, value, text)
            else:
                self._rows.append(_Row(server, family, kind, series.labels, value, text))
        for family, texts in odd.items():
            printed = ", ".join(dict.fromkeys(texts))
            self.notices.append(Notice(f"{server} metrics", None, f"{family} reads {printed}: not a number"))

    def _add_known(
        self, server: str, series: Series, value: float, text: str, odd: dict[str, list[str]]
    ) -> None:
        if series.name in _OF_GPUS and series.label("gpu_uuid"):
            self.gpus.add((server, series.label("gpu_uuid")))
        # Quantiles are NaN while nothing was asked; what a counter cannot be is told by the history.
        if math.isnan(value) and CATALOGUE[series.name].kind is Kind.GAUGE:
            odd.setdefault(series.name, []).append(text)


def _kind(family: str, page: MetricsPage) -> Kind:
    """As declared; OpenMetrics declares the counter `x_total` as `x`."""
    declared = page.families.get(family) or page.families.get(family.removesuffix("_total"))
    return declared.kind if declared is not None else Kind.UNTYPED


def _part_of_known(name: str) -> bool:
    """True for the parts of a summary or histogram we know, on a page that does not declare it."""
    for suffix in ("_bucket", "_sum", "_count"):
        row = CATALOGUE.get(name.removesuffix(suffix)) if name.endswith(suffix) else None
        if row is not None and row.kind in (Kind.HISTOGRAM, Kind.SUMMARY):
            return True
    return False


def _bound(series: Series) -> float:
    try:
        return float(series.label("le"))
    except ValueError:
        return math.nan
