"""Raw samples of Prometheus as readings of one server: how a server without any path to it fills the ring.

The samples keep their own times, so that the ring computes from exactly what Prometheus holds.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from collectors.exposition import Family, MetricsPage
from history.promapi import PrometheusApi, PromSeries
from history.promapi_facts import scrapes_of_facts
from history.promapi_series import OURS, catalogued, first_copies, own_series
from history.promapi_targets import Target, Targets, equal, is_copy_label, selector
from telemetry.errors import Unreachable
from telemetry.prometheus_endpoint import quoted
from telemetry.scrape import Samples, Scrape, Series, Source

PAGE_FAMILIES = "nv_.+|vllm:.+"
"""What is read of a server's own page: labels like `pod` also stand on families of other exporters."""
MAX_SAMPLES = 400_000
"""Samples asked for at once: the time that is read back gets shorter with the number of series."""
LEAST_BACK_SECONDS = 300.0
_UP = "up"


def scrapes_of(
    server: str, rows: Sequence[PromSeries], targets: Targets, *, payload: bool = False
) -> list[Scrape]:
    """Metrics readings of one server in the order of their time, one for each scrape that Prometheus made.

    A scrape that failed there (`up` is 0) is a failed reading. `payload`: the newest one gets its page.
    """
    names = [str(row.labels.get("__name__", "")) for row in rows]
    series = [own_series(name, row.labels, targets) for name, row in zip(names, rows, strict=True)]
    columns: dict[float, list[tuple[int, str]]] = {}
    up: dict[float, bool] = {}
    for place, (name, row) in enumerate(zip(names, rows, strict=True)):
        for at, text in zip(row.times.tolist(), row.texts, strict=True):
            if name == _UP:
                up[at] = text != "0" or up.get(at, False)
            else:
                columns.setdefault(at, []).append((place, text))
    times = sorted({*columns, *(at for at, there in up.items() if not there)})
    return [
        _scrape(server, at, columns.get(at, []), series, payload=payload and at == times[-1]) for at in times
    ]


def _scrape(
    server: str, at: float, cells: Iterable[tuple[int, str]], series: Sequence[Series], *, payload: bool
) -> Scrape:
    cells = list(cells)
    if not cells:
        error = Unreachable(f"Prometheus could not scrape {server} when it last tried")
        return Scrape(server, Source.METRICS, at, 0.0, error=error)
    own = tuple(series[place] for place, _ in cells)
    values = np.array([text for _, text in cells], dtype=np.float64)
    samples = Samples(own, values)
    page = MetricsPage(samples, tuple(text for _, text in cells), _families(own)) if payload else None
    return Scrape(server, Source.METRICS, at, 0.0, samples, page)


def _families(series: Iterable[Series]) -> Mapping[str, Family]:
    found: dict[str, Family] = {}
    for name in {one.name for one in series}:
        row = catalogued(name)
        if row is not None:
            found[row.family] = Family(row.family, row.kind, row.help)
    return found


def settled(rows: Sequence[PromSeries], now: float, wait_seconds: float) -> list[PromSeries]:
    """The samples without those of the newest scrape while it may still be coming in.

    Behind remote write the samples of one scrape do not arrive together: one with fewer series than the
    scrape before it is left for the next look, `wait_seconds` at most.
    """
    counts = Counter(at for row in rows for at in row.times.tolist())
    times = sorted(counts)
    if len(times) < 2 or counts[times[-1]] >= counts[times[-2]] or now - times[-1] > wait_seconds:
        return list(rows)
    return [_before(row, times[-1]) for row in rows]


def _before(row: PromSeries, at: float) -> PromSeries:
    kept = int(np.searchsorted(row.times, at))
    return PromSeries(row.labels, row.times[:kept], row.texts[:kept])


class Feed:
    """One server, read through Prometheus again and again; for one thread at a time."""

    def __init__(self, api: PrometheusApi, targets: Callable[[], Targets], server: str) -> None:
        self.server = server
        self._api = api
        self._targets = targets
        self._copy: Mapping[str, str] | None = None
        self._page_at = float("-inf")
        self._facts_at = float("-inf")
        self._lock = threading.Lock()

    @property
    def read_at(self) -> float | None:
        """Unix time of the newest sample that was read, None before the first."""
        newest = max(self._page_at, self._facts_at)
        return newest if newest > float("-inf") else None

    def scrapes(self, now: float, back_seconds: float) -> list[Scrape]:
        """What is new since the last call, at most `back_seconds` ago; raises SourceError."""
        with self._lock:
            targets = self._targets()
            target = targets.get(self.server)
            if target is not None and target.alive:
                self._copy = target.copies[0]
            page = self._new_page(targets, now, back_seconds)
            facts = self._new_facts(targets, target, now, back_seconds)
            return sorted([*page, *facts], key=lambda one: one.at)

    def _new_page(self, targets: Targets, now: float, back_seconds: float) -> list[Scrape]:
        if self._copy is not None:
            matchers = [equal(name, value) for name, value in sorted(self._copy.items())]
        else:
            matchers = [equal(*one) for one in targets.selecting(self.server)]
        name = f"__name__=~{quoted(f'{_UP}|{PAGE_FAMILIES}')}"
        text = selector(targets.endpoint, *matchers, name)
        rows = first_copies(self._new(text, self._page_at, now, back_seconds), targets)
        rows = settled(rows, now, targets.interval_seconds)
        found = [
            one for one in scrapes_of(self.server, rows, targets, payload=True) if one.at > self._page_at
        ]
        if found:
            self._page_at = found[-1].at
        return found

    def _new_facts(
        self, targets: Targets, target: Target | None, now: float, back_seconds: float
    ) -> list[Scrape]:
        """What the exporter publishes of the server, where there is one."""
        matchers = [equal(*one) for one in self._of_exporter(targets, target)]
        text = selector(targets.endpoint, *matchers, f'__name__=~"{OURS}(model|batch|ensemble|server)_.+"')
        rows = first_copies(self._new(text, self._facts_at, now, back_seconds), targets)
        rows = settled(rows, now, targets.interval_seconds)
        found = [one for one in scrapes_of_facts(self.server, rows, targets) if one.at > self._facts_at]
        if found:
            self._facts_at = found[-1].at
        return found

    def _of_exporter(self, targets: Targets, target: Target | None) -> Iterator[tuple[str, str]]:
        """The exporter writes `instance` and the rest of `match`; its own pod is another one."""
        own = targets.endpoint.server_label
        configured = any(one.id == self.server for one in targets.servers)
        if configured or target is None:
            yield from targets.selecting(self.server)
        else:
            yield own, target.labels.get(own, "")
        for name, value in sorted((self._copy or {}).items()):
            if is_copy_label(name, targets.endpoint):
                yield name, value

    def _new(self, text: str, since: float, now: float, back_seconds: float) -> tuple[PromSeries, ...]:
        back = min(back_seconds, now - since + 1.0)
        if back > LEAST_BACK_SECONDS:
            back = self._affordable(text, now, back)
        return self._api.instant(f"{text}[{max(1, round(back * 1000))}ms]", now).series

    def _affordable(self, text: str, now: float, back_seconds: float) -> float:
        """As much of the time as holds MAX_SAMPLES."""
        counted = self._api.instant(f"count({text})", now).series
        series = float(counted[0].values[0]) if counted else 1.0
        interval = self._targets().interval_seconds
        return max(LEAST_BACK_SECONDS, min(back_seconds, MAX_SAMPLES / max(series, 1.0) * interval))
