"""Kinds of GPU and host readings with answers worked out by hand: units, MIG, DCGM, the impossible."""

from __future__ import annotations

import math

import pytest

from signals.report import Report, Signals
from signals.saved import SavedFile
from tests.saved_pages import report, texts

MIB = 2**20


def pages(*bodies: str) -> Report:
    return report(*(SavedFile("t", body) for body in bodies))


def gpu(found: Report, uuid: str = "G") -> Signals:
    (row,) = [row for row in found.gpus if row.key.uuid == uuid]
    return row.signals


def triton(**values: object) -> str:
    return "".join(f'nv_{name}{{gpu_uuid="G"}} {value}\n' for name, value in values.items())


def dcgm(uuid: str = "G", more: str = "", **values: object) -> str:
    return "".join(
        f'DCGM_FI_DEV_{name}{{gpu="0",UUID="{uuid}"{more}}} {value}\n' for name, value in values.items()
    )


@pytest.mark.parametrize(
    ("printed", "expected"),
    [("0", 0.0), ("0.5e0", 0.5), ("1", 1.0), ("1.0000", 1.0), ("0.87", 0.87)],
)
def test_utilization_is_a_ratio(printed: str, expected: float) -> None:
    found = pages(triton(gpu_utilization=printed))
    assert gpu(found).number("utilization_ratio") == expected
    assert found.notices == ()


@pytest.mark.parametrize("printed", ["1.7", "87", "-0.1", "NaN", "Nan", "+Inf", "-Inf", "1e999"])
def test_what_cannot_be_is_null_in_its_row_with_a_warning(printed: str) -> None:
    found = pages(triton(gpu_utilization=printed) + f"nv_cpu_utilization {printed}\n")
    assert set(gpu(found).values.values()) == {None}
    assert found.host[0].signals.number("cpu_ratio") is None
    assert "utilization" in texts(found) and "cpu" in texts(found)
    assert len(found.notices) == 2


@pytest.mark.parametrize(
    ("used", "total", "expected"),
    [
        (450 * MIB, 16384 * MIB, (450 * MIB, 16384 * MIB, pytest.approx(450 / 16384))),
        (100, 100, (100, 100, 1.0)),
        (0, 100, (0, 100, 0.0)),
        (200, 100, (None, 100, None)),
        (0, 0, (None, None, None)),
        (5, 0, (None, None, None)),
        (-1, 100, (None, 100, None)),
        (5, None, (5, None, None)),
        (None, 100, (None, 100, None)),
    ],
)
def test_memory_in_use_and_size(used: int | None, total: int | None, expected: tuple[object, ...]) -> None:
    sizes = {"used": used, "total": total}
    known = {name: size for name, size in sizes.items() if size is not None}
    body = triton(**{f"gpu_memory_{name}_bytes": size for name, size in known.items()})
    found = pages(body + "".join(f"nv_cpu_memory_{name}_bytes {size}\n" for name, size in known.items()))
    names = ("memory_used_bytes", "memory_total_bytes", "memory_used_ratio")
    assert tuple(gpu(found).values[name] for name in names) == expected
    host = found.host[0].signals
    assert tuple(host.values[name] for name in names[:2]) == expected[:2]


def test_a_pool_of_pinned_memory_may_be_empty() -> None:
    host = pages("nv_pinned_memory_pool_total_bytes 0\nnv_pinned_memory_pool_used_bytes 0\n").host[0].signals
    assert (host.number("pinned_memory_total_bytes"), host.number("pinned_memory_used_bytes")) == (0, 0)


def test_a_power_limit_of_zero_is_a_reading_that_failed() -> None:
    found = pages(triton(gpu_power_usage=0, gpu_power_limit=0))
    assert (gpu(found).number("power_watts"), gpu(found).number("power_limit_watts")) == (0, None)


def test_energy_is_a_counter() -> None:
    assert gpu(pages(triton(energy_consumption="48211.53"))).number("energy_joules_total") == 48211.53
    grown = pages(triton(energy_consumption=48211.5), triton(energy_consumption=48311.5))
    assert gpu(grown).number("energy_joules_total") == 100
    restarted = pages(triton(energy_consumption=48211.5), triton(energy_consumption=20))
    assert gpu(restarted).number("energy_joules_total") == 20


def test_percent_become_the_nearest_ratio() -> None:
    body = "".join(dcgm(f"GPU-{percent}", GPU_UTIL=percent) for percent in range(101))
    found = pages(body)
    assert {row.key.uuid: row.signals.number("utilization_ratio") for row in found.gpus} == {
        f"GPU-{percent}": percent / 100 for percent in range(101)
    }


def test_triton_first_and_dcgm_for_what_it_lacks() -> None:
    body = triton(gpu_utilization=0.2) + dcgm(GPU_UTIL=90, FB_USED=10, FB_FREE=30) + dcgm("B", GPU_UTIL=40)
    found = pages(body)
    assert [row.key.uuid for row in found.gpus] == ["B", "G"]
    assert gpu(found).number("utilization_ratio") == 0.2
    assert gpu(found).number("memory_used_bytes") == 10 * MIB
    assert gpu(found).number("memory_used_ratio") == 0.25
    assert gpu(found, "B").number("utilization_ratio") == 0.4
    assert gpu(found, "B").number("memory_used_ratio") is None


def mig(instance: int, **values: object) -> str:
    return dcgm("G", f',GPU_I_PROFILE="1g.5gb",GPU_I_ID="{instance}"', **values)


def test_mig_instances_share_memory_but_not_power() -> None:
    """DCGM repeats what is the device's for each instance; memory is that of the instance."""

    def at(millijoules: int) -> str:
        shared = {"POWER_USAGE": 70.5, "TOTAL_ENERGY_CONSUMPTION": millijoules}
        return mig(1, GPU_UTIL=40, FB_USED=1000, FB_FREE=3000, **shared) + mig(
            2, GPU_UTIL=60, FB_USED=500, FB_FREE=3500, **shared
        )

    figures = gpu(pages(at(1_000_000), at(1_500_000)))
    assert figures.number("utilization_ratio") == 0.6
    assert figures.number("power_watts") == 70.5
    assert figures.number("energy_joules_total") == 500
    assert figures.number("memory_used_bytes") == 1500 * MIB
    assert figures.number("memory_total_bytes") == 8000 * MIB


def test_the_whole_device_counts_before_its_instances() -> None:
    body = dcgm(FB_USED=2000, FB_FREE=6000) + mig(1, FB_USED=1000, FB_FREE=3000)
    assert gpu(pages(body)).number("memory_used_bytes") == 2000 * MIB


def test_a_gpu_that_pods_share_is_not_counted_for_each() -> None:
    body = "".join(
        dcgm("G", f',namespace="n",pod="{pod}",container="c"', GPU_UTIL=70, FB_USED=100, FB_FREE=300)
        for pod in ("one", "two")
    )
    figures = gpu(pages(body))
    assert (figures.number("utilization_ratio"), figures.number("memory_total_bytes")) == (0.7, 400 * MIB)


def test_several_gpus_in_any_order() -> None:
    lines = [f'nv_gpu_utilization{{gpu_uuid="GPU-{i}"}} 0.{i}' for i in (3, 1, 2)]
    found = pages("\n".join(lines) + "\n")
    assert [(row.key.uuid, row.signals.number("utilization_ratio")) for row in found.gpus] == [
        ("GPU-1", 0.1), ("GPU-2", 0.2), ("GPU-3", 0.3),
    ]  # fmt: skip


def test_nothing_is_said_about_gpus_that_are_not_there() -> None:
    found = pages("nv_cpu_utilization 0.25\n# TYPE nv_gpu_utilization gauge\n")
    assert found.gpus == () and found.notices == ()
    assert not math.isnan(found.host[0].signals.number("cpu_ratio") or math.nan)
