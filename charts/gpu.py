"""The charts of the GPUs: utilization, power, and memory by what holds it."""

from __future__ import annotations

import numpy as np

from charts.frames import ranked, single
from charts.palette import NEUTRAL, model_color
from charts.spec import Draw, Mark, Spec, Threshold, Trace
from history.protocol import Frame, GroupKey
from telemetry.units import Unit, human

_GPU_COLORS = ("#3B8FD9", "#E07B39", "#1FA187", "#C95FA0", "#8A6FD1", "#B8A21B", "#4FB3C6", "#A9744F")


def utilization(frame: Frame, names: dict[GroupKey, str], *, range_: tuple[float, float], badge: str = "",
                marks: tuple[Mark, ...] = ()) -> Spec:  # fmt: skip
    """Utilization of each GPU, 0..1."""
    return Spec(
        title="Utilization",
        unit=Unit.RATIO,
        x=frame.times,
        traces=_per_gpu(frame, names),
        top=1.0,
        range=range_,
        badge=badge,
        marks=marks,
        help="nv_gpu_utilization: share of the last sample period in which a kernel ran.",
    ).or_empty("GPU utilization is not reported.")


def power(frame: Frame, names: dict[GroupKey, str], limit_watts: float | None, *, range_: tuple[float, float],
          badge: str = "", marks: tuple[Mark, ...] = ()) -> Spec:  # fmt: skip
    """Power of each GPU, with the limit where all share one."""
    limit = (
        (Threshold(limit_watts, f"limit {human(limit_watts, Unit.WATTS)}", keep=True),) if limit_watts else ()
    )
    return Spec(
        title="Power",
        unit=Unit.WATTS,
        x=frame.times,
        traces=_per_gpu(frame, names),
        thresholds=limit,
        range=range_,
        badge=badge,
        marks=marks,
    ).or_empty("GPU power is not reported.")


def memory(used: Frame, by_model: Frame, total_bytes: float | None, names: dict[GroupKey, str], *,
           range_: tuple[float, float], title: str, badge: str = "",
           marks: tuple[Mark, ...] = ()) -> Spec:  # fmt: skip
    """Memory of one GPU: each model as far as reported, the rest as unattributed, and the total as a line.

    The parts are shown as they were measured and never scaled to fit: the rest is used minus their sum,
    and none where the parts exceed what is used.
    """
    parts = ranked(by_model, lambda key: names[key], lambda key: model_color(key[1]), draw=Draw.AREA)
    whole = single(used)
    known = np.zeros(len(whole))
    for part in parts:
        known += np.where(np.isfinite(part.values), part.values, 0.0)
    rest = np.where(np.isfinite(whole), np.maximum(whole - known, 0.0), np.nan)
    total = (
        (Threshold(total_bytes, f"total {human(total_bytes, Unit.BYTES)}", keep=True),) if total_bytes else ()
    )
    return Spec(
        title=title,
        unit=Unit.BYTES,
        x=used.times,
        traces=(*parts, Trace("unattributed", rest, NEUTRAL, draw=Draw.AREA)),
        stacked=True,
        thresholds=total,
        range=range_,
        badge=badge,
        marks=marks,
        label_marks=True,
        help="Used by everybody on the device. Models are shown as their backend or their processes are\n"
        "measured; the rest (contexts, caches, later growth, other processes) is unattributed.",
        height=240,
    ).or_empty("GPU memory is not reported.")


def machine_memory(by_model: Frame, names: dict[GroupKey, str], *, range_: tuple[float, float], title: str,
                   marks: tuple[Mark, ...] = ()) -> Spec:  # fmt: skip
    """Private memory of the processes of each Python model, stacked."""
    return Spec(
        title=title,
        unit=Unit.BYTES,
        x=by_model.times,
        traces=ranked(by_model, lambda key: names[key], lambda key: model_color(key[1]), draw=Draw.AREA),
        stacked=True,
        range=range_,
        marks=marks,
        label_marks=True,
        help="Pages that no other process shares, of all instances of a model, the interpreter included.",
        height=240,
    ).or_empty("No process of a model can be seen from here.")


def _per_gpu(frame: Frame, names: dict[GroupKey, str]) -> tuple[Trace, ...]:
    color = {key: _GPU_COLORS[at % len(_GPU_COLORS)] for at, key in enumerate(sorted(frame.keys))}
    return ranked(frame, lambda key: names.get(key, key[-1]), lambda key: color[key], additive=False)
