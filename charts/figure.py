"""From a description to plotly: traces, layout and legend, scaled for the reader.

Placeholders that the plot element fills in the browser: "@name" is a colour of the theme, {"$t": seconds} a
time.
Arrays stay numpy arrays; the element sends them as bytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from charts.spec import Draw, Mark, Spec, Threshold, Trace
from telemetry.units import NOT_REPORTED, Unit, human, scale_for

_HEADROOM = 1.08
_FAR = 3.0
"""A threshold further above the values than this is named in the note instead of flattening them."""
_MARK_CROWD = 0.07
"""Marks closer than this share of the range become one label."""
_HOVER = ",.3~r"
_FEW_BARS = 5
"""Fewer bars than this do not grow broader."""
_WHOLE = frozenset((Unit.REQUESTS, Unit.COUNT))
"""Counted things: an axis of a few has no ticks between whole numbers."""
_FEW = 4.0


@dataclass(frozen=True, slots=True)
class Figure:
    """Ready for the plot element. `unit` names the scale of the left axis, `note` what is off the chart."""

    traces: list[dict[str, Any]]
    layout: dict[str, Any]
    legend: list[dict[str, str]]
    unit: str
    note: str


def figure(spec: Spec) -> Figure:
    """Everything plotly needs to draw `spec`."""
    peak = _peak(spec)
    drawn = [line for line in spec.thresholds if line.keep or line.value <= peak * _FAR]
    top = spec.top if spec.top is not None else max([peak, *(line.value for line in drawn)]) * _HEADROOM
    divisor, unit_name = scale_for(top, spec.unit)
    right = _right_scale(spec)
    traces: list[dict[str, Any]] = []
    for trace in spec.traces:
        scale = right if trace.right else (divisor, unit_name)
        traces += (
            _segments(spec, trace, scale) if spec.stacked and spec.time else [_trace(spec, trace, scale)]
        )
    right_end = (_right_peak(spec) / right[0] * _HEADROOM, right[1]) if spec.right_unit else None
    layout = _layout(spec, top / divisor if top > 0 else 1.0, right_end)
    layout["shapes"] = [_threshold_line(line, divisor) for line in drawn] + [
        _mark_line(m) for m in spec.marks
    ]
    layout["annotations"] = [_threshold_label(line, divisor) for line in drawn] + _mark_labels(spec)
    far = [f"{line.label} is off the chart" for line in spec.thresholds if line not in drawn]
    return Figure(
        traces=traces,
        layout=layout,
        legend=_legend(spec),
        unit=spec.unit_text.format(unit_name).strip(),
        note=" · ".join([spec.note, *far] if spec.note else far),
    )


def plain(text: str) -> str:
    """Text that plotly shows literally: it reads some HTML in names and labels."""
    shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return " ".join(shown.split("\n"))


def _uid(name: str) -> str:
    """What plotly knows a series by across refreshes; it becomes part of a CSS selector."""
    return f"s{hashlib.blake2s(name.encode(), digest_size=6).hexdigest()}"


def _peak(spec: Spec) -> float:
    """Largest value to be drawn on the left axis, base unit; 0 without values."""
    left = [trace.values for trace in spec.traces if not trace.right and len(trace.values)]
    if not left:
        return 0.0
    rows = np.vstack(left)
    rows = np.where(np.isfinite(rows), rows, np.nan)
    if spec.stacked:
        rows = np.nansum(rows, axis=0, keepdims=True)
    return 0.0 if np.isnan(rows).all() else max(0.0, float(np.nanmax(rows)))


def _right_peak(spec: Spec) -> float:
    """Largest value on the right axis, base unit; 0 without values."""
    values = [trace.values[np.isfinite(trace.values)] for trace in spec.traces if trace.right]
    return max((float(finite.max()) for finite in values if finite.size), default=0.0)


def _right_scale(spec: Spec) -> tuple[float, str]:
    return (1.0, "") if spec.right_unit is None else scale_for(_right_peak(spec), spec.right_unit)


def _trace(spec: Spec, trace: Trace, scale: tuple[float, str]) -> dict[str, Any]:
    divisor, unit_name = scale
    values = np.where(np.isfinite(trace.values), trace.values / divisor, np.nan)
    shown: dict[str, Any] = {
        "uid": _uid(trace.name),
        "name": plain(trace.name),
        "legendgroup": trace.name,
        "showlegend": False,
        "x": spec.x if spec.time else list(spec.x),
        "y": values,
        "hovertemplate": f"%{{y:{_HOVER}}} {unit_name}".rstrip(),
    }
    if trace.detail:
        shown |= {"text": [plain(line) for line in trace.detail], "hovertemplate": "%{text}"}
    if trace.right:
        shown["yaxis"] = "y2"
    if trace.draw is Draw.BAR:
        return shown | {"type": "bar", "textposition": "none", "marker": {"color": trace.color}}
    few = np.count_nonzero(np.isfinite(values)) <= 2 or not spec.time
    return shown | {
        "type": "scatter",
        "mode": "lines+markers" if few else "lines",
        "connectgaps": False,
        "line": {"color": trace.color, "width": 1.7, "dash": trace.dash},
        "marker": {"color": trace.color, "size": 6},
        **({"fill": "tozeroy", "fillcolor": _tint(trace.color)} if trace.draw is Draw.AREA else {}),
    }


def _segments(spec: Spec, trace: Trace, scale: tuple[float, str]) -> list[dict[str, Any]]:
    """An area, cut where there is no value: plotly would fill across such a gap.

    In a stack the cut is where no area has a value; a part without a value among others adds nothing.
    """
    whole = _trace(spec, trace, scale)
    stack = [other.values for other in spec.traces if other.draw is Draw.AREA]
    layers = stack if spec.stacked else [trace.values]
    cut = []
    for number, (start, end) in enumerate(_runs(np.isfinite(np.vstack(layers)).any(axis=0))):
        values = whole["y"][start:end]
        part = whole | {
            "uid": _uid(f"{trace.name}#{number}"),
            "x": whole["x"][start:end],
            "y": np.where(np.isnan(values), 0.0, values),
            "mode": "lines" if end - start > 1 else "lines+markers",
        }
        if spec.stacked:
            part |= {
                "stackgroup": f"stack{number}",
                "line": {"color": trace.color, "width": 0.8},
                "fillcolor": _tint(trace.color, "D0"),
            }
            part.pop("fill", None)
        cut.append(part)
    return cut


def _runs(filled: Any) -> list[tuple[int, int]]:
    """[start, end) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], filled, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _tint(color: str, alpha: str = "33") -> str:
    """The colour, see-through; theme colours have a soft twin of their own."""
    return f"{color}{alpha}" if color.startswith("#") else f"{color}_soft"


def _layout(spec: Spec, top: float, right_unit: tuple[float, str] | None) -> dict[str, Any]:
    axis = {"showgrid": False, "zeroline": False, "fixedrange": True, "automargin": True}
    layout: dict[str, Any] = {
        "height": spec.height,
        "margin": {
            "l": 40,
            "r": 44 if right_unit is not None else 10,
            "t": 8,
            "b": 24 if not spec.x_title else 38,
        },
        "hovermode": "x unified" if spec.time else "x",
        "dragmode": "zoom" if spec.time else False,
        "barmode": "stack" if spec.stacked else "group",
        "bargap": 0.25 if spec.time else 1 - 0.75 * min(1.0, len(spec.x) / _FEW_BARS),
        "uirevision": "keep",
        "showlegend": False,
        "yaxis": axis
        | {
            "showgrid": True,
            "range": [0, top],
            "nticks": 5,
            "rangemode": "tozero",
            "separatethousands": True,
        },
    }
    if spec.unit in _WHOLE and top < _FEW:
        layout["yaxis"] |= {"tick0": 0, "dtick": 1}
    if spec.time:
        layout["xaxis"] = axis | {
            "type": "date",
            "fixedrange": False,
            "spikethickness": 1,
            "spikedash": "dot",
            "spikecolor": "@grey",
            "nticks": 7,
            "tickformatstops": [
                {"dtickrange": [None, 59000], "value": "%H:%M:%S"},
                {"dtickrange": [59000, 43_200_000], "value": "%H:%M"},
                {"dtickrange": [43_200_000, None], "value": "%d %b"},
            ],
        }
    else:
        layout["xaxis"] = axis | {
            "type": "category",
            "title": {"text": spec.x_title, "standoff": 6, "font": {"size": 11}},
        }
    if right_unit is not None:
        right = {"overlaying": "y", "side": "right", "tickmode": "auto", "nticks": 5}
        layout["yaxis2"] = axis | right | {"ticksuffix": f" {right_unit[1]}", "range": [0, right_unit[0]]}
    return layout


def _threshold_line(line: Threshold, divisor: float) -> dict[str, Any]:
    at = line.value / divisor
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at, "layer": "above",
        "line": {"color": line.color, "width": 1, "dash": line.dash},
    }  # fmt: skip


def _threshold_label(line: Threshold, divisor: float) -> dict[str, Any]:
    # On the left: on the right stand the newest values and the labels of what has just happened.
    return {
        "xref": "paper", "x": 0, "xanchor": "left", "y": line.value / divisor, "yanchor": "bottom",
        "text": plain(line.label), "showarrow": False, "font": {"size": 10.5, "color": line.color},
        "bgcolor": "@label", "borderpad": 1,
    }  # fmt: skip


def _mark_line(mark: Mark) -> dict[str, Any]:
    at = {"$t": mark.at}
    return {
        "type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": at, "x1": at, "layer": "below",
        "line": {"color": mark.color, "width": 1, "dash": "dot"},
    }  # fmt: skip


def _mark_labels(spec: Spec) -> list[dict[str, Any]]:
    """One label for marks that stand close together; its tooltip lists them all."""
    if not spec.range or not spec.marks:
        return []
    start, end = spec.range
    crowds: list[list[Mark]] = []
    for mark in sorted(spec.marks, key=lambda one: one.at):
        if crowds and mark.at - crowds[-1][0].at < (end - start) * _MARK_CROWD:
            crowds[-1].append(mark)
        else:
            crowds.append([mark])
    labels = []
    for crowd in crowds:
        first = crowd[0]
        word = first.label if len(crowd) == 1 else f"{len(crowd)} events"
        labels.append({
            "x": {"$t": first.at}, "yref": "paper", "y": 1, "yanchor": "top", "showarrow": False,
            "xanchor": "right" if first.at > start + 0.85 * (end - start) else "left",
            "text": plain(word) if spec.label_marks else "•",
            "hovertext": "<br>".join(plain(mark.text) for mark in crowd),
            "font": {"size": 10.5, "color": first.color},
        })  # fmt: skip
    return labels


def _legend(spec: Spec) -> list[dict[str, str]]:
    """Entries sorted by the last value, each with its unit; stacks keep the order they are drawn in."""
    entries = []
    for trace in spec.traces:
        unit = spec.right_unit if trace.right and spec.right_unit is not None else spec.unit
        last = _last_words(trace, unit) if spec.time else ""
        mark = "line" if trace.draw is Draw.LINE and spec.time else "box"
        mark = trace.dash if mark == "line" and trace.dash != "solid" else mark
        entries.append(
            (trace.last, {"name": trace.name, "color": _legend_color(trace), "last": last, "mark": mark})
        )
    if spec.time and not spec.stacked:
        entries.sort(key=lambda entry: -1.0 if entry[0] is None else entry[0], reverse=True)
    return [entry for _, entry in entries]


def _last_words(trace: Trace, unit: Unit) -> str:
    return human(trace.last, unit) if trace.last is not None else NOT_REPORTED


def _legend_color(trace: Trace) -> str:
    tokens = {
        "@red": "var(--st-red-color)",
        "@bar": "var(--st-gray-color)",
        "@grey": "var(--st-gray-color)",
        "@amber": "var(--st-yellow-color)",
    }
    return tokens.get(trace.color, trace.color)
