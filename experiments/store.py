"""Ended runs in the state folder, one JSON file each, and as CSV."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import re
import threading
from collections.abc import Sequence
from pathlib import Path

from control.server_split import ModelSplit
from experiments.measure import Measurement
from experiments.report import RunReport

FOLDER = "load_runs"
KEEP = 200
_NAME = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")
_log = logging.getLogger(__name__)


class RunStore:
    """The newest runs, readable again after a restart; safe to use from many threads.

    `folder` None keeps them in memory alone.
    """

    def __init__(self, folder: Path | None, keep: int = KEEP) -> None:
        self._folder = folder
        self._keep = keep
        self._lock = threading.Lock()
        self._known: dict[str, RunReport] = {}
        self._unreadable: set[str] = set()

    def save(self, report: RunReport) -> str:
        """Keep a report; "" if it was written, else why it will be gone after a restart."""
        with self._lock:
            self._known[report.id] = report
            self._forget_oldest()
        if self._folder is None:
            return ""
        try:
            self._write(self._folder, report)
        except OSError as error:
            return f"This run could not be saved ({error.strerror}): it is gone when the app ends."
        return ""

    def reports(self, server: str | None = None, model: str | None = None) -> list[RunReport]:
        """What is kept, newest first, of one server and one model if given."""
        self._read_new()
        with self._lock:
            found = sorted(self._known.values(), key=lambda report: report.id, reverse=True)
        return [one for one in found if server in (None, one.server) and model in (None, one.model)]

    def get(self, run_id: str) -> RunReport | None:
        """The run of that id, None if there is none."""
        self._read_new()
        with self._lock:
            return self._known.get(run_id)

    def _write(self, folder: Path, report: RunReport) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file, part = folder / f"{report.id}.json", folder / f"{report.id}.part"
        part.write_text(json.dumps(report.to_json()), encoding="utf-8")
        # A file that is half written must never be read.
        part.replace(file)
        for old in sorted(self._files(folder))[: -self._keep]:
            old.unlink(missing_ok=True)

    def _files(self, folder: Path) -> list[Path]:
        with contextlib.suppress(OSError):
            return [file for file in folder.glob("*.json") if _NAME.fullmatch(file.stem)]
        return []

    def _read_new(self) -> None:
        """Read what another process, or this one before its restart, wrote."""
        if self._folder is None:
            return
        for file in self._files(self._folder):
            if file.stem in self._known or file.stem in self._unreadable:
                continue
            try:
                report = RunReport.from_json(json.loads(file.read_text(encoding="utf-8")))
            except (OSError, ValueError, TypeError, KeyError) as error:
                _log.warning("the saved run %s cannot be read: %s", file.name, error)
                self._unreadable.add(file.stem)
                continue
            with self._lock:
                self._known[report.id] = report

    def _forget_oldest(self) -> None:
        for run_id in sorted(self._known)[: -self._keep]:
            del self._known[run_id]


CSV_COLUMNS = (
    "run", "kind", "time_utc", "server", "model", "version", "who", "label", "setting", "load", "concurrency",
    "rate_per_second", "seconds", "succeeded", "failed", "throughput_per_second", "mean_us", "p50_us",
    "p90_us", "p95_us", "p99_us", "max_us", "service_p99_us", "errors", "server_requests", "server_failures",
    "server_executions", "server_inferences", "server_queue_us", "server_compute_input_us",
    "server_compute_infer_us", "server_compute_output_us", "executions_by_batch_size", "busy_ratio",
    "gpu_utilization_ratio", "other_requests",
)  # fmt: skip


def as_csv(reports: Sequence[RunReport]) -> str:
    """One line for each measurement; a figure that was not reported is an empty cell."""
    text = io.StringIO()
    rows = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    rows.writeheader()
    for report in reports:
        for one in report.measurements:
            rows.writerow(_run_cells(report, one) | _client_cells(one) | _server_cells(one))
    return text.getvalue()


def _run_cells(report: RunReport, one: Measurement) -> dict[str, object]:
    return {
        "run": report.id,
        "kind": report.kind.value,
        "time_utc": report.id[:15],
        "server": _safe(report.server),
        "model": _safe(report.model),
        "version": report.version,
        "who": _safe(report.who),
        "label": _safe(one.label),
        "setting": _safe(report.settings.get(one.label, "")),
        "load": _safe(one.plan.words),
        "concurrency": one.plan.concurrency,
        "rate_per_second": one.plan.rate_per_second,
    }


def _client_cells(one: Measurement) -> dict[str, object]:
    clients = one.clients
    named = (
        "seconds", "succeeded", "failed", "throughput_per_second", "mean_us", "p50_us", "p90_us", "p95_us",
        "p99_us", "max_us", "service_p99_us",
    )  # fmt: skip
    errors = "; ".join(f"{count} x {sentence}" for sentence, count in clients.errors.items())
    return {name: getattr(clients, name) for name in named} | {"errors": _safe(errors)}


def _server_cells(one: Measurement) -> dict[str, object]:
    cells: dict[str, object] = {
        "busy_ratio": one.busy_ratio,
        "gpu_utilization_ratio": one.gpu_ratio,
        "other_requests": one.others,
    }
    return cells if one.split is None else cells | _split_cells(one.split)


def _split_cells(split: ModelSplit) -> dict[str, object]:
    sizes = "; ".join(f"{size}: {count}" for size, count in split.executions_by_batch_size.items())
    return {
        "server_requests": split.requests,
        "server_failures": split.failures,
        "server_executions": split.executions,
        "server_inferences": split.inferences,
        "server_queue_us": split.queue_us,
        "server_compute_input_us": split.compute_input_us,
        "server_compute_infer_us": split.compute_infer_us,
        "server_compute_output_us": split.compute_output_us,
        "executions_by_batch_size": sizes,
    }


def _safe(text: str) -> str:
    """Text that a spreadsheet takes for text: names and error texts come from outside."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
