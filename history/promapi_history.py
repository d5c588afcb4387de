"""The history protocol over a Prometheus-compatible API: one query for each family, over raw families only.

The increase is Prometheus' own `increase()`; the ring's is the same formula, so that both agree on the same
samples. Series that are there twice (an HA pair, two scrape jobs) count once: the largest of the copies.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Sequence

import numpy as np

from history.promapi import PrometheusApi
from history.promapi_devices import is_of_devices, owners, with_uuids
from history.promapi_feed import scrapes_of
from history.promapi_fetch import Columns, Fetcher
from history.promapi_series import first_copies, label_there, own_series
from history.promapi_targets import Targets, equal, selector
from history.protocol import By, Frame, Grid, GroupKey, Matchers, Reduce, Vector
from history.ring import Ring
from telemetry.errors import SourceError
from telemetry.prometheus_endpoint import quoted
from telemetry.scrape import FloatArray, Series

LEAST_INTERVALS = 4
"""Windows are at least so many scrape intervals long: a shorter one often holds fewer than two samples."""
_NAMED_SERVERS = 20
"""Up to so many servers are named in a query; of more, everything is asked for and the others left out."""


class PromHistory:
    """A `History`. `targets` gives what is known of the servers; `only` the ids answers are limited to."""

    def __init__(
        self,
        fetcher: Fetcher,
        targets: Callable[[], Targets],
        *,
        only: Callable[[], Collection[str]] | None = None,
        api: PrometheusApi | None = None,
    ) -> None:
        self._fetcher = fetcher
        self._targets = targets
        self._only = only
        self._api = api

    # ---- History

    def increase(
        self,
        family: str,
        by: By,
        window_seconds: float,
        at: float,
        *,
        where: Matchers = (),
        plain: bool = False,
    ) -> Vector:
        """Increase over [at - window, at] by group; `plain` from the raw samples of the window."""
        if plain and self._api is not None and not is_of_devices(family):
            ring = self._raw(family, window_seconds, at, where)
            return ring.increase(family, by, window_seconds, at, where=where, plain=True)
        return _vector(self.increase_range(family, by, window_seconds, Grid(at, at, 1.0), where=where))

    def gauge(
        self, family: str, by: By, at: float, *, where: Matchers = (), reduce: Reduce = Reduce.SUM
    ) -> Vector:
        """Last value at `at`, reduced by group."""
        return _vector(self.gauge_range(family, by, Grid(at, at, 1.0), where=where, reduce=reduce))

    def increase_range(
        self, family: str, by: By, window_seconds: float, grid: Grid, *, where: Matchers = ()
    ) -> Frame:
        """`increase` at every time of the grid."""
        targets = self._targets()
        # Over a window that is too short for the scrape interval: the mean rate of a longer one.
        window = max(window_seconds, LEAST_INTERVALS * targets.interval_seconds)
        text = f"increase({{}}[{_duration(window)}])"
        frame = self._asked(targets, family, text, by, grid, where, Reduce.SUM)
        return Frame(frame.times, frame.keys, frame.values * (window_seconds / window))

    def gauge_range(
        self, family: str, by: By, grid: Grid, *, where: Matchers = (), reduce: Reduce = Reduce.SUM
    ) -> Frame:
        """`gauge` at every time of the grid."""
        return self._asked(self._targets(), family, "{}", by, grid, where, reduce)

    def over_range(
        self,
        family: str,
        function: str,
        window_seconds: float,
        by: By,
        grid: Grid,
        *,
        where: Matchers = (),
    ) -> Frame:
        """A function of PromQL over a window (`resets`, `min_over_time`) at every time of the grid.

        Of several series the sum of what was counted, the largest of values.
        """
        text = f"{function}({{}}[{_duration(window_seconds)}])"
        reduce = Reduce.MAX if function.endswith("_over_time") else Reduce.SUM
        return self._asked(self._targets(), family, text, by, grid, where, reduce)

    def labels(self, family: str) -> Sequence[tuple[str, Series]]:
        """(server, series) of the series that are there now; () if they cannot be had."""
        if self._api is None:
            return ()
        targets = self._targets()
        try:
            answer = self._api.instant(self._selector(targets, family, ()), time.time())
        except SourceError:
            return ()
        found = dict.fromkeys(
            (targets.server_of(one.labels), own_series(family, one.labels, targets)) for one in answer.series
        )
        return [row for row in found if self._wanted(row[0])]

    # ---- queries

    def _asked(
        self, targets: Targets, family: str, text: str, by: By, grid: Grid, where: Matchers, reduce: Reduce
    ) -> Frame:
        """The frame of a query; in `text` the selector goes where the braces are."""
        if is_of_devices(family) and targets.gpus:
            return self._of_devices(targets, family, text, by, grid, where)
        text = text.format(self._selector(targets, family, where))
        return self._frame(targets, family, text, by, grid, reduce)

    def _of_devices(
        self, targets: Targets, family: str, text: str, by: By, grid: Grid, where: Matchers
    ) -> Frame:
        """Series of GPUs, each for every server that uses the GPU; of copies the largest."""
        asked = next((value for name, value in where if name == "server"), None)
        wanted = [one for one in targets.gpus if self._wanted(one) and asked in (None, one)]
        uuids = {uuid for server in wanted for uuid in targets.gpus[server]}
        matchers = [with_uuids(uuids), *(equal(*one) for one in where if one[0] != "server")]
        names = [name for name in dict.fromkeys((*by, "UUID")) if name != "server"]
        if not uuids:
            return Frame(grid.times(), (), np.empty((len(grid.times()), 0)))
        text = text.format(selector(targets.endpoint, *matchers, name=family))
        columns = self._fetcher.range(f"max by ({', '.join(names)}) ({text})", grid)
        found: dict[GroupKey, FloatArray] = {}
        for label_set, values in columns.items():
            labels = dict(label_set)
            for server in owners(targets, labels, wanted):
                key = tuple(server if name == "server" else labels.get(name, "") for name in by)
                found[key] = values if key not in found else np.fmax(found[key], values)
        return _framed(grid, found)

    def _selector(self, targets: Targets, family: str, where: Matchers) -> str:
        matchers: list[str] = []
        for name, value in where:
            if name == "server":
                matchers += [equal(*one) for one in targets.selecting(value)]
            else:
                matchers.append(equal(label_there(targets, family, name), value))
        if not any(name == "server" for name, _ in where):
            matchers += self._of_the_wanted(targets)
        return selector(targets.endpoint, *matchers, name=family)

    def _of_the_wanted(self, targets: Targets) -> list[str]:
        """A matcher for the servers looked at, where one label is enough to name them all."""
        own = targets.endpoint.server_label
        if self._only is None:
            return []
        values = {dict(targets.selecting(server)).get(own) for server in self._only()}
        if not values or None in values or len(values) > _NAMED_SERVERS:
            return []
        return [f"{own}=~{quoted('|'.join(sorted(re.escape(str(value)) for value in values)))}"]

    def _frame(self, targets: Targets, family: str, text: str, by: By, grid: Grid, reduce: Reduce) -> Frame:
        own = {name: label_there(targets, family, name) for name in by if name != "server"}
        if targets.duplicates:
            text = f"max without ({', '.join(targets.duplicates)}) ({text})"
        names = dict.fromkeys((*targets.group, *own.values()))
        columns = self._fetcher.range(f"{reduce} by ({', '.join(names)}) ({text})", grid)
        return self._keyed(targets, columns, by, own, grid, reduce)

    def _keyed(
        self, targets: Targets, columns: Columns, by: By, own: dict[str, str], grid: Grid, reduce: Reduce
    ) -> Frame:
        found: dict[GroupKey, FloatArray] = {}
        for label_set, values in columns.items():
            labels = dict(label_set)
            server = targets.server_of(labels)
            if not self._wanted(server):
                continue
            key = tuple(server if name == "server" else labels.get(own[name], "") for name in by)
            known = found.get(key)
            found[key] = values if known is None else _joined(known, values, reduce)
        return _framed(grid, found)

    def _wanted(self, server: str) -> bool:
        return bool(server) and (self._only is None or server in self._only())

    def _raw(self, family: str, window_seconds: float, at: float, where: Matchers) -> Ring:
        """The samples of a window as they are, in a ring of their own."""
        assert self._api is not None
        targets = self._targets()
        text = f"{self._selector(targets, family, where)}[{_duration(window_seconds)}]"
        ring = Ring(retention_seconds=max(3600.0, 2 * window_seconds))
        by_server: dict[str, list[int]] = {}
        try:
            series = self._api.instant(text, at).series
        except SourceError:
            return ring
        for place, one in enumerate(series):
            by_server.setdefault(targets.server_of(one.labels), []).append(place)
        for server, places in by_server.items():
            if self._wanted(server):
                copies = first_copies([series[place] for place in places], targets)
                for scrape in scrapes_of(server, copies, targets):
                    ring.accept(scrape)
        return ring


def _framed(grid: Grid, found: dict[GroupKey, FloatArray]) -> Frame:
    times = grid.times()
    if not found:
        return Frame(times, (), np.empty((len(times), 0)))
    return Frame(times, tuple(found), np.stack(list(found.values()), axis=1))


def _joined(one: FloatArray, other: FloatArray, reduce: Reduce) -> FloatArray:
    if reduce is Reduce.MAX:
        return np.fmax(one, other)
    return np.where(np.isnan(one), other, np.where(np.isnan(other), one, one + other))


def _vector(frame: Frame) -> Vector:
    if not frame.keys:
        return {}
    row = frame.values[0].tolist()
    return {key: value for key, value in zip(frame.keys, row, strict=True) if value == value}


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"
