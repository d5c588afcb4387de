from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from charts.figure import figure, plain
from charts.spec import Draw, Mark, Spec, Threshold, Trace
from telemetry.units import Unit

NAN = float("nan")


def values(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=np.float64)


def spec(*traces: Trace, **changes: object) -> Spec:
    times = np.arange(len(traces[0].values), dtype=np.float64)
    return Spec("A chart", Unit.US, times, traces, **changes)  # type: ignore[arg-type]


def test_values_are_scaled_to_the_unit_of_the_largest() -> None:
    shown = figure(spec(Trace("queue", values(500.0, 1_900_000.0), "#111111"), unit_text="{} per request"))
    assert shown.traces[0]["y"].tolist() == [0.0005, 1.9]
    assert shown.unit == "s per request"
    assert shown.traces[0]["hovertemplate"].endswith(" s")
    assert shown.layout["yaxis"]["range"] == [0, pytest.approx(1.9 * 1.08)]


def test_a_missing_value_and_an_infinite_one_are_gaps_not_zero() -> None:
    trace = figure(spec(Trace("a", values(1.0, NAN, np.inf, 4.0), "#111111"))).traces[0]
    assert np.isnan(trace["y"]).tolist() == [False, True, True, False]
    assert trace["connectgaps"] is False


def test_a_stack_is_cut_where_no_part_has_a_value() -> None:
    queue = Trace("queue", values(1.0, 2.0, NAN, NAN, 5.0, 6.0), "#E8871E", draw=Draw.AREA)
    infer = Trace("infer", values(1.0, NAN, NAN, NAN, 1.0, 1.0), "#2F7FD1", draw=Draw.AREA)
    shown = figure(spec(queue, infer, stacked=True))
    assert [(t["legendgroup"], t["stackgroup"], t["x"].tolist(), t["y"].tolist()) for t in shown.traces] == [
        ("queue", "stack0", [0.0, 1.0], [1.0, 2.0]),
        ("queue", "stack1", [4.0, 5.0], [5.0, 6.0]),
        ("infer", "stack0", [0.0, 1.0], [1.0, 0.0]),
        ("infer", "stack1", [4.0, 5.0], [1.0, 1.0]),
    ]
    assert len({trace["uid"] for trace in shown.traces}) == 4


def test_the_axis_of_a_stack_holds_its_sum() -> None:
    parts = [Trace(name, values(400.0, 500.0), "#111111", draw=Draw.AREA) for name in "ab"]
    assert figure(spec(*parts, stacked=True)).layout["yaxis"]["range"][1] == pytest.approx(1.08)


def test_a_near_threshold_is_a_line_and_a_far_one_is_named_in_the_note() -> None:
    near, far = Threshold(2_000.0, "delay 2 ms"), Threshold(1e6, "limit 1 s")
    shown = figure(spec(Trace("queue", values(1_500.0), "#111111"), thresholds=(near, far), note="noted"))
    assert [line["y0"] for line in shown.layout["shapes"]] == [2.0]
    assert shown.layout["annotations"][0]["text"] == "delay 2 ms"
    assert shown.note == "noted · limit 1 s is off the chart"


def test_a_kept_threshold_stretches_the_axis() -> None:
    shown = figure(
        spec(Trace("batch", values(1.0), "#111111"), thresholds=(Threshold(32.0, "max 32", keep=True),))
    )
    assert shown.layout["yaxis"]["range"][1] == pytest.approx(32 * 1.08)


def test_marks_are_lines_and_a_crowd_of_them_has_one_label() -> None:
    marks = (
        Mark(10.0, "unload", "a was unloaded"),
        Mark(11.0, "load", "a was loaded"),
        Mark(90.0, "reset", "a <b>"),
    )
    shown = figure(
        spec(Trace("a", values(1.0, 2.0), "#111111"), marks=marks, range=(0.0, 100.0), label_marks=True)
    )
    assert [line["x0"] for line in shown.layout["shapes"]] == [{"$t": 10.0}, {"$t": 11.0}, {"$t": 90.0}]
    assert [(one["text"], one["hovertext"], one["xanchor"]) for one in shown.layout["annotations"]] == [
        ("2 events", "a was unloaded<br>a was loaded", "left"),
        ("reset", "a &lt;b&gt;", "right"),
    ]


def test_the_legend_is_sorted_by_the_last_value_and_names_the_unit() -> None:
    traces = [
        Trace("small", values(9e6, 500.0), "#111111"),
        Trace("gone", values(1.0, NAN), "#222222", dash="dot"),
        Trace("large", values(1.0, 2_500.0), "@red", draw=Draw.AREA),
    ]
    legend = figure(spec(*traces)).legend
    assert [(one["name"], one["last"], one["mark"]) for one in legend] == [
        ("large", "2.5 ms", "box"),
        ("small", "500 µs", "line"),
        ("gone", "–", "dot"),
    ]
    assert legend[0]["color"] == "var(--st-red-color)"


def test_names_are_shown_literally() -> None:
    trace = figure(spec(Trace("<b>x</b>", values(1.0), "#111111"))).traces[0]
    assert trace["name"] == "&lt;b&gt;x&lt;/b&gt;"
    assert trace["legendgroup"] == "<b>x</b>"
    assert trace["uid"].isalnum()
    assert plain("a\nb & c") == "a b &amp; c"


def test_a_histogram_has_categories_and_its_own_scale_on_the_right() -> None:
    bars = Trace("executions", values(3.0, 9.0), "@bar", draw=Draw.BAR, detail=("3 (25 %)", "9 (75 %)"))
    cost = Trace("time per inference", values(9_000.0, 2_000.0), "#2F7FD1", right=True)
    shown = figure(
        Spec("Sizes", Unit.COUNT, ("1", "8"), (bars, cost), right_unit=Unit.US, x_title="batch size")
    )
    assert shown.traces[0]["x"] == ["1", "8"]
    assert shown.traces[0]["text"] == ["3 (25 %)", "9 (75 %)"]
    assert shown.traces[1]["y"].tolist() == [9.0, 2.0]
    assert shown.traces[1]["yaxis"] == "y2"
    assert shown.layout["yaxis2"]["ticksuffix"] == " ms"
    assert shown.layout["yaxis2"]["range"][1] == pytest.approx(9 * 1.08)
    assert shown.layout["xaxis"]["type"] == "category"


def test_nothing_to_draw_says_why() -> None:
    empty = spec(Trace("a", values(NAN, NAN), "#111111")).or_empty("No request finished.")
    assert empty.empty == "No request finished."
    assert spec(Trace("a", values(NAN, 1.0), "#111111")).or_empty("No request finished.").empty == ""


def test_a_legend_says_what_the_headline_says_where_it_is_known() -> None:
    drawn = spec(Trace("busy", values(0.4, 0.81), "#111111"), Trace("idle", values(0.1, 0.2), "#222222"))
    legend = figure(replace(drawn, unit=Unit.RATIO).at_now({"busy": 0.15, "idle": None})).legend
    assert [(one["name"], one["last"]) for one in legend] == [("idle", "20 %"), ("busy", "15 %")]


def test_few_counted_things_have_no_ticks_between_whole_numbers() -> None:
    few, many = (
        figure(replace(spec(Trace("pending", values(value), "#111111")), unit=Unit.REQUESTS)).layout["yaxis"]
        for value in (2.0, 40.0)
    )
    assert few["dtick"] == 1 and "dtick" not in many
