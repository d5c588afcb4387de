"""Who holds a device's memory: the order of sources, what is left over, and what is not scaled to fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from history.inventory import ModelFacts
from history.memory_changes import BeforeAfter, LoadMark, MemoryChange
from signals.memory import DeviceMemory
from signals.memory_sources import ServerMemoryInputs, devices_of
from telemetry.facts import InstanceGroup, MemoryUse, ModelConfig, ModelState, ModelStatistics
from telemetry.identity import ModelKey
from telemetry.memory import (
    CPU,
    Confidence,
    GpuCard,
    GpuTenant,
    MemorySource,
    ServerProcesses,
    StubProcess,
)

GIB = 2**30
GPU = "GPU-1"


def facts(
    name: str,
    *,
    backend: str = "python",
    memory: tuple[MemoryUse, ...] | None = (),
    kind: str = "KIND_GPU",
    count: int = 1,
) -> ModelFacts:
    config = ModelConfig(
        name, backend, "", 8, False, (), None, None, None, (InstanceGroup("g", kind, count),), (),
        False, False, False, (), (),
    )  # fmt: skip
    statistics = ModelStatistics(name, "1", 0, 0, 0, 0, 0, memory=memory)
    return ModelFacts(
        ModelKey("a", name, "1"),
        ModelState.READY,
        since=50.0,
        config=config,
        statistics=statistics,
        instance_count=count,
    )


def change(
    model: str, before: float, after: float, *, what: str = "load", disturbed: str = "", ours: bool = True
) -> MemoryChange:
    at = 100.0
    mark = LoadMark(at - 5, at, "a", model, what, ours)
    return MemoryChange(mark, {GPU: BeforeAfter(before, after)}, {}, disturbed)


def inputs(**changes: object) -> ServerMemoryInputs:
    values = {"gpus": {GPU: (10.0 * GIB, 16.0 * GIB)}, "host": (4.0 * GIB, 32.0 * GIB), **changes}
    return ServerMemoryInputs("a", **values)  # type: ignore[arg-type]


def gpu(found: tuple[DeviceMemory, ...]) -> DeviceMemory:
    return next(one for one in found if one.device == GPU)


def machine(found: tuple[DeviceMemory, ...]) -> DeviceMemory:
    return next(one for one in found if one.device == CPU)


def test_what_a_backend_reports_is_a_lower_bound_and_comes_first() -> None:
    onnx = facts("onnx", backend="onnxruntime", memory=(MemoryUse("GPU", 0, 2 * GIB),))
    found = gpu(devices_of(inputs(models=[onnx], changes=[change("onnx", 1.0 * GIB, 3.2 * GIB)])))
    held = found.models[0]
    assert [one.source for one in held.figures] == [MemorySource.REPORTED, MemorySource.DELTA]
    assert (held.shown.text, held.shown.lower_bound, held.shown.at) == ("≥ 2 GiB", True, 50.0)
    # 2.2 against 2 GiB is within a fifth.
    assert held.disagreement == ""


def test_reported_and_grown_that_differ_by_more_than_a_fifth_are_both_said() -> None:
    onnx = facts("onnx", backend="onnxruntime", memory=(MemoryUse("GPU", 0, 2 * GIB),))
    held = gpu(devices_of(inputs(models=[onnx], changes=[change("onnx", 1.0 * GIB, 3.5 * GIB)]))).models[0]
    assert held.disagreement == "its backend reports 2 GiB, the card grew by 2.5 GiB"


def test_the_rest_is_unattributed_and_nothing_is_scaled() -> None:
    onnx = facts("onnx", backend="onnxruntime", memory=(MemoryUse("GPU", 0, 2 * GIB),))
    found = gpu(devices_of(inputs(models=[onnx])))
    assert (found.attributed_bytes, found.unattributed_bytes, found.free_bytes) == (
        2 * GIB,
        8 * GIB,
        6 * GIB,
    )
    assert found.attributed_ratio == 0.2
    more = gpu(devices_of(inputs(models=[onnx], gpus={GPU: (1.5 * GIB, 16.0 * GIB)})))
    # Measured at load, and the card holds less now: that is said, not mended.
    assert (more.attributed_bytes, more.unattributed_bytes, more.excess_bytes) == (2 * GIB, 0, 0.5 * GIB)


def test_processes_tell_each_python_model_on_the_card_and_on_the_machine() -> None:
    stubs = (
        StubProcess(2, "small", "1", "small_0", 20 * 2**20, {}),
        StubProcess(3, "large", "1", "large_0", 220 * 2**20, {GPU: 3 * GIB}),
        StubProcess(4, "large", "1", "large_1", 220 * 2**20, {GPU: 3 * GIB}),
    )
    card = GpuCard(
        GPU, 0, "H", 16 * GIB, 10 * GIB,
        (GpuTenant(3, "stub", 3 * GIB, True, "large", "1"), GpuTenant(4, "stub", 3 * GIB, True, "large", "1"),
         GpuTenant(1, "tritonserver", GIB, True), GpuTenant(9, "train.py", 2 * GIB), GpuTenant(8, "", None)),
    )  # fmt: skip
    processes = ServerProcesses(1, "", 50 * 2**20, stubs, (card,))
    found = devices_of(
        inputs(models=[facts("small"), facts("large", count=2)], processes=processes, processes_at=100.0)
    )
    held = gpu(found)
    assert [(one.key.name, one.shown.source, one.shown.bytes) for one in held.models] == [
        ("large", MemorySource.PROCESS, 6 * GIB)
    ]
    assert [(part.name, part.bytes) for part in held.others] == [
        ("tritonserver", GIB),
        ("train.py", 2 * GIB),
    ]
    assert held.unattributed_bytes == GIB
    assert "NVML hides the memory of some processes" in " ".join(held.notes)
    own = machine(found)
    assert [(one.key.name, one.shown.bytes) for one in own.models] == [
        ("large", 440 * 2**20),
        ("small", 20 * 2**20),
    ]
    assert own.models[0].shown.words == "2 processes, 400 MiB more than the smallest"
    assert own.models[1].shown.words == "1 process"
    assert [(part.name, part.bytes) for part in own.others] == [("tritonserver", 50 * 2**20)]


def test_models_inside_tritonserver_are_not_counted_twice() -> None:
    onnx = facts("onnx", backend="onnxruntime", memory=(MemoryUse("GPU", 0, 2 * GIB),))
    card = GpuCard(GPU, 0, "H", 16 * GIB, 10 * GIB, (GpuTenant(1, "tritonserver", 3 * GIB, True),))
    found = gpu(devices_of(inputs(models=[onnx], processes=ServerProcesses(1, cards=(card,)))))
    assert [(part.name, part.bytes) for part in found.others] == [("tritonserver", GIB)]
    assert found.attributed_bytes == 3 * GIB


@pytest.mark.parametrize(
    ("changes", "size", "confidence"),
    [
        ([change("m", 1 * GIB, 3 * GIB)], 2 * GIB, Confidence.LOW),
        ([change("m", 1 * GIB, 3 * GIB), change("m", 1 * GIB, 3.1 * GIB)], 2.1 * GIB, Confidence.MEDIUM),
        ([change("m", 3 * GIB, 1 * GIB, what="unload")], 2 * GIB, Confidence.LOW),
        ([change("m", 1 * GIB, 3 * GIB), change("m", 1 * GIB, 9 * GIB, disturbed="load of x")], 2 * GIB,
         Confidence.LOW),
    ],
)  # fmt: skip
def test_growth_at_load_is_trusted_when_it_repeats(
    changes: list[MemoryChange], size: float, confidence: Confidence
) -> None:
    figure = gpu(devices_of(inputs(models=[facts("m", backend="pytorch")], changes=changes))).models[0].shown
    assert (figure.source, figure.confidence) == (MemorySource.DELTA, confidence)
    assert figure.bytes == pytest.approx(size)


def test_growth_that_others_caused_or_nobody_timed_is_none() -> None:
    one = facts("m", backend="pytorch")
    foreign = change("m", 1 * GIB, 3 * GIB, ours=False)
    assert gpu(devices_of(inputs(models=[one], changes=[foreign]))).models == ()
    assert gpu(devices_of(inputs(models=[one], changes=[change("m", GIB, GIB)]))).models == ()
    two = [one, replace(one, key=ModelKey("a", "m", "2"))]
    assert gpu(devices_of(inputs(models=two, changes=[change("m", GIB, 3 * GIB)]))).models == ()


def test_an_estimate_is_not_attributed() -> None:
    weights = ServerProcesses(1, weights={("m", "1"): GIB})
    found = gpu(devices_of(inputs(models=[facts("m", backend="pytorch", count=2)], processes=weights)))
    held = found.models[0]
    assert (held.shown.source, held.shown.bytes, held.estimated) == (MemorySource.ESTIMATE, 2 * GIB, True)
    assert held.shown.high_bytes == pytest.approx(2.4 * GIB)
    assert (found.attributed_bytes, found.estimated_bytes, found.unattributed_bytes) == (0, 2 * GIB, 10 * GIB)


def test_a_reservation_is_called_one() -> None:
    key = ModelKey("a", "llm", "1")
    found = gpu(devices_of(inputs(models=[facts("llm", backend="tensorrtllm")], backend={key: 9.0 * GIB})))
    assert found.models[0].shown.source is MemorySource.BACKEND
    assert "a reservation" in found.models[0].shown.words


def test_on_one_of_several_gpus_nothing_is_put_by_guess() -> None:
    onnx = facts("onnx", backend="onnxruntime", memory=(MemoryUse("GPU", 1, 2 * GIB),))
    gpus = {GPU: (GIB, 16.0 * GIB), "GPU-2": (GIB, 16.0 * GIB)}
    found = {one.device: one for one in devices_of(inputs(models=[onnx], gpus=gpus))}
    assert found[GPU].models == found["GPU-2"].models == ()
    assert found["GPU 1"].models[0].shown.bytes == 2 * GIB
    assert found["GPU 1"].used_bytes is None and found["GPU 1"].attributed_ratio is None
    assert "which is which is not" in " ".join(found[GPU].notes)


def test_how_to_know_more_is_said() -> None:
    onnx = facts("onnx", backend="onnxruntime", memory=())
    notes = " ".join(gpu(devices_of(inputs(models=[onnx]))).notes)
    assert "--backend-config=onnxruntime,triton-backend-memory-tracker=true" in notes
    assert "not seen from here (not looked at yet)" in notes
    seen = ServerProcesses(1, gpu_why="the package nvidia-ml-py is not installed beside Tritonscope")
    assert "nvidia-ml-py" in " ".join(gpu(devices_of(inputs(processes=seen))).notes)


def test_processes_read_before_the_model_was_ready_do_not_count() -> None:
    stubs = (StubProcess(3, "m", "1", "m_0", GIB, {}),)
    seen = ServerProcesses(1, stubs=stubs)
    loading = inputs(models=[facts("m")], processes=seen, processes_at=49.0)
    assert machine(devices_of(loading)).models == ()
    assert machine(devices_of(replace(loading, processes_at=51.0))).models[0].shown.bytes == GIB


def test_a_model_that_is_not_loaded_holds_nothing() -> None:
    gone = replace(facts("m", memory=(MemoryUse("GPU", 0, GIB),)), state=ModelState.UNAVAILABLE)
    assert gpu(devices_of(inputs(models=[gone]))).models == ()
