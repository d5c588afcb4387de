"""The charts of load runs: the course of one load, a sweep over concurrency, configurations side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from charts.palette import FAILED, INFER, INPUT, NEUTRAL, OUTPUT, QUEUE, model_color
from charts.spec import Draw, Mark, Spec, Threshold, Trace
from telemetry.scrape import FloatArray
from telemetry.units import Unit, human

P99 = "#7A4FA3"
"""As on the chart of quantiles."""
_NOT_COUNTED = "The server's statistics gave no executions for this time."


@dataclass(frozen=True, slots=True)
class Course:
    """One load over time: `times` (n,) unix seconds, latencies in us, NaN where no request ended."""

    times: FloatArray
    per_second: FloatArray
    failed_per_second: FloatArray
    p50_us: FloatArray
    p99_us: FloatArray

    @property
    def range(self) -> tuple[float, float]:
        """First and last time."""
        return (float(self.times[0]), float(self.times[-1])) if len(self.times) else (0.0, 0.0)


def throughput_course(model: str, course: Course, *, marks: tuple[Mark, ...] = ()) -> Spec:
    """Requests answered and failed per second while the load ran, as its clients saw them."""
    return Spec(
        title="Throughput",
        unit=Unit.PER_SECOND,
        unit_text="requests{}",
        x=course.times,
        traces=(
            Trace("answered", course.per_second, model_color(model)),
            Trace("failed", course.failed_per_second, FAILED, draw=Draw.AREA),
        ),
        range=course.range,
        marks=marks,
        help="Counted by the clients of the load.",
    ).or_empty("No request has ended yet.")


def latency_course(course: Course, *, max_p99_us: float | None = None, marks: tuple[Mark, ...] = ()) -> Spec:
    """p50 and p99 of the latency while the load ran, us, as its clients saw them."""
    lines = (Threshold(max_p99_us, f"stop above {human(max_p99_us, Unit.US)}"),) if max_p99_us else ()
    return Spec(
        title="Latency",
        unit=Unit.US,
        x=course.times,
        traces=(Trace("p50", course.p50_us, INFER), Trace("p99", course.p99_us, P99)),
        range=course.range,
        thresholds=lines,
        marks=marks,
        help="Quantiles over the requests that ended within each part of the load.\n"
        "In an open loop counted from the time a request was due.",
    ).or_empty("No request has been answered yet.")


def sweep_throughput(
    model: str, concurrencies: Sequence[int], per_second: FloatArray, knee: int | None
) -> Spec:
    """Throughput against concurrency, the knee marked; `knee` is an index."""
    marked = np.full(len(per_second), np.nan)
    traces = [Trace("throughput", per_second, model_color(model))]
    if knee is not None:
        marked[knee] = per_second[knee]
        traces.append(Trace(f"knee: {concurrencies[knee]} at a time", marked, "@amber"))
    return Spec(
        title="Throughput against concurrency",
        unit=Unit.PER_SECOND,
        unit_text="requests{}",
        x=tuple(map(str, concurrencies)),
        traces=tuple(traces),
        x_title="requests at the same time",
        height=240,
        help="The knee has the largest throughput / mean latency: up to it more clients raise the\n"
        "throughput by a larger factor than the latency, beyond it by a smaller one.",
    ).or_empty("No step has been measured.")


def sweep_latency(
    concurrencies: Sequence[int], p50_us: FloatArray, p99_us: FloatArray, max_p99_us: float | None
) -> Spec:
    """p50 and p99 against concurrency, us, with the objective as a line."""
    lines = (
        (Threshold(max_p99_us, f"objective {human(max_p99_us, Unit.US)}", keep=True),) if max_p99_us else ()
    )
    return Spec(
        title="Latency against concurrency",
        unit=Unit.US,
        x=tuple(map(str, concurrencies)),
        traces=(Trace("p50", p50_us, INFER), Trace("p99", p99_us, P99)),
        x_title="requests at the same time",
        thresholds=lines,
        height=240,
        help="Exact quantiles over all requests of a step, as its clients saw them.",
    ).or_empty("No step has been measured.")


def arms_throughput(labels: Sequence[str], per_second: FloatArray) -> Spec:
    """Requests answered per second by configuration."""
    return Spec(
        title="Throughput by configuration",
        unit=Unit.PER_SECOND,
        unit_text="requests{}",
        x=tuple(labels),
        traces=(Trace("throughput", per_second, NEUTRAL, draw=Draw.BAR),),
        x_title="the same load on each",
        height=240,
        help="Requests answered per second, as the clients saw it.",
    ).or_empty("No configuration has been measured.")


def arms_latency(labels: Sequence[str], mean_us: FloatArray, p99_us: FloatArray) -> Spec:
    """Mean latency and p99 by configuration, us."""
    return Spec(
        title="Latency by configuration",
        unit=Unit.US,
        x=tuple(labels),
        traces=(
            Trace("mean", mean_us, INFER, draw=Draw.BAR),
            Trace("p99", p99_us, P99, draw=Draw.BAR),
        ),
        x_title="the same load on each",
        height=240,
        help="What the clients waited for an answer.",
    ).or_empty("No configuration has been measured.")


def batch_sizes(where: str, executions: Mapping[str, Mapping[int, int]]) -> Spec:
    """Executions by batch size for each load, by its label."""
    sizes = sorted({size for one in executions.values() for size in one})
    colors = (NEUTRAL, INFER, QUEUE, OUTPUT, INPUT, P99)
    traces = tuple(
        Trace(
            label or "executions",
            np.array([one.get(size, 0) for size in sizes], dtype=np.float64),
            colors[at % len(colors)] if len(executions) > 1 else INFER,
            draw=Draw.BAR,
        )
        for at, (label, one) in enumerate(executions.items())
    )
    return Spec(
        title=f"Batch sizes that formed, {where}",
        unit=Unit.EXECUTIONS,
        x=tuple(map(str, sizes)),
        traces=traces,
        x_title="rows in one execution",
        height=240,
        help="Executions of each size, counted by the server over the load.",
    ).or_empty(_NOT_COUNTED)


def split(labels: Sequence[str], parts: Mapping[str, FloatArray]) -> Spec:
    """Mean time of a request at the server by its parts, us, for each load; `parts` by name of the part."""
    colors = {"queue": QUEUE, "input": INPUT, "infer": INFER, "output": OUTPUT}
    return Spec(
        title="Where the server spent the time",
        unit=Unit.US,
        unit_text="{} per request, mean",
        x=tuple(labels),
        traces=tuple(Trace(name, values, colors[name], draw=Draw.BAR) for name, values in parts.items()),
        stacked=True,
        x_title="counted by the server",
        height=240,
        help="Increase of each part's summed time over the load / requests the server answered in it.",
    ).or_empty("The server's statistics could not be read.")
