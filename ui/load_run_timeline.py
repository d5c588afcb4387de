"""The first requests of serial and concurrent on one time axis: who waits for whom, and who is done first."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.measure import Measurement
from telemetry.units import Unit, human
from ui.html import Html, div, span, tag

_SHOWN_SERIAL = 24
"""So many serial requests fill the axis."""
_MAX_LANES = 16
_WIDTH, _LANE, _GAP = 1000.0, 7.0, 2.0

Span = tuple[float, float]


def timeline(serial: Measurement, concurrent: Measurement) -> Html:
    """Both halves as bars, one lane for each request under way at the same time."""
    if not serial.clients.spans or not concurrent.clients.spans:
        return div("No request succeeded in one half: there is no timeline.", class_="ts-faint")
    first = serial.clients.spans[:_SHOWN_SERIAL]
    end = max(span_end for _, span_end in first)
    return div(
        div("The first ", human(end, Unit.SECONDS), " of both halves", class_="ts-h"),
        _half("serial", first, end, "var(--st-gray-color)"),
        _half(
            f"{concurrent.clients.concurrency} at a time", concurrent.clients.spans, end, "var(--infer)"
        ),
        div(
            "Each bar is one request, from its sending to its answer; bars in one column ran at the same "
            "time.", class_="ts-faint", style="font-size:.86rem",
        ),
    )  # fmt: skip


def _half(title: str, spans: Sequence[Span], end: float, color: str) -> Html:
    shown = [one for one in spans if one[0] < end]
    lanes = _lanes(shown)
    height = max(1, len(lanes)) * (_LANE + _GAP)
    answered = sum(1 for _, done in spans if done <= end)
    bars = [
        tag(
            "rect", x=f"{begin / end * _WIDTH:.1f}", y=f"{at * (_LANE + _GAP):.0f}", height=f"{_LANE:.0f}",
            width=f"{max(1.0, (min(done, end) - begin) / end * _WIDTH - 1.5):.1f}", rx="1.5", fill=color,
        )
        for at, lane in enumerate(lanes) for begin, done in lane
    ]  # fmt: skip
    drawing = tag(
        "svg", bars, viewBox=f"0 0 {_WIDTH:.0f} {height:.0f}", preserveAspectRatio="none", role="img",
        aria_label=f"{title}: {answered} requests answered",
        style=f"display:block;width:100%;height:{height:.0f}px",
    )  # fmt: skip
    words = span(f"{answered} requests answered", class_="ts-faint")
    return div(
        div(tag("b", title), " ", words, style="font-size:.9rem;margin:.35rem 0 .2rem"), drawing,
    )  # fmt: skip


def _lanes(spans: Sequence[Span]) -> list[list[Span]]:
    """Requests in the fewest lanes in which none overlap, the earliest first; at most so many lanes."""
    lanes: list[list[Span]] = []
    for one in sorted(spans):
        free = next((lane for lane in lanes if lane[-1][1] <= one[0]), None)
        if free is not None:
            free.append(one)
        elif len(lanes) < _MAX_LANES:
            lanes.append([one])
    return lanes
