"""Signals of GPUs and of the host."""

from __future__ import annotations

from dataclasses import dataclass

from history.protocol import By, Frame, Reduce
from signals import frames
from signals.definition import Definition, Level
from signals.evaluation import GPU, SERVER, Dialect, Evaluation, Expression
from signals.expression import (
    Gauge,
    Increase,
    OrElse,
    Ratio,
    Renamed,
    Scale,
    Sum,
)
from telemetry.units import Unit

DCGM_PERCENT = 0.01
"""DCGM's utilization is in percent."""
DCGM_MIB_BYTES = 2.0**20
DCGM_MILLIJOULE = 1e-3


def _gpu(name: str, unit: Unit, title: str, formula: str, triton: Expression, dcgm: Expression) -> Definition:
    """A GPU signal from Triton's page, else from a DCGM exporter's families."""
    expression = OrElse(triton, Renamed(dcgm, "UUID", "gpu_uuid"), on=("gpu_uuid",))
    return Definition(name, Level.GPU, unit, title, formula, expression)


_DCGM_SERIES: By = ("server", "UUID", "GPU_I_ID", "namespace", "pod", "container")
"""DCGM has a series for each pod that uses a GPU, and for each MIG instance instead of the whole GPU."""


@dataclass(frozen=True, slots=True)
class PerDevice(Expression):
    """DCGM's series as one figure of each GPU: of several pods the largest, of MIG instances `reduce`.

    In PromQL the series stay as they are: pods and instances tell them apart.
    """

    of: Expression
    reduce: Reduce = Reduce.MAX

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """By (server, UUID); the whole GPU's own figure where there is one."""
        instances = frames.regrouped(evaluation.of(self.of), lambda key: key[:3], largest=True)
        whole = frames.filtered(instances, lambda key: not key[2])
        split = frames.filtered(instances, lambda key: bool(key[2]))
        largest = self.reduce is Reduce.MAX
        return frames.or_else(
            frames.regrouped(whole, lambda key: key[:2]),
            frames.regrouped(split, lambda key: key[:2], largest=largest),
        )

    def promql(self, dialect: Dialect) -> str:
        """The expression itself."""
        return self.of.promql(dialect)


def as_triton_has_it(row: Definition) -> Expression:
    """A GPU signal from Triton's own families alone."""
    return row.expression.one if isinstance(row.expression, OrElse) else row.expression


def as_dcgm_has_it(row: Definition) -> Expression | None:
    """A GPU signal from DCGM's families alone, under the label gpu_uuid; None where it has no such figure."""
    return row.expression.other if isinstance(row.expression, OrElse) else None


def _dcgm(family: str) -> Expression:
    return Gauge(family, _DCGM_SERIES, reduce=Reduce.MAX)


def _gpus() -> tuple[Definition, ...]:
    used_nv, total_nv = Gauge("nv_gpu_memory_used_bytes", GPU), Gauge("nv_gpu_memory_total_bytes", GPU)
    used, free = _dcgm("DCGM_FI_DEV_FB_USED"), _dcgm("DCGM_FI_DEV_FB_FREE")
    used_dcgm = Scale(PerDevice(used, Reduce.SUM), DCGM_MIB_BYTES)
    total_dcgm = Scale(PerDevice(Sum(used, free), Reduce.SUM), DCGM_MIB_BYTES)
    energy = Increase("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", _DCGM_SERIES, plain=True)
    return (
        _gpu(
            "utilization_ratio",
            Unit.RATIO,
            "GPU utilization",
            "share of the last sampling period in which a kernel ran, 0..1",
            Gauge("nv_gpu_utilization", GPU),
            Scale(PerDevice(_dcgm("DCGM_FI_DEV_GPU_UTIL")), DCGM_PERCENT),
        ),
        _gpu(
            "memory_used_bytes",
            Unit.BYTES,
            "GPU memory in use",
            "by everybody on the device",
            used_nv,
            used_dcgm,
        ),
        _gpu("memory_total_bytes", Unit.BYTES, "GPU memory", "size of the device", total_nv, total_dcgm),
        _gpu(
            "memory_used_ratio",
            Unit.RATIO,
            "GPU memory in use of total",
            "memory in use / memory",
            Ratio(used_nv, total_nv),
            Ratio(used_dcgm, total_dcgm),
        ),
        _gpu(
            "power_watts",
            Unit.WATTS,
            "GPU power",
            "power drawn now",
            Gauge("nv_gpu_power_usage", GPU),
            PerDevice(_dcgm("DCGM_FI_DEV_POWER_USAGE")),
        ),
        Definition(
            "power_limit_watts",
            Level.GPU,
            Unit.WATTS,
            "GPU power limit",
            "limit set on the device",
            Gauge("nv_gpu_power_limit", GPU),
        ),
        _gpu(
            "energy_joules_total",
            Unit.JOULES,
            "GPU energy",
            "energy drawn",
            Increase("nv_energy_consumption", GPU, plain=True),
            Scale(PerDevice(energy), DCGM_MILLIJOULE),
        ),
    )


def _host(name: str, unit: Unit, title: str, formula: str, family: str) -> Definition:
    return Definition(name, Level.HOST, unit, title, formula, Gauge(family, SERVER))


def _hosts() -> tuple[Definition, ...]:
    return (
        _host("cpu_ratio", Unit.RATIO, "CPU", "whole machine as seen by Triton, 0..1", "nv_cpu_utilization"),
        _host("memory_used_bytes", Unit.BYTES, "Memory in use", "whole machine", "nv_cpu_memory_used_bytes"),
        _host("memory_total_bytes", Unit.BYTES, "Memory", "whole machine", "nv_cpu_memory_total_bytes"),
        _host(
            "pinned_memory_used_bytes",
            Unit.BYTES,
            "Pinned memory in use",
            "Triton's pinned memory pool",
            "nv_pinned_memory_pool_used_bytes",
        ),
        _host(
            "pinned_memory_total_bytes",
            Unit.BYTES,
            "Pinned memory",
            "size of Triton's pinned memory pool",
            "nv_pinned_memory_pool_total_bytes",
        ),
    )


DEVICES = (*_gpus(), *_hosts())
