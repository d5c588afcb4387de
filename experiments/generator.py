"""The load generator, a process of its own: `python -m experiments.generator`.

Reads one JSON line (an order, see `experiments.load.LoadOrder`) and writes JSON lines: progress about five
times a second, then the result. Ends early when its standard input is closed (the starter is gone).
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import sys
import threading
import time
from typing import Any

import gevent
import numpy as np
from tritonclient.http import InferenceServerClient, InferInput
from tritonclient.utils import triton_to_np_dtype

from control.triton_client import call_error, open_client

PROGRESS_SECONDS = 0.2
_JOIN_SECONDS = 0.05
_AFTER_STOP_SECONDS = 2.0


class Load:
    """One closed loop: `concurrency` workers, each with its own client, share `requests` requests."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._inputs = [decode_tensor(row) for row in order["inputs"]]
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._began = 0.0
        self._report_at = 0.0
        self._connected_workers = threading.Semaphore(0)
        self._go = threading.Event()
        self.stop = threading.Event()
        self.spans: list[tuple[float, float]] = []
        """Begin and end of each successful request, seconds since the start."""
        self.errors: dict[str, int] = {}
        self.last_end = 0.0

    def run(self) -> None:
        """Connect, start all workers at once, and report until they have ended or were stopped.

        A worker that waits for an answer is not waited for long after a stop: its request is not counted.
        """
        workers = [
            threading.Thread(target=self._work, daemon=True) for _ in range(self._order["concurrency"])
        ]
        self._began = time.perf_counter()
        for worker in workers:
            worker.start()
        for _ in workers:
            while not self._connected_workers.acquire(timeout=_JOIN_SECONDS) and not self.stop.is_set():
                self._report_when_due()
        self._began = time.perf_counter()
        self._go.set()
        give_up_at = float("inf")
        for worker in workers:
            while worker.is_alive() and time.perf_counter() < give_up_at:
                worker.join(_JOIN_SECONDS)
                self._report_when_due()
                if self.stop.is_set():
                    give_up_at = min(give_up_at, time.perf_counter() + _AFTER_STOP_SECONDS)

    def _report_when_due(self) -> None:
        if time.perf_counter() >= self._report_at:
            self._report_at = time.perf_counter() + PROGRESS_SECONDS
            self.report()

    def report(self) -> None:
        """One line of progress."""
        with self._lock:
            done, failed = len(self.spans), sum(self.errors.values())
        write({"done": done, "failed": failed, "seconds": time.perf_counter() - self._began})

    def result(self) -> dict[str, Any]:
        """All that was measured."""
        with self._lock:
            return {
                "result": {
                    "spans": self.spans,
                    "errors": self.errors,
                    "seconds": self.last_end,
                    "stopped": self.stop.is_set(),
                }
            }

    def _work(self) -> None:
        client = self._connected()
        self._connected_workers.release()
        self._go.wait()
        while not self.stop.is_set() and next(self._numbers) < self._order["requests"]:
            self._one(client)
        client.close()
        gevent.get_hub().destroy(destroy_loop=True)

    def _connected(self) -> InferenceServerClient:
        """A client with an open connection, so that connecting is not measured."""
        client = open_client(self._order["url"], self._order["timeout_seconds"], self._order["ca_file"])
        # What is wrong here is wrong with the first request too, and is counted there.
        with contextlib.suppress(Exception):
            client.is_server_live(headers=self._order["headers"] or None)
        return client

    def _one(self, client: InferenceServerClient) -> None:
        order = self._order
        began = time.perf_counter()
        try:
            client.infer(
                order["model"],
                self._inputs,
                model_version=order["version"],
                headers=order["headers"] or None,
                **self._sequence(),
            )
        except Exception as error:  # noqa: BLE001 - every failure is a result of the measurement
            self._count_error(error)
            ended = time.perf_counter()
        else:
            ended = time.perf_counter()
            with self._lock:
                self.spans.append((began - self._began, ended - self._began))
        with self._lock:
            self.last_end = max(self.last_end, ended - self._began)

    def _sequence(self) -> dict[str, Any]:
        if not self._order["sequence"]:
            return {}
        return {"sequence_id": threading.get_ident() or 1, "sequence_start": True, "sequence_end": True}

    def _count_error(self, error: Exception) -> None:
        order = self._order
        known = call_error(error, order["url"], order["timeout_seconds"], order["model"])
        with self._lock:
            self.errors[known.sentence] = self.errors.get(known.sentence, 0) + 1


def decode_tensor(row: dict[str, Any]) -> InferInput:
    """One input from its JSON form: name, datatype, shape, and the bytes or the elements in base64."""
    value = InferInput(row["name"], row["shape"], row["datatype"])
    if row["datatype"] == "BYTES":
        array = np.empty(len(row["elements"]), dtype=object)
        for index, element in enumerate(row["elements"]):
            array[index] = base64.b64decode(element)
    else:
        array = np.frombuffer(base64.b64decode(row["data"]), dtype=triton_to_np_dtype(row["datatype"]))
    value.set_data_from_numpy(array.reshape(row["shape"]), binary_data=True)
    return value


def write(row: dict[str, Any]) -> None:
    """One line to the starter."""
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read the order, run it, write the result."""
    load = Load(json.loads(sys.stdin.readline()))

    def end_with_starter() -> None:
        sys.stdin.read()
        load.stop.set()

    threading.Thread(target=end_with_starter, daemon=True).start()
    load.run()
    write(load.result())


if __name__ == "__main__":
    main()
