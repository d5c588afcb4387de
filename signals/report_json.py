"""The report as strict JSON: every key always there, null = not reported."""

from __future__ import annotations

import json
import math
from typing import Any

from signals.report import Report, Signals, SignalValue


def to_data(report: Report) -> dict[str, Any]:
    """The report as plain data, ready for `json.dumps`."""
    return {
        "window_seconds": report.window_seconds,
        "servers": [{"server": row.server, "signals": _signals(row.signals)} for row in report.servers],
        "models": [
            {
                "server": row.key.server,
                "model": row.key.name,
                "version": row.key.version,
                "state": None if row.state is None else row.state.value,
                "signals": _signals(row.signals),
            }
            for row in report.models
        ],
        "gpus": [
            {"server": row.key.server, "gpu_uuid": row.key.uuid, "signals": _signals(row.signals)}
            for row in report.gpus
        ],
        "host": [{"server": row.server, "signals": _signals(row.signals)} for row in report.host],
        "other": [
            {
                "server": row.server,
                "family": row.family,
                "kind": row.kind,
                "labels": dict(row.labels),
                "value": _value(row.value),
                "mean": _value(row.mean),
                "text": row.text,
            }
            for row in report.other
        ],
        "warnings": [
            {"source": notice.source, "line": notice.line, "text": notice.text} for notice in report.notices
        ],
    }


def to_json(report: Report) -> str:
    """Strict JSON text; a number that is not finite can not be in it."""
    return json.dumps(to_data(report), allow_nan=False, indent=1)


def _signals(signals: Signals) -> dict[str, Any]:
    return {name: _value(value) for name, value in signals.values.items()}


def _value(value: SignalValue) -> Any:
    if isinstance(value, dict):
        return {key: _value(number) for key, number in value.items()}
    return value if value is not None and math.isfinite(value) else None
