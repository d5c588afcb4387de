"""Saved answers made by hand for tests of the signals, and their report."""

from __future__ import annotations

import json
from typing import Any

from signals.report import ModelSignals, Report, Signals
from signals.saved import SavedAnswers, SavedFile, replay
from telemetry.identity import ModelKey

Rows = dict[str, dict[tuple[str, str], float]]
"""Family without `nv_inference_` -> (model, version) -> value."""


def page(rows: Rows, *more: str) -> SavedFile:
    lines = [
        f'nv_inference_{family}{{model="{name}",version="{version}"}} {value:.17g}'
        for family, values in rows.items()
        for (name, version), value in values.items()
    ]
    return SavedFile("page", "\n".join([*lines, *more]) + "\n")


def failures(name: str, version: str = "1", **reasons: float) -> list[str]:
    return [
        f'nv_inference_request_failure{{model="{name}",reason="{reason}",version="{version}"}} {value}'
        for reason, value in reasons.items()
    ]


def config(name: str, **fields: Any) -> SavedFile:
    return SavedFile(f"{name}.json", json.dumps({"name": name, **fields}))


def ensemble(name: str, *steps: str) -> SavedFile:
    rows = [{"model_name": step, "model_version": -1} for step in steps]
    return config(name, platform="ensemble", ensemble_scheduling={"step": rows})


def statistics(*rows: dict[str, Any]) -> SavedFile:
    return SavedFile("stats.json", json.dumps({"model_stats": list(rows)}))


def batches(**executions_and_ns: tuple[int, int]) -> list[dict[str, Any]]:
    """Sizes by name (b4) -> executions and nanoseconds of each compute part per execution."""
    return [
        {
            "batch_size": int(size[1:]),
            **{f"compute_{part}": {"count": n, "ns": n * ns} for part in ("input", "infer", "output")},
        }
        for size, (n, ns) in executions_and_ns.items()
    ]


def report(*pages: SavedFile, every: float = 10.0, **answers: Any) -> Report:
    return replay(SavedAnswers(every, pages=pages, **answers)).report()


def model(found: Report, name: str, version: str = "1") -> Signals:
    row = found.model(ModelKey("saved", name, version))
    assert isinstance(row, ModelSignals)
    return row.signals


def server(found: Report) -> Signals:
    return found.servers[0].signals


def texts(found: Report) -> str:
    return "\n".join(notice.text for notice in found.notices)
