"""A thin client of the Prometheus query API: instant, range and raw queries, with all that was odd told.

It speaks to anything that answers `/api/v1/query` and `/api/v1/query_range` (Prometheus, Thanos, Mimir,
VictoriaMetrics). https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np

from history.protocol import Grid
from telemetry.errors import NoAnswer, ServerRefused, SourceError, WrongContent
from telemetry.identity import Server
from telemetry.prometheus_endpoint import PrometheusEndpoint
from telemetry.scrape import FloatArray
from telemetry.transport import Transport, host_of

MAX_POINTS = 10_000
"""Points of one range query: Prometheus refuses more than 11,000."""
_FORM = "application/x-www-form-urlencoded"
_SOURCE_ID = "prometheus"


@dataclass(frozen=True, slots=True)
class PromSeries:
    """One series of an answer: its labels (`__name__` included where it was kept), times and values.

    `times` (n,) unix seconds, `values` (n,), `texts` the values as Prometheus printed them.
    """

    labels: Mapping[str, str]
    times: FloatArray
    texts: tuple[str, ...]

    @property
    def values(self) -> FloatArray:
        """Shape (n,): the numbers; NaN where Prometheus printed NaN."""
        return np.array(self.texts, dtype=np.float64) if self.texts else np.empty(0)


@dataclass(frozen=True, slots=True)
class PromAnswer:
    """What came back. `warnings` say what is missing or partial; () when the answer is whole."""

    series: tuple[PromSeries, ...]
    warnings: tuple[str, ...] = ()


class PrometheusApi:
    """The query API of one endpoint; safe to use from many threads. Raises SourceError only."""

    def __init__(self, endpoint: PrometheusEndpoint, transport: Transport | None = None) -> None:
        self.endpoint = endpoint
        identity = Server(_SOURCE_ID, endpoint.url, None, endpoint.headers, endpoint.ca_file)
        self._transport = transport or Transport(identity, timeout_seconds=endpoint.timeout_seconds)
        self._post = True

    @property
    def host(self) -> str:
        """`host:port`, for sentences."""
        return host_of(self.endpoint.url)

    def instant(self, query: str, at: float, *, timeout_seconds: float | None = None) -> PromAnswer:
        """The query at `at` (unix seconds). A range selector (`x[5m]`) answers with its raw samples."""
        return self._ask("query", {"query": query, "time": f"{at:.3f}"}, timeout_seconds)

    def range(self, query: str, grid: Grid, *, timeout_seconds: float | None = None) -> PromAnswer:
        """The query at every time of the grid, asked in pieces of at most MAX_POINTS.

        A piece that fails after others were answered becomes a warning; SourceError if the first one fails.
        """
        pieces: list[PromAnswer] = []
        lost: list[str] = []
        for piece in _pieces(grid):
            parameters = {
                "query": query,
                "start": f"{piece.start:.3f}",
                "end": f"{piece.end:.3f}",
                "step": f"{piece.step_seconds:g}",
            }
            try:
                pieces.append(self._ask("query_range", parameters, timeout_seconds))
            except SourceError as error:
                if not pieces:
                    raise
                lost.append(f"a part of the time is missing: {error.sentence}")
        answer = pieces[0] if len(pieces) == 1 else _joined(pieces)
        return PromAnswer(answer.series, (*answer.warnings, *dict.fromkeys(lost)))

    def _ask(self, what: str, parameters: dict[str, str], timeout_seconds: float | None) -> PromAnswer:
        limit = self.endpoint.timeout_seconds if timeout_seconds is None else timeout_seconds
        # Prometheus gives up when we do: a query nobody waits for any more must not go on.
        body = urlencode({**parameters, "timeout": f"{max(1, round(limit * 1000))}ms"})
        url = f"{self.endpoint.url}/api/v1/{what}"
        try:
            text = self._sent(url, body, limit)
        except ServerRefused as error:
            raise self._refusal(error) from error
        except NoAnswer as error:
            raise NoAnswer(f"Prometheus at {self.host} did not answer within {limit:g} s") from error
        return self._read(text)

    def _sent(self, url: str, body: str, limit: float) -> str:
        if self._post:
            try:
                return self._transport.post(url, body, timeout_seconds=limit, content_type=_FORM).text
            except ServerRefused as error:
                if error.status != 405:
                    raise
                # Proxies that let reads through and nothing else refuse POST, though it only reads here.
                self._post = False
        return self._transport.get(f"{url}?{body}", timeout_seconds=limit).text

    def _refusal(self, error: ServerRefused) -> SourceError:
        """Prometheus' own words for why it does not answer a query."""
        try:
            said = str(json.loads(error.detail or "")["error"])
        except (ValueError, KeyError, TypeError):
            return error
        if "timed out" in said or "timeout" in said:
            return NoAnswer(f"Prometheus at {self.host} gave up the query: {said}", status=error.status)
        return ServerRefused(f"Prometheus at {self.host} refuses the query: {said}", status=error.status)

    def _read(self, text: str) -> PromAnswer:
        try:
            content = json.loads(text)
            data = content["data"]
            rows, kind = data["result"], data["resultType"]
            series = tuple(_series(row, kind) for row in rows) if kind in ("vector", "matrix") else ()
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise WrongContent(
                f"{self.host} did not answer as a Prometheus API does: is it the right address?",
                detail=f"{error!r}: {text[:400]}",
            ) from error
        return PromAnswer(series, _warnings(content))


def _series(row: Mapping[str, Any], kind: str) -> PromSeries:
    points = [row["value"]] if kind == "vector" else row.get("values", [])
    times = np.array([point[0] for point in points], dtype=np.float64)
    return PromSeries(row["metric"], times, tuple(point[1] for point in points))


def _warnings(content: Mapping[str, Any]) -> tuple[str, ...]:
    said = [str(one) for one in content.get("warnings") or ()]
    if content.get("isPartial"):
        # VictoriaMetrics' way to say that some of its storage did not answer.
        said.append("the answer is partial: some of the storage did not answer")
    return tuple(dict.fromkeys(said))


def _pieces(grid: Grid) -> Iterator[Grid]:
    step = grid.step_seconds
    count = len(grid.times())
    for begin in range(0, max(count, 1), MAX_POINTS):
        last = min(begin + MAX_POINTS, count) - 1
        yield Grid(grid.start + begin * step, grid.start + max(last, begin) * step, step)


def _joined(pieces: list[PromAnswer]) -> PromAnswer:
    """Consecutive answers as one, series by series."""
    parts: dict[tuple[tuple[str, str], ...], list[PromSeries]] = {}
    for piece in pieces:
        for one in piece.series:
            parts.setdefault(tuple(sorted(one.labels.items())), []).append(one)
    series = tuple(
        PromSeries(
            same[0].labels,
            np.concatenate([one.times for one in same]),
            tuple(text for one in same for text in one.texts),
        )
        for same in parts.values()
    )
    warnings = dict.fromkeys(text for piece in pieces for text in piece.warnings)
    return PromAnswer(series, tuple(warnings))
