"""The alerts of the last hours, read beside everything else from Prometheus and Alertmanager."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from collectors.alertmanager import AlertmanagerReader
from history.promapi import PrometheusApi, PromSeries
from history.protocol import Grid
from telemetry.alerts import Alert, AlertState
from telemetry.elsewhere import AlertmanagerEndpoint
from telemetry.errors import SourceError
from telemetry.prometheus_endpoint import PrometheusEndpoint
from telemetry.rounds import Rounds

READ_SECONDS = 15.0
BACK_SECONDS = 6 * 3600.0
"""How far back the alerts of Prometheus are told."""
STEP_SECONDS = 60.0
MAX_ALERTS = 200
"""The newest ones; more are no timeline any more."""
_SOURCE = "Prometheus"


class Reader(Protocol):
    """Whoever holds the alerts of now."""

    def alerts(self) -> tuple[Alert, ...]:
        """The alerts of now; raises SourceError."""
        ...


@dataclass(frozen=True, slots=True)
class AlertsSeen:
    """`alerts`, the newest first, as they were at `read_at` (unix seconds, None before the first reading).

    `errors` are sentences of who could not be asked; what they told before is kept.
    """

    alerts: tuple[Alert, ...] = ()
    errors: tuple[str, ...] = ()
    read_at: float | None = None


class AlertWatch:
    """Reads alerts every 15 s in a thread of its own; `seen()` never waits."""

    def __init__(
        self,
        prometheus: PrometheusApi | None,
        alertmanager: Reader | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._prometheus, self._alertmanager, self._clock = prometheus, alertmanager, clock
        self._seen = AlertsSeen()
        self._parts: dict[str, tuple[Alert, ...]] = {}
        self._rounds = Rounds("alerts", self.read, READ_SECONDS)

    @classmethod
    def of(
        cls, prometheus: PrometheusEndpoint | None, alertmanager: AlertmanagerEndpoint | None
    ) -> AlertWatch:
        """The watch of what the settings name."""
        return cls(
            PrometheusApi(prometheus) if prometheus is not None else None,
            AlertmanagerReader(alertmanager) if alertmanager is not None else None,
        )

    @property
    def configured(self) -> bool:
        """True if there is anybody to ask."""
        return self._prometheus is not None or self._alertmanager is not None

    def start(self) -> None:
        """Begin to read; a second call does nothing, nor does one with nobody to ask."""
        if self.configured:
            self._rounds.start()

    def stop(self) -> None:
        """End reading; what was read stays readable."""
        self._rounds.stop()

    def seen(self) -> AlertsSeen:
        """What was read last."""
        return self._seen

    def read(self) -> AlertsSeen:
        """Ask both once, and remember."""
        now, errors = self._clock(), []
        for name, ask in (("prometheus", self._of_prometheus), ("alertmanager", self._of_alertmanager)):
            try:
                self._parts[name] = ask(now)
            except SourceError as error:
                errors.append(error.sentence)
        alerts = merged(self._parts.get("prometheus", ()), self._parts.get("alertmanager", ()))
        self._seen = AlertsSeen(alerts[:MAX_ALERTS], tuple(errors), now)
        return self._seen

    def _of_alertmanager(self, now: float) -> tuple[Alert, ...]:
        return self._alertmanager.alerts() if self._alertmanager is not None else ()

    def _of_prometheus(self, now: float) -> tuple[Alert, ...]:
        api = self._prometheus
        if api is None:
            return ()
        end = now // STEP_SECONDS * STEP_SECONDS
        grid = Grid(end - BACK_SECONDS, end, STEP_SECONDS)
        matchers = ",".join(('alertstate="firing"', *api.endpoint.matchers))
        query = f"ALERTS{{{matchers}}}"
        found = [one for series in api.range(query, grid).series for one in alerts_of(series, grid)]
        known = {one.identity for one in found if one.ends_at is None}
        # What began within this minute is in no step of the range yet.
        for series in api.instant(query, now).series:
            one = next(iter(alerts_of(series, Grid(now, now, STEP_SECONDS))))
            if one.identity not in known:
                found.append(one)
        return tuple(found)


def alerts_of(series: PromSeries, grid: Grid) -> Iterable[Alert]:
    """Each stretch of time in which a series of `ALERTS` was there is one alert."""
    labels = {
        name: value
        for name, value in series.labels.items()
        if name not in ("__name__", "alertname", "alertstate")
    }
    name, times = series.labels.get("alertname", ""), series.times.tolist()
    begin = 0
    for place in range(1, len(times) + 1):
        if place < len(times) and times[place] - times[place - 1] <= 1.5 * grid.step_seconds:
            continue
        last = times[place - 1]
        over = last < grid.end - 0.5 * grid.step_seconds
        state = AlertState.RESOLVED if over else AlertState.FIRING
        yield Alert(name, labels, times[begin], last if over else None, state, _SOURCE)
        begin = place


def merged(prometheus: Sequence[Alert], alertmanager: Sequence[Alert]) -> tuple[Alert, ...]:
    """All alerts, the newest first; one that both tell is Alertmanager's, which knows who is told of it.

    Alertmanager adds labels of its own (`external_labels`), so its alert is the same if it has all of the
    other's.
    """
    kept = [
        one
        for one in prometheus
        if one.ends_at is not None or not any(_same(one, other) for other in alertmanager)
    ]
    told = [replace(one, starts_at=min([one.starts_at, *_begun(one, prometheus)])) for one in alertmanager]
    return tuple(sorted([*kept, *told], key=lambda one: (-one.starts_at, one.name)))


def _begun(one: Alert, others: Sequence[Alert]) -> list[float]:
    """Prometheus tells to the minute: an earlier minute than Alertmanager's moment is not another begin."""
    return [
        other.starts_at
        for other in others
        if other.ends_at is None and _same(other, one) and one.starts_at - other.starts_at > STEP_SECONDS
    ]


def _same(prometheus: Alert, alertmanager: Alert) -> bool:
    return prometheus.name == alertmanager.name and prometheus.labels.items() <= alertmanager.labels.items()
