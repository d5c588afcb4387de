"""What the comparisons with a real Prometheus share: even traffic, tables of values, differences."""

from __future__ import annotations

import http.client
import json
import math
import random
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

from history.protocol import Grid, History
from sandbox.traffic_requests import infer_request
from signals.definition import LABELS, Definition
from signals.evaluation import Dialect, Evaluation
from signals.facts import SignalFacts
from tests.prometheus_server import PrometheusServer

Table = dict[tuple[str, ...], dict[float, float]]
"""Group -> time -> value."""


@contextmanager
def traffic(url: str, per_second: Mapping[str, float]) -> Iterator[None]:
    """Requests at even times until the block ends, whatever becomes of them."""
    over = threading.Event()
    threads = [
        threading.Thread(target=_send, args=(url, model, rate, over), daemon=True)
        for model, rate in per_second.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(20)


def _send(url: str, model: str, rate: float, over: threading.Event) -> None:
    path, body, headers = _request(model)
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    due = time.monotonic()
    while not over.wait(max(0.0, due - time.monotonic())):
        due = max(due + 1 / rate, time.monotonic() - 1.0)
        try:
            connection.request("POST", f"/v2/models/{model}/{path}", body, headers)
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            connection.close()


def _request(model: str) -> tuple[str, bytes, dict[str, str]]:
    if model == "decoupled_thread":
        return "generate_stream", b'{"INPUT": 1.0}', {"Content-Type": "application/json"}
    if model.startswith("flaky"):
        tensor = {"name": "INPUT", "shape": [1], "datatype": "FP32", "data": [1.0]}
        return "infer", json.dumps({"inputs": [tensor]}).encode(), {}
    request = infer_request(model, 1, random.Random(1))
    return "infer", request.body, request.headers


def of_prometheus(prometheus: PrometheusServer, row: Definition, grid: Grid, window: str) -> Table:
    """The signal's PromQL over the grid."""
    dialect = Dialect(window=window)
    labels = [dialect.label(name) for name in (*LABELS[row.level], *row.keys)]
    table: Table = {}
    for found in prometheus.query_range(row.promql(dialect), grid.start, grid.end, grid.step_seconds):
        metric = found["metric"]
        # What is said of an ensemble's steps has no version there; ours is that of the ensemble.
        key = tuple(metric.get(name, "1" if name == "version" else "") for name in labels)
        values = {float(at): float(value) for at, value in found["values"]}
        table.setdefault(key, {}).update({at: one for at, one in values.items() if not math.isnan(one)})
    return {key: values for key, values in table.items() if values}


def of_history(
    history: History, facts: SignalFacts, row: Definition, grid: Grid, window_seconds: float
) -> Table:
    """The signal over the grid; totals as PromQL's increase() has them."""
    frame = Evaluation(history, facts, window_seconds, grid, plain_totals=False).of(row.expression)
    table: Table = {}
    for column, key in enumerate(frame.keys):
        values = frame.values[:, column]
        table[key] = {
            float(at): float(one) for at, one in zip(frame.times, values, strict=True) if not math.isnan(one)
        }
    return {key: values for key, values in table.items() if values}


def without(table: Table, moments: Collection[float]) -> Table:
    """The table without some moments."""
    kept = {key: {at: one for at, one in row.items() if at not in moments} for key, row in table.items()}
    return {key: row for key, row in kept.items() if row}


def differences(ours: Table, theirs: Table, relative: float) -> list[str]:
    """A line for every group or time that only one has, and for every value that differs too much."""
    found = [f"only here: {key}" for key in ours.keys() - theirs.keys()]
    found += [f"only in Prometheus: {key}" for key in theirs.keys() - ours.keys()]
    for key in ours.keys() & theirs.keys():
        mine, other = ours[key], theirs[key]
        if mine.keys() != other.keys():
            times = sorted(mine.keys() ^ other.keys())
            found.append(f"{key}: one has a value and the other not at {times}")
        for at in mine.keys() & other.keys():
            if not math.isclose(mine[at], other[at], rel_tol=relative, abs_tol=1e-9):
                found.append(f"{key} at {at}: {mine[at]} here, {other[at]} in Prometheus")
    return found
