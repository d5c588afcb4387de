"""The page Load runs: four kinds, one run per server, the result and the runs of before."""

from __future__ import annotations

import re
import threading
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Button

import runtime
from control.performer import Course
from control.restoration import PendingRestoration, Restoration
from control.server_split import ModelSplit
from experiments.figures import CoursePoint, LoadFigures
from experiments.load_process import LoadProgress
from experiments.measure import Measurement
from experiments.plan import LoadPlan
from experiments.report import RunKind, RunProgress, RunReport
from experiments.server_side import GpuUse, ServerSide
from telemetry.actions import ActionKind, Conclusion, Outcome
from tests.pages.write_side import NotingControl, install, open_page, panel
from ui import load_runs


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has its own store, in memory."""
    kept = load_runs.RunStore(None)
    monkeypatch.setattr(load_runs, "store", lambda: kept)


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()


def opened(run: str, model: str = "fast_add") -> AppTest:
    page = open_page("load_runs", model=model, version="1", run=run)
    assert not page.exception
    return page


def button(page: AppTest, label: str) -> Button:
    (found,) = [one for one in page.button if one.label == label]
    return found


def press(page: AppTest, label: str) -> None:
    button(page, label).click()
    page.run()
    assert not page.exception


def charts(page: AppTest) -> dict[str, bytes]:
    found = {str(one.proto.id).split("-")[-1]: one.proto.bytes for one in page.get("bidi_component")}
    return {key: data for key, data in found.items() if data}


def measured(label: str, concurrency: int, rate: float, batch: int = 1, failed: int = 0) -> Measurement:
    wait_us = concurrency / rate * 1e6
    clients = LoadFigures(
        concurrency=concurrency, succeeded=160, errors={"Queue full": failed} if failed else {},
        seconds=160 / rate, mean_us=wait_us, p50_us=wait_us, p90_us=wait_us, p95_us=wait_us,
        p99_us=wait_us * 2, max_us=wait_us * 3, service_p99_us=wait_us,
        course=tuple(CoursePoint(at / 4, rate, 0.0, wait_us, wait_us) for at in range(4)),
        spans=tuple((at * 0.01, at * 0.01 + 0.01) for at in range(20)),
    )  # fmt: skip
    split = ModelSplit(
        "fast_add", "1", 160, 0, 160 // batch, 160, 900.0, 500.0, 10.0, 300.0, 40.0, {batch: 160 // batch}
    )
    gpus = (GpuUse("GPU-1", 0.91, 2.0**30, None),)
    server = ServerSide((split,), {"fast_add": 0.75}, {}, gpus)
    plan = LoadPlan(concurrency=concurrency, seconds=None, requests=160)
    return Measurement(label, "fast_add", plan, clients, server, 1.8e9)


def report(kind: RunKind, *measurements: Measurement, **fields: object) -> RunReport:
    given: dict[str, object] = {
        "id": "20261130-120000-abcdef", "kind": kind, "at": 1.8e9, "server": "lab", "model": "fast_add",
        "version": "1", "who": "local", "sentence": "fast_add: what was found",
        "measurements": measurements, "notes": ("A note to read.",),
    }  # fmt: skip
    return RunReport(**given | fields)  # type: ignore[arg-type]


def answers(control: NotingControl, found: RunReport) -> None:
    control.answers = lambda course: Conclusion(Outcome.DONE, found.sentence, result=found)


def test_serial_against_concurrent_shows_both_halves_the_timeline_and_the_batch_sizes() -> None:
    control = install()
    answers(
        control,
        report(RunKind.SERIAL, measured("serial", 1, 100.0), measured("concurrent", 16, 800.0, batch=16)),
    )
    page = opened("serial")
    press(page, "Run serial against concurrent")
    (action,) = control.performed
    assert action.kind is ActionKind.LOAD_RUN
    assert action.parameters == {
        "run": "serial against concurrent", "load": "200 requests one after another, then 16 at a time"
    }  # fmt: skip
    assert words(panel(page, "load_run")).startswith("DONE fast_add: what was found")
    assert "A note to read." in panel(page, "load_run")
    shown = words(panel(page, "load_run_table"))
    for line in (
        "serial concurrent, 16 at a time",
        "requests answered 160 160",
        "total time 1.6 s 200 ms",
        "throughput 100 /s 800 /s",
        "concurrency / response time 100 /s 800 /s",
        "mean latency 10 ms 20 ms",
        "executions 160 10",
        "rows per execution 1 16",
        "instances busy 75 % 75 %",
        "GPU utilization 91 % 91 %",
        "of others 0 0",
    ):
        assert line in shown
    drawing = panel(page, "load_run_timeline")
    assert drawing.count("<rect") == 2 * 20
    assert "16 at a time: 20 requests answered" in drawing
    assert b"Batch sizes that formed, fast_add" in charts(page)["load_run_sizes"]


def test_an_open_loop_shows_the_p99_from_the_sending_beside_the_one_that_counts() -> None:
    install()
    one = measured("", 64, 100.0)
    late = replace(one.clients, open_loop=True, service_p99_us=20_000.0, p99_us=1_500_000.0)
    kept = report(RunKind.LOAD, replace(one, clients=late))
    load_runs.store().save(kept)
    page = opened("load")
    page.multiselect[0].set_value([kept.id])
    page.run()
    shown = words(panel(page, "load_run_table"))
    assert "p99 1.5 s" in shown and "p99 from the sending 20 ms" in shown
    assert "concurrency / response time –" in shown


def test_a_sweep_marks_the_knee_and_what_the_objective_allows() -> None:
    control = install()
    steps = [measured(f"{at} at a time", at, rate) for at, rate in ((1, 100.0), (4, 350.0), (16, 410.0))]
    answers(control, report(RunKind.SWEEP, *steps, max_p99_us=40_000.0))
    page = opened("sweep")
    press(page, "Run the sweep")
    rows = re.findall(r"<tr>.*?</tr>", panel(page, "load_run_table"))
    assert "knee most at p99 ≤ 40 ms" in words(rows[2])
    assert words(rows[1]).startswith("1 100 /s 100 /s 10 ms")
    assert b"knee: 4 at a time" in charts(page)["load_run_rate"]
    assert b"objective 40 ms" in charts(page)["load_run_wait"]


def test_a_comparison_has_the_table_of_throughput_latency_and_gpu() -> None:
    control = install()
    arms = measured("batching off", 16, 100.0), measured("batching on", 16, 800.0, batch=16, failed=3)
    settings = {"batching off": "dynamic batching off, 1 instance"}
    answers(control, report(RunKind.COMPARISON, *arms, settings=settings))
    page = opened("compare")
    # This server is not the sandbox: a person must say that its configuration may change.
    assert button(page, "Compare configurations").disabled
    (sure,) = page.checkbox
    assert sure.label.startswith(
        "Change the configuration of fast_add on lab for the time of the comparison."
    )
    sure.check()
    page.run()
    press(page, "Compare configurations")
    head, off, on = re.findall(r"<tr>.*?</tr>", panel(page, "load_run_table"))
    assert words(head).startswith("configuration throughput mean latency p99 GPU utilization")
    assert words(off) == (
        "batching off dynamic batching off, 1 instance 100 /s 160 ms 320 ms 91 % 75 % 1 160 0"
    )
    assert words(on) == "batching on 800 /s 20 ms 40 ms 91 % 75 % 16 160 3 (1.84 %)"
    assert b"Throughput by configuration" in charts(page)["load_run_rate"]


def test_a_run_under_way_shows_its_course_to_everybody_and_can_be_stopped() -> None:
    control = install()
    go, inside = threading.Event(), threading.Event()

    def slow(course: Course) -> Conclusion:
        points = tuple(
            LoadProgress("measure", at * 20, 0, at * 0.2, 16, 20, 0, 9000.0, 21_000.0) for at in range(1, 6)
        )
        done = (measured("4 at a time", 4, 350.0),)
        course.show(RunProgress(RunKind.SWEEP, 2, 3, "16 at a time", LoadPlan(seconds=2.0), "", points, done))
        course.say("16 at a time: running")
        inside.set()
        assert go.wait(20.0)
        return Conclusion(Outcome.STOPPED, "fast_add: stopped", result=report(RunKind.SWEEP, *done))

    control.answers = slow
    page, other = opened("sweep"), opened("load")
    press(page, "Run the sweep")
    assert inside.wait(5.0)
    for viewer in (page, other):
        viewer.run()
        shown = words(panel(viewer, "load_run"))
        assert shown.startswith("RUNNING 16 at a time: running")
        assert "load 2 of 3: 16 at a time" in shown
        assert "answered 100" in shown and "p99 21 ms" in shown
        assert {"load_run_rate", "load_run_wait"} <= set(charts(viewer))
        assert "4 350 /s" in words(panel(viewer, "load_run_done"))
    assert button(other, "Run the load").disabled
    press(page, "Stop")
    job = control.job(control.records()[0].id)
    assert job is not None and job.stopping
    go.set()
    job.wait(5.0)
    page.run()
    assert words(panel(page, "load_run")).startswith("STOPPED fast_add: stopped")


def test_what_cannot_be_meant_is_said_and_nothing_is_sent() -> None:
    control = install()
    page = opened("sweep")
    (steps,) = [one for one in page.text_input if one.label == "At the same time"]
    steps.set_value("1, two")
    press(page, "Run the sweep")
    assert "Concurrencies are whole numbers with commas between" in panel(page, "load_run")
    assert control.performed == []


def test_read_only_says_why_and_how_to_allow_it() -> None:
    install(control=False)
    page = opened("compare")
    assert words(panel(page, "load_run_before")).startswith("Read-only: control of lab is not switched on.")
    assert button(page, "Compare configurations").disabled


def test_a_server_without_a_limit_gets_no_load_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    control = install()
    (server,) = runtime.current().servers
    bare = replace(server, load_run_limit_per_second=None)
    monkeypatch.setattr(control.policy, "_servers", lambda: (bare,))
    page = opened("load")
    assert words(panel(page, "load_run_before")).startswith("Load runs on lab are off")
    assert "load_runs: {max_requests_per_second: 50}" in panel(page, "load_run_before")
    assert button(page, "Run the load").disabled


def test_what_a_killed_comparison_left_is_said_where_comparisons_are(monkeypatch: pytest.MonkeyPatch) -> None:
    control = install()
    what = Restoration("lab", "fast_add", None, "the comparison of 14:02 on fast_add")
    pending = (PendingRestoration(7, what, 1.8e9, left_over=True),)
    monkeypatch.setattr(control.journal, "open_restorations", lambda: pending)
    shown = words(panel(opened("compare"), "load_run_answers"))
    assert "LEFT OVER fast_add on lab must get back the configuration on disk" in shown
    assert "the comparison of 14:02 on fast_add was not ended" in shown


def test_kept_runs_are_listed_shown_again_and_compared() -> None:
    install()
    first = report(RunKind.LOAD, measured("", 16, 100.0), sentence="fast_add: the first")
    second = report(
        RunKind.LOAD, measured("", 16, 200.0), sentence="fast_add: the second", id="20261130-130000-abcdef"
    )
    for one in (first, second):
        load_runs.store().save(one)
    assert "Nothing has run yet" in panel(opened("sweep"), "load_run")
    page = opened("load")
    assert words(panel(page, "load_run_kept")).count("fast_add: the") == 2
    assert "fast_add: the second" in panel(page, "load_run")
    page.multiselect[0].set_value([first.id])
    page.run()
    assert "fast_add: the first" in panel(page, "load_run")
    page.multiselect[0].set_value([first.id, second.id])
    page.run()
    assert "throughput 100 /s 200 /s" in words(panel(page, "load_run_kept"))
