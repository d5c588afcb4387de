"""Two windows of one model, or two models, side by side: the differences that matter first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

import runtime
from history.protocol import Grid
from signals.definition import Level
from signals.definitions import definition
from telemetry.identity import ModelKey
from telemetry.scrape import FloatArray
from telemetry.units import NOT_REPORTED, Unit, human, human_duration
from ui.format import NO_BATCH, clock, formula
from ui.html import Html, div, span, tag
from ui.model_panels import section
from ui.model_rows import model_rows
from ui.view import View

SIGNALS = (
    "requests_per_second", "failed_ratio", "request_us_mean", "request_us_p99", "queue_us_mean",
    "queue_ratio", "compute_input_us_mean", "compute_infer_us_mean", "compute_output_us_mean",
    "batch_size_mean",
    "executions_per_second", "instance_busy_ratio", "pending", "cache_hit_ratio",
)  # fmt: skip
MATTERS = 0.25
"""A difference by this share of the larger value stands on top."""
WINDOW_SECONDS = 300.0
LEAST_WINDOW_SECONDS = 60.0
BEFORE = {"an hour ago": 3600.0, "30 min ago": 1800.0, "10 min ago": 600.0}
EVENT = "before it began"
"""The five minutes before the first finding about the model."""
NOTHING = "choose another model"


@dataclass(frozen=True, slots=True)
class Difference:
    """One signal on both sides, in its unit; None = not reported there."""

    signal: str
    left: float | None
    right: float | None

    @property
    def share(self) -> float:
        """By how much of the larger value the sides differ, 0 where one is not known."""
        if self.left is None or self.right is None:
            return 0.0
        larger = max(abs(self.left), abs(self.right))
        return abs(self.left - self.right) / larger if larger > 0 else 0.0


def controls(view: View) -> None:
    """What to compare with: a time before, or another model. Drawn once per full run."""
    names = list(dict.fromkeys(row.key.name for row in model_rows(view)))
    if not names:
        return
    times = (EVENT, *BEFORE)
    if st.session_state.get("before") not in times:
        st.session_state["before"] = EVENT
    others = (NOTHING, *names)
    if st.session_state.get("with") not in others:
        st.session_state["with"] = NOTHING
    when, which = st.columns([3, 2], vertical_alignment="top")
    end, fixed = _end(view), view.filters.start is not None
    left = f"{clock(end - _left_seconds(view))} to {clock(end)}" if fixed else "the last 5 min"
    when.segmented_control(f"Compare {left} with", times, required=True, key="before")
    which.selectbox("or with another model", others, key="with")


def comparison(view: View, key: ModelKey) -> Html:
    """The section, for what was chosen."""
    other, now = _other(view), _end(view)
    if other is not None and other != key:
        shared = min(_recorded_seconds(view, one, now) for one in (key, other))
        shared = min(shared, _left_seconds(view))
        rows = [
            Difference(
                signal,
                _value(view, key, signal, now, shared),
                _value(view, other, signal, now, shared),
            )
            for signal in SIGNALS
        ]
        return _section(key.label(), other.label(), rows, _window_words(view, now, shared))
    end, window, why = _before(view, key)
    oldest = view.oldest
    if oldest is not None and end < oldest:
        words = f"Nothing was recorded then: the oldest figures are of {clock(oldest)}."
        return section(f"Compare {key.label()}", div(words, class_="ts-faint"))
    before = _recorded_seconds(view, key, end)
    # Neither over time that was not recorded nor over time that is on the other side.
    window = min(window, max(LEAST_WINDOW_SECONDS, now - end), _recorded_seconds(view, key, now))
    rows = [
        Difference(signal, _value(view, key, signal, now, window), _value(view, key, signal, end, before))
        for signal in SIGNALS
    ]
    left = _window_words(view, now, window)
    return _section(left, f"{clock(end - before)} to {clock(end)}", rows, f"{key.label()}{why}")


def _end(view: View) -> float:
    """End of the window on the left, unix seconds: now, or the end of the time the reader fixed."""
    return view.range[1] if view.filters.start is not None else view.now


def _left_seconds(view: View) -> float:
    """Its length: five minutes, of a time that the reader fixed no more than it has."""
    if view.filters.start is None:
        return WINDOW_SECONDS
    return min(WINDOW_SECONDS, max(LEAST_WINDOW_SECONDS, view.shown_seconds))


def _window_words(view: View, end: float, seconds: float) -> str:
    if view.filters.start is None:
        return f"last {human_duration(seconds)}"
    return f"{clock(end - seconds)} to {clock(end)}"


def _other(view: View) -> ModelKey | None:
    name = st.session_state.get("with")
    return next((row.key for row in model_rows(view) if row.key.name == name), None)


def _before(view: View, key: ModelKey) -> tuple[float, float, str]:
    """End of the window to compare with (unix seconds), length of the one on the left, and a remark.

    Before an event that began just now, "now" is only what was since then. Where nothing began it is the time
    before the one the reader fixed; else an hour ago, or the beginning of what was recorded.
    """
    chosen, now, length = st.session_state.get("before"), _end(view), _left_seconds(view)
    if chosen in BEFORE:
        return now - BEFORE[str(chosen)], length, ""
    fixed = view.filters.start is not None
    since = (one.since for one in view.findings_about(key) if one.since is not None)
    began = [at for at in since if not fixed or view.range[0] <= at <= now]
    if began:
        # A finding is seen when its window shows it: what it is about began up to a window before.
        left = min(length, max(LEAST_WINDOW_SECONDS, now - min(began)))
        return min(began) - runtime.current().window_seconds, left, ""
    if fixed:
        return now - length, length, ", with the time just before"
    hour_ago = now - BEFORE["an hour ago"]
    first = hour_ago if view.oldest is None else view.oldest + LEAST_WINDOW_SECONDS
    if first > hour_ago:
        start = min(first, now - LEAST_WINDOW_SECONDS)
        return start, length, ", no finding began: with the first minute recorded"
    return hour_ago, length, ", no finding began: with an hour ago"


def _course(view: View, key: ModelKey, signal: str, grid: Grid) -> tuple[FloatArray, FloatArray]:
    """Times (unix seconds) at which the signal of the model is known, and its values there."""
    frame = runtime.current().signal_range(
        signal,
        grid,
        level=Level.MODEL,
        server=key.server,
        model=key.name,
        version=key.version,
        deadline=view.deadline,
    )
    column = frame.column((key.server, key.name, key.version))
    if column is None:
        return np.empty(0), np.empty(0)
    known = np.isfinite(column)
    return frame.times[known], column[known]


def _recorded_seconds(view: View, key: ModelKey, end: float) -> float:
    """How much of the five minutes before `end` the model was there: else its rates would be less."""
    known, _ = _course(view, key, SIGNALS[0], Grid(end - WINDOW_SECONDS, end, 10.0))
    return max(LEAST_WINDOW_SECONDS, end - float(known[0])) if known.size else WINDOW_SECONDS


def _value(
    view: View, key: ModelKey, signal: str, end: float, window_seconds: float = WINDOW_SECONDS
) -> float | None:
    """The signal of the window that ends there."""
    _, values = _course(view, key, signal, Grid(end, end, window_seconds))
    return float(values[-1]) if values.size else None


def _section(left: str, right: str, rows: list[Difference], note: str) -> Html:
    known = [row for row in rows if row.left is not None or row.right is not None]
    if not known:
        words = "No figure is known of either side: no traffic, or nothing was recorded then."
        return section("Compare", div(words, class_="ts-faint"), note=note)
    known.sort(key=lambda row: (row.share < MATTERS, SIGNALS.index(row.signal)))
    head = [tag("th", "signal"), *(tag("th", one, class_="ts-right") for one in (left, right, "difference"))]
    table = tag(
        "table",
        tag("thead", tag("tr", head)),
        tag("tbody", [_row(row) for row in known]),
        class_="ts-table",
    )
    count = sum(row.share >= MATTERS for row in known)
    words = (
        f"{count} of {len(known)} differ by a quarter or more" if count else "nothing differs by a quarter"
    )
    return section("Compare", div(table, class_="ts-scroll"), note=f"{note}; {words}")


def _row(row: Difference) -> Html:
    row_definition = definition(row.signal, Level.MODEL)
    matters = row.share >= MATTERS
    return tag(
        "tr",
        tag("td", span(row_definition.title, data_tip=formula(row.signal, Level.MODEL))),
        tag("td", _figure(row.signal, row.left), class_="ts-right"),
        tag("td", _figure(row.signal, row.right), class_="ts-right"),
        tag(
            "td",
            tag("b", _words(row)) if matters else span(_words(row), class_="ts-faint"),
            class_="ts-right",
        ),
        data_key=row.signal,
    )


def _figure(signal: str, value: float | None) -> Html:
    tip = NO_BATCH if signal == "batch_size_mean" and value is not None and value < 1 else None
    return span(human(value, definition(signal, Level.MODEL).unit), data_tip=tip)


def _words(row: Difference) -> str:
    if row.left is None or row.right is None:
        return NOT_REPORTED
    if row.left == row.right:
        return "same"
    if row.right == 0:
        return "was 0"
    ratio = row.left / row.right
    if ratio >= 2:
        return f"× {human(ratio, Unit.NONE)}"
    return f"{'+' if ratio > 1 else '−'}{abs(ratio - 1):.0%}".replace("%", " %")
