"""The charts of one model: where its time goes, how much it serves, how it batches, what waits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from charts.frames import single
from charts.palette import FAILED, INFER, INPUT, OUTPUT, QUEUE, model_color
from charts.spec import Draw, Mark, Spec, Threshold, Trace
from history.protocol import Frame
from telemetry.units import Unit, human

NO_REQUESTS = "No request finished in this time, so there is no time to split. Send one on Test request."
COUNTED_BY_SERVER = (
    "Counted by the server only: requests refused for a full queue, and those refused before the queue, "
    "are in no counter of Triton."
)


def latency_budget(
    queue: Frame, compute_input: Frame, compute_infer: Frame, compute_output: Frame,
    *, range_: tuple[float, float], max_queue_delay_us: int | None = None,
    objective: tuple[Threshold, ...] = (), marks: tuple[Mark, ...] = (),
) -> Spec:  # fmt: skip
    """Mean time of a request by its parts, stacked, us; with queue delay and objective as lines."""
    parts = (
        ("queue", queue, QUEUE),
        ("input", compute_input, INPUT),
        ("infer", compute_infer, INFER),
        ("output", compute_output, OUTPUT),
    )
    delay = (
        (Threshold(float(max_queue_delay_us), f"max_queue_delay {human(max_queue_delay_us, Unit.US)}"),)
        if max_queue_delay_us
        else ()
    )
    return Spec(
        title="Latency budget",
        unit=Unit.US,
        unit_text="{} per request, mean",
        x=queue.times,
        traces=tuple(Trace(name, single(frame), color, draw=Draw.AREA) for name, frame, color in parts),
        stacked=True,
        range=range_,
        thresholds=(*delay, *objective),
        marks=marks,
        label_marks=True,
        help="Increase of each part's summed time over the window, divided by the requests finished in it.\n"
        "Compute parts count requests that were not answered from the response cache.",
        height=260,
    ).or_empty(NO_REQUESTS)


def throughput(
    model: str, requests: Frame, failures: Frame, *, range_: tuple[float, float], marks: tuple[Mark, ...] = ()
) -> Spec:
    """Requests answered and failed, per second."""
    return Spec(
        title="Throughput and failures",
        unit=Unit.PER_SECOND,
        unit_text="requests{}",
        x=requests.times,
        traces=(
            Trace("answered", single(requests), model_color(model)),
            Trace("failed", single(failures), FAILED, draw=Draw.AREA),
        ),
        range=range_,
        marks=marks,
        help=f"Rate of successes and of failures over the window.\n{COUNTED_BY_SERVER}",
    ).or_empty("No requests were counted in this time.")


def batch_size(
    model: str, mean: Frame,
    *, range_: tuple[float, float], max_batch_size: int | None, preferred: tuple[int, ...] = (),
    marks: tuple[Mark, ...] = (),
) -> Spec:  # fmt: skip
    """Mean inferences per execution, with the largest allowed and the preferred sizes."""
    lines = [Threshold(float(size), f"preferred {size}", color="@grey", dash="dot") for size in preferred]
    if max_batch_size:
        lines = [line for line in lines if line.value != max_batch_size]
        lines.append(Threshold(float(max_batch_size), f"max {max_batch_size}", keep=True))
    sizes = single(mean)
    return Spec(
        title="Batch size",
        unit=Unit.BATCH,
        unit_text="inferences per execution, mean",
        x=mean.times,
        traces=(Trace("mean batch", sizes, model_color(model)),),
        note="below 1: executions failed" if (sizes < 1).any() else "",
        range=range_,
        thresholds=tuple(lines),
        marks=marks,
        help="Increase of inferences divided by increase of executions over the window.\n"
        "Below 1: executions that failed are counted, their inferences are not.",
    ).or_empty("Nothing was executed in this time, so no batch was formed.")


def pending(
    model: str, waiting: Frame,
    *, range_: tuple[float, float], max_queue_size: int | None = None, marks: tuple[Mark, ...] = (),
) -> Spec:  # fmt: skip
    """Requests that wait for execution, with the configured queue limit."""
    limit = (Threshold(float(max_queue_size), f"max_queue_size {max_queue_size}"),) if max_queue_size else ()
    return Spec(
        title="Pending",
        unit=Unit.REQUESTS,
        unit_text="requests waiting",
        x=waiting.times,
        traces=(Trace("pending", single(waiting), model_color(model)),),
        range=range_,
        thresholds=limit,
        marks=marks,
        help="nv_inference_pending_request_count as the server reports it: waiting, not executing.",
    ).or_empty("Pending requests are not reported: Triton has this figure from version 2.38 on.")


def busy(
    model: str, ratio: Frame,
    *, range_: tuple[float, float], ensemble: bool = False, marks: tuple[Mark, ...] = (),
) -> Spec:  # fmt: skip
    """Share of the time that the model's instances executed; an ensemble has none."""
    return Spec(
        title="Instances busy",
        unit=Unit.RATIO,
        unit_text="{} of the instances' time",
        x=ratio.times,
        traces=(Trace("busy", single(ratio), model_color(model)),),
        top=1.0,
        range=range_,
        marks=marks,
        help="Compute time of all executions in the window, divided by window times instances.\n"
        "Near 100 %: the instances are the limit. Low with a long queue: waiting for a batch, or blocked.",
    ).or_empty(
        "An ensemble has no instances: look at its steps."
        if ensemble
        else "Not reported: it needs the model's statistics and its configuration."
    )


def batch_histogram(
    executions: Mapping[str, float] | None,
    infer_us_by_size: Mapping[str, float] | None,
    *,
    window: str,
    max_batch_size: int | None,
) -> Spec:
    """How many executions had which batch size, and what one inference cost at each.

    `infer_us_by_size` is compute time per execution (us) by batch size; divided by the size it shows where
    batching stops paying.
    """
    counts = executions or {}
    sizes = sorted((size for size, count in counts.items() if round(count) > 0), key=int)
    values = np.array([round(counts[size]) for size in sizes], dtype=np.float64)
    cost = np.array(
        [(infer_us_by_size or {}).get(size, np.nan) / int(size) for size in sizes], dtype=np.float64
    )
    total = float(values.sum())
    share = [
        f"{human(count, Unit.COUNT)} executions ({human(count / total, Unit.RATIO)})" for count in values
    ] if total else []  # fmt: skip
    limit = f" · max_batch_size {max_batch_size}" if max_batch_size else ""
    traces = [Trace("executions", values, "@bar", draw=Draw.BAR, detail=tuple(share))]
    if np.isfinite(cost).any():
        traces.append(Trace("time per inference", cost, INFER, right=True))
    return Spec(
        title="Batch sizes",
        unit=Unit.COUNT,
        unit_text="executions",
        x=tuple(sizes),
        traces=tuple(traces),
        right_unit=Unit.US,
        x_title=f"batch size, {window}{limit}",
        help="Bars: executions by batch size. Line: compute time of an execution divided by its batch size;\n"
        "where it stops falling, larger batches do not pay.",
        empty="" if len(sizes) else "No execution in this time. The sizes appear with the first requests.",
        height=260,
    )


def quantiles(
    frames: Mapping[str, Frame],
    *,
    range_: tuple[float, float],
    objective: tuple[Threshold, ...] = (),
    marks: tuple[Mark, ...] = (),
) -> Spec:
    """Quantiles of the request time as the server reports them, us: `frames` by name (p50, p99)."""
    shades = ("#9CC7EE", "#6FA9E2", "#2F7FD1", "#1F5FA5", "#7A4FA3")
    first = next(iter(frames.values()))
    return Spec(
        title="Quantiles",
        unit=Unit.US,
        unit_text="{}, request time",
        x=first.times,
        traces=tuple(
            Trace(name, single(frame), shades[at % len(shades)])
            for at, (name, frame) in enumerate(frames.items())
        ),
        range=range_,
        thresholds=objective,
        marks=marks,
        help="Reported by the server over about the last 60 s; idle models report none.",
    ).or_empty(
        "Not reported. Start Triton with --metrics-config summary_latencies=true; models with a response "
        "cache and idle models have none."
    )
