"""The whole budget of a device: filled with what is measured, and open to editing."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from signals.capacity import (
    HEADROOM_RATIO,
    PRECISION_BYTES,
    RESERVE_BYTES,
    Budget,
    Line,
    Need,
    weight_bytes,
)
from signals.memory import DeviceMemory
from telemetry.memory import CPU
from telemetry.units import Unit, human
from ui.capacity import MIB, reserves, verdict
from ui.format import counted
from ui.html import Html, div, tag
from ui.panel import panel
from ui.view import View

Row = dict[str, object]
MODEL, PARAMETERS, PRECISION = "model", "parameters, million", "precision"
SIZE, COUNT, PEAK, SOURCE = "MiB an instance", "instances", "batch peak %", "source"
EMPTY_ROW: Row = dict.fromkeys((MODEL, SIZE, COUNT, PEAK, PARAMETERS, PRECISION, SOURCE))
_BASE = "budget_base"
_HOW = (
    "A row counts with its MiB an instance, else with parameters × bytes of the precision. Batch peak: what "
    "a full batch takes on top."
)


def budget_form(device: DeviceMemory, view: View) -> None:
    """Total, what is not the models', and the models; below it whether it all goes in."""
    name = device.device
    # What is measured moves all the time; what somebody edits must not be lost to that.
    base = st.session_state.get(_BASE)
    anew = st.button("Fill in what is measured now", key="budget_anew")
    if base is None or base["device"] != (device.server, name) or anew:
        base = {
            "device": (device.server, name),
            "rows": budget_rows(device, view) or [EMPTY_ROW],
            "numbers": [device.total_bytes or 0.0, reserve_bytes(device), others_bytes(device)],
            "edition": (base["edition"] + 1) if base is not None else 0,
        }
        st.session_state[_BASE] = base
    edition = base["edition"]
    labels = ("Total, MiB", "Kept by the framework, MiB", "Other use, MiB")
    fields = zip(st.columns(3), labels, base["numbers"], strict=True)
    numbers = [
        column.number_input(label, 0.0, value=round(size / MIB, 1), key=f"budget_{place}_{edition}")
        for place, (column, label, size) in enumerate(fields)
    ]
    edited = st.data_editor(
        base["rows"],
        num_rows="dynamic",
        disabled=[SOURCE],
        hide_index=True,
        key=f"budget_rows_{edition}",
        column_config={
            PARAMETERS: st.column_config.NumberColumn(min_value=0.0),
            PRECISION: st.column_config.SelectboxColumn(options=list(PRECISION_BYTES)),
            SIZE: st.column_config.NumberColumn(min_value=0.0),
            COUNT: st.column_config.NumberColumn(min_value=0, step=1),
            PEAK: st.column_config.NumberColumn(min_value=0.0),
        },
    )
    total, reserve, others = (number * MIB for number in numbers)
    panel(budget_verdict(budget(edited, total, reserve, others), device), key="budget")


def budget_rows(device: DeviceMemory, view: View) -> list[Row]:
    """The budget as it is measured: MiB of one instance, instances, batch peak in percent."""
    found: list[Row] = []
    for holding in device.models:
        figure, count = holding.shown, holding.instances or 1
        reservation = reserves(view.facts(holding.key))
        peak = 0.0 if reservation else (2 if figure.lower_bound else 1) * HEADROOM_RATIO
        source = f"{figure.source.value}, {figure.confidence.value} confidence"
        found.append(
            EMPTY_ROW
            | {
                MODEL: holding.key.label() + (" (reservation)" if reservation else ""),
                SIZE: round(figure.bytes / count / MIB, 1),
                COUNT: count,
                PEAK: round(100 * peak),
                SOURCE: f"≥ {source}" if figure.lower_bound else source,
            }
        )
    return found


def budget(rows: Sequence[Row], total_bytes: float, reserve: float, others: float = 0.0) -> Budget:
    """The edited rows as a budget; rows without a size or instances count as nothing."""
    lines = []
    for row in rows:
        size, count = _size_bytes(row), _number(row.get(COUNT))
        low = size * count
        if low > 0:
            need = Need(low, low * (1 + _number(row.get(PEAK)) / 100), "")
            lines.append(Line(str(row.get(MODEL) or "unnamed"), int(count), need))
    return Budget(total_bytes, reserve, tuple(lines), others)


def _size_bytes(row: Row) -> float:
    """One instance: as it stands there, else its weights."""
    size, precision = _number(row.get(SIZE)), str(row.get(PRECISION))
    if size or precision not in PRECISION_BYTES:
        return size * MIB
    return weight_bytes(_number(row.get(PARAMETERS)) * 1e6, precision)


def _number(value: object) -> float:
    """A cell of the table: empty and NaN count as nothing."""
    return max(0.0, float(value)) if isinstance(value, int | float) and value == value else 0.0


def reserve_bytes(device: DeviceMemory) -> float:
    """What the framework and the driver keep of a card; nothing of the machine's own memory."""
    return 0.0 if device.device == CPU else RESERVE_BYTES + device.reserved_bytes


def others_bytes(device: DeviceMemory) -> float:
    """What is in use now beyond the models and what the framework keeps: other programs, what is nobody's."""
    if device.used_bytes is None:
        return 0.0
    models = device.measured_bytes + device.estimated_bytes
    kept = 0.0 if device.device == CPU else RESERVE_BYTES
    return max(0.0, device.used_bytes - models - kept)


def budget_verdict(made: Budget, device: DeviceMemory) -> Html:
    """Do all models go in together?"""
    on_card = device.device != CPU
    lines = [
        ("total", made.total_bytes, ""),
        (
            "framework",
            made.reserve_bytes,
            "contexts and pools: 300 to 500 MB of a card, more on large ones" if on_card else "",
        ),
        (
            "other use",
            made.others_bytes,
            "other programs, and what is in use and nobody's"
            + ("; of models whose figures are lower bounds a part is in it" if device.at_least else ""),
        ),
        ("available", made.available_bytes, "total - framework - other use"),
    ]
    table = [
        tag("tr", tag("td", name), tag("td", human(size, Unit.BYTES)), tag("td", words, class_="ts-faint"))
        for name, size, words in lines
    ]
    return div(
        verdict(made.answer, None, title=f"{counted(len(made.lines), 'model')} together"),
        tag("table", table, class_="ts-facts"),
        div(_HOW, class_="ts-faint"),
    )
