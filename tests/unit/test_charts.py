from __future__ import annotations

import numpy as np
import pytest

from charts import gpu, model
from charts.family import family, series_name
from charts.frames import ranked, single, unique_names
from charts.palette import INFER, INPUT, OUTPUT, QUEUE, ModelColors, model_color, model_dash
from charts.sparkline import HEIGHT, sparkline
from history.protocol import Frame
from telemetry.units import Unit

TIMES = np.array([100.0, 110.0, 120.0])
RANGE = (100.0, 120.0)
NAN = float("nan")
NOTHING = Frame(TIMES, (), np.empty((3, 0)))


def frame(**columns: tuple[float, float, float]) -> Frame:
    keys = tuple(("s", name, "1") for name in columns)
    return Frame(TIMES, keys, np.column_stack(list(columns.values())))


def test_the_latency_budget_stacks_the_four_parts_in_their_colours() -> None:
    one = {"queue": 1_900_000.0, "input": 100.0, "infer": 40_000.0, "output": 50.0}
    frames = [frame(m=(us, us, NAN)) for us in one.values()]
    spec = model.latency_budget(*frames, range_=RANGE, max_queue_delay_us=2_000)
    assert [(t.name, t.color, t.values.tolist()[:2]) for t in spec.traces] == [
        ("queue", QUEUE, [1_900_000.0, 1_900_000.0]),
        ("input", INPUT, [100.0, 100.0]),
        ("infer", INFER, [40_000.0, 40_000.0]),
        ("output", OUTPUT, [50.0, 50.0]),
    ]
    assert spec.stacked
    assert [(line.value, line.label) for line in spec.thresholds] == [(2_000.0, "max_queue_delay 2 ms")]
    assert spec.traces[0].last is None


def test_a_model_without_requests_has_no_budget_but_a_reason() -> None:
    spec = model.latency_budget(NOTHING, NOTHING, NOTHING, NOTHING, range_=RANGE)
    assert spec.empty.startswith("No request finished")
    assert spec.thresholds == ()


def test_throughput_shows_failures_beside_answers_and_what_is_not_counted() -> None:
    spec = model.throughput("m", frame(m=(3.0, 4.0, 5.0)), frame(m=(0.0, 0.0, 0.5)), range_=RANGE)
    assert [(t.name, t.last) for t in spec.traces] == [("answered", 5.0), ("failed", 0.5)]
    assert spec.traces[0].color == model_color("m")
    assert "refused for a full queue" in spec.help


def test_the_batch_chart_has_max_and_preferred_lines_once() -> None:
    spec = model.batch_size("m", frame(m=(1.0, 2.0, 4.0)), range_=RANGE, max_batch_size=8, preferred=(4, 8))
    assert [(line.value, line.label, line.keep) for line in spec.thresholds] == [
        (4.0, "preferred 4", False),
        (8.0, "max 8", True),
    ]


def test_a_model_without_batches_has_no_max_line() -> None:
    assert model.batch_size("m", frame(m=(1.0, 1.0, 1.0)), range_=RANGE, max_batch_size=0).thresholds == ()


def test_pending_says_when_the_server_does_not_report_it() -> None:
    spec = model.pending("m", NOTHING, range_=RANGE, max_queue_size=64)
    assert "not reported" in spec.empty
    assert [line.value for line in spec.thresholds] == [64.0]


def test_the_histogram_sorts_sizes_as_numbers_and_divides_the_time_by_the_size() -> None:
    spec = model.batch_histogram(
        {"16": 30.2, "2": 9.8, "1": 0.0},
        {"2": 4_000.0, "16": 8_000.0},
        window="last 5 min",
        max_batch_size=16,
    )
    assert spec.x == ("2", "16")
    executions, cost = spec.traces
    assert executions.values.tolist() == [10.0, 30.0]
    assert executions.detail == ("10 executions (25 %)", "30 executions (75 %)")
    assert cost.values.tolist() == [2_000.0, 500.0]
    assert spec.x_title == "batch size, last 5 min · max_batch_size 16"


def test_an_unused_model_has_an_empty_histogram_with_a_reason() -> None:
    assert model.batch_histogram({}, None, window="now", max_batch_size=None).empty.startswith("No execution")


def test_quantiles_that_no_server_reports_name_the_switch() -> None:
    spec = model.quantiles({"p50": NOTHING, "p99": NOTHING}, range_=RANGE)
    assert "--metrics-config summary_latencies=true" in spec.empty


def test_gpu_memory_is_the_models_and_an_unattributed_rest() -> None:
    used = Frame(TIMES, (("s", "GPU-a"),), np.array([[10.0], [10.0], [NAN]]))
    by_model = Frame(TIMES, (("s", "m", "1"),), np.array([[NAN], [4.0], [4.0]]))
    spec = gpu.memory(used, by_model, 24.0, {("s", "m", "1"): "m v1"}, range_=RANGE, title="Memory GPU 0")
    models, rest = spec.traces
    assert (models.name, models.color) == ("m v1", model_color("m"))
    assert rest.name == "unattributed"
    assert rest.values.tolist()[:2] == [10.0, 6.0]
    assert np.isnan(rest.values[2])
    assert [(line.value, line.keep) for line in spec.thresholds] == [(24.0, True)]


def test_models_that_report_more_than_is_used_leave_no_negative_rest() -> None:
    used = Frame(TIMES, (("s", "GPU-a"),), np.array([[3.0]] * 3))
    by_model = Frame(TIMES, (("s", "m", "1"),), np.array([[4.0]] * 3))
    spec = gpu.memory(used, by_model, None, {("s", "m", "1"): "m v1"}, range_=RANGE, title="t")
    assert spec.traces[0].values.tolist() == [4.0, 4.0, 4.0]
    assert spec.traces[1].values.tolist() == [0.0, 0.0, 0.0]


def test_gpus_that_report_nothing_are_not_idle() -> None:
    empty = Frame(TIMES, (), np.empty((3, 0)))
    assert gpu.utilization(empty, {}, range_=RANGE).empty == "GPU utilization is not reported."


@pytest.mark.parametrize(("additive", "rest"), [(True, [3.0, 3.0]), (False, [2.0, 2.0])])
def test_of_more_than_eight_series_seven_stay_and_the_rest_is_one(additive: bool, rest: list[float]) -> None:
    keys = tuple(("s", f"m{number}", "1") for number in range(9))
    values = np.array([[float(number + 1) for number in range(9)]] * 2)
    traces = ranked(
        Frame(TIMES[:2], keys, values), lambda key: key[1], lambda key: "#111111", additive=additive
    )
    assert [trace.name for trace in traces] == ["m8", "m7", "m6", "m5", "m4", "m3", "m2", "others (2)"]
    assert traces[-1].values.tolist() == rest


def test_what_hurts_stays_whatever_its_value() -> None:
    keys = tuple(("s", f"m{number}", "1") for number in range(9))
    values = np.array([[float(number) for number in range(9)]])
    traces = ranked(
        Frame(TIMES[:1], keys, values), lambda key: key[1], lambda key: "#111111",
        harm=lambda key: 1.0 if key[1] == "m0" else 0.0,
    )  # fmt: skip
    assert traces[0].name == "m0"


def test_the_rest_has_no_value_where_none_of_it_has_one() -> None:
    keys = tuple(("s", f"m{number}", "1") for number in range(9))
    values = np.array([[9.0] * 7 + [NAN, NAN], [9.0] * 7 + [1.0, NAN]])
    rest = ranked(Frame(TIMES[:2], keys, values), lambda key: key[1], lambda key: "#111111")[-1]
    assert np.isnan(rest.values[0])
    assert rest.values[1] == 1.0


def test_one_series_is_taken_and_several_are_refused() -> None:
    assert single(frame(m=(1.0, 2.0, 3.0))).tolist() == [1.0, 2.0, 3.0]
    assert np.isnan(single(NOTHING)).all()
    with pytest.raises(ValueError, match="got 2"):
        single(frame(m=(1.0, 2.0, 3.0), n=(1.0, 2.0, 3.0)))


def test_names_that_come_twice_are_told_apart() -> None:
    assert unique_names(["a", "b", "a"]) == ["a", "b", "a (2)"]


def test_a_models_colour_depends_on_its_name_alone() -> None:
    # Printed once and kept: another colour after an update would break what people have learned.
    colors = ModelColors()
    assert colors.color("resnet18") == "#7B61D1"
    colors.know(["resnet18", "bert_qa"])
    assert (colors.color("resnet18"), colors.dash("resnet18")) == ("#7B61D1", "solid")
    styles = {(model_color(f"model_{n}"), model_dash(f"model_{n}")) for n in range(200)}
    assert len(styles) == 36


def test_no_two_models_that_exist_together_share_a_colour() -> None:
    # Asked of the name alone, these three have one.
    clashing = ["short_queue", "batch_add_model", "flaky"]
    assert len({ModelColors().color(name) for name in clashing}) == 1
    colors, later = ModelColors(), ModelColors()
    colors.know(clashing)
    assert len({colors.color(name) for name in clashing}) == 3
    assert colors.color("batch_add_model") == ModelColors().color("batch_add_model")
    kept = colors.color("flaky")
    colors.know(["a new one", *clashing])
    assert colors.color("flaky") == kept, "it stays when another model comes"
    later.know(reversed(clashing))
    assert [later.color(name) for name in clashing] == [colors.color(name) for name in clashing]


def test_more_models_than_colours_are_told_apart_by_their_style() -> None:
    colors = ModelColors()
    names = [f"model_{n}" for n in range(36)]
    colors.know(names)
    assert len({colors.color(name) for name in names[:12]} | {colors.color(n) for n in names}) == 12
    assert len({(colors.color(name), colors.dash(name)) for name in names}) == 36
    colors.MOST = 40
    colors.know(f"other_{n}" for n in range(100))
    assert sum(f"other_{n}" in colors._places for n in range(100)) == 4


def test_a_family_names_its_series_by_the_labels_that_are_set() -> None:
    assert series_name(("model", "version", "reason"), ("m", "1", "")) == "model=m, version=1"
    assert series_name((), ()) == "value"
    one = Frame(TIMES, (("m",),), np.array([[1.0]] * 3))
    spec = family(one, ("model",), title="f", unit=Unit.BYTES, rate=False, range_=RANGE)
    assert [(t.name, t.color, t.last) for t in spec.traces] == [("model=m", model_color("m"), 1.0)]


def test_a_sparkline_ends_at_its_scale_and_has_gaps() -> None:
    line, area = sparkline(np.array([0.0, 1.0, NAN, 1.0]), top=1.0)
    assert line == f"M0.0,{HEIGHT - 1:.1f}L33.3,2.0M100.0,2.0L100.0,2.0"
    assert area.count("Z") == 2
    assert sparkline(np.array([NAN, NAN])) == ("", "")


def test_a_sparkline_of_many_points_is_thinned_by_averages() -> None:
    line, _ = sparkline(np.full(960, 5.0))
    assert line.count(",") == 48


def test_series_of_one_colour_differ_in_their_line() -> None:
    traces = ranked(
        frame(a=(3.0, 3.0, 3.0), b=(2.0, 2.0, 2.0), c=(1.0, 1.0, 1.0)),
        lambda key: key[1],
        lambda key: "#111111" if key[1] != "b" else "#222222",
        dash=lambda key: "dot",
    )
    assert [(trace.name, trace.dash) for trace in traces] == [("a", "solid"), ("b", "solid"), ("c", "dot")]
