"""The live chart: a plotly figure redrawn in place, with its numbers sent as arrays of bytes.

The only way for charts that refresh: `st.plotly_chart` mounts a new chart each time, which loses zoom and
legend choice and sends ten times the bytes.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import streamlit as st

from charts.figure import figure as figure_of
from charts.spec import Spec
from ui import incident, remote_history
from ui.assets import WAIT

_plot = st.components.v2.component("tritonscope_plot", js=WAIT % "plot", isolate_styles=False)
_ALIGNMENT = 8
_FLOAT32_MAX = float(np.finfo(np.float32).max)


def figure(spec: Spec, key: str, group: str = "page") -> None:
    """Draw `spec`. `key` is unique on the page and the same at every refresh.

    Zoom, legend choice and the cursor are kept and shared by the charts of one `group`.
    """
    _plot(key=key, data=encode(incident.badged(remote_history.honest(spec)), group, script_address()))


def script_address() -> str:
    """Where the browser finds plotly's script, below the address the app is served at."""
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}/plotly.min.js" if base else "/plotly.min.js"


def encode(spec: Spec, group: str, script: str) -> bytes:
    """A chart as bytes: uint32 header length, JSON header, padding to 8, arrays.

    Times are float64, other arrays float32; the header names them as {"$f8" or "$f4": [byte offset, length]}.
    """
    shown = figure_of(spec)
    arrays = _Arrays()
    header = {
        "title": spec.title,
        "unit": shown.unit,
        "note": shown.note,
        "help": spec.help,
        "badge": spec.badge,
        "empty": spec.empty,
        "height": spec.height,
        "time": spec.time,
        "range": list(spec.range) if spec.range else [0, 0],
        "group": group,
        "script": script,
        "legend": shown.legend,
        "layout": shown.layout,
        "traces": [] if spec.empty else [arrays.moved(trace) for trace in shown.traces],
    }
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    start = 4 + len(text)
    padding = b"\0" * (-start % _ALIGNMENT)
    return b"".join((struct.pack("<I", len(text)), text, padding, *arrays.parts))


class _Arrays:
    """Arrays taken out of the header, each once, at offsets that are multiples of eight."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._offset = 0
        self._places: dict[tuple[str, bytes], dict[str, list[int]]] = {}

    def moved(self, trace: dict[str, Any]) -> dict[str, Any]:
        """The trace with its arrays replaced by their places."""
        return {
            key: self._place(value, key == "x") if isinstance(value, np.ndarray) else value
            for key, value in trace.items()
        }

    def _place(self, values: np.ndarray, exact: bool) -> dict[str, list[int]]:
        exact = exact or bool((np.abs(values) > _FLOAT32_MAX).any())
        kind = "$f8" if exact else "$f4"
        data = np.ascontiguousarray(values, dtype="<f8" if exact else "<f4").tobytes()
        if (kind, data) not in self._places:
            self._places[kind, data] = {kind: [self._offset, len(values)]}
            data_padded = data + b"\0" * (-len(data) % _ALIGNMENT)
            self.parts.append(data_padded)
            self._offset += len(data_padded)
        return self._places[kind, data]
