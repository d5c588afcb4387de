"""Who holds a device's memory, where it is easily said wrong: several cards, others' processes, old loads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from history.inventory import ModelFacts
from history.memory_changes import MemoryChange
from signals.memory import DeviceMemory
from signals.memory_sources import devices_of
from telemetry.facts import InstanceGroup, MemoryUse
from telemetry.memory import (
    CPU,
    Confidence,
    GpuCard,
    GpuTenant,
    MemorySource,
    ServerProcesses,
    StubProcess,
)
from tests.unit.test_memory import GIB, GPU, change, facts, gpu, inputs, machine

OTHER = "GPU-2"


def by_device(found: tuple[DeviceMemory, ...]) -> dict[str, DeviceMemory]:
    return {one.device: one for one in found}


def with_groups(made: ModelFacts, *groups: InstanceGroup) -> ModelFacts:
    assert made.config is not None
    config = replace(made.config, instance_groups=groups)
    return replace(made, config=config, instance_count=config.instance_count)


def test_of_two_cards_each_has_the_instances_that_run_on_it() -> None:
    stubs = (
        StubProcess(2, "m", "1", "m_0_0", 20, {GPU: 3 * GIB}),
        StubProcess(3, "m", "1", "m_0_1", 20, {OTHER: 3 * GIB}),
        StubProcess(4, "m", "1", "m_0_2", 20, {OTHER: 3 * GIB}),
    )
    gpus = {GPU: (9.0 * GIB, 16.0 * GIB), OTHER: (9.0 * GIB, 16.0 * GIB)}
    made = with_groups(
        facts("m"), InstanceGroup("g", "KIND_GPU", 1, (0, 1)), InstanceGroup("h", "KIND_GPU", 1, (1,))
    )
    found = by_device(devices_of(inputs(models=[made], gpus=gpus, processes=ServerProcesses(1, stubs=stubs))))
    told = {device: (one.models[0].shown.bytes, one.models[0].instances) for device, one in found.items()}
    assert told == {GPU: (3 * GIB, 1), OTHER: (6 * GIB, 2), CPU: (60, 3)}
    assert found[OTHER].models[0].shown.words.startswith("2 processes, each")


def test_of_several_cards_a_backend_reports_by_number_and_the_configuration_counts() -> None:
    memory = (MemoryUse("GPU", 0, GIB), MemoryUse("GPU", 1, 2 * GIB))
    onnx = with_groups(
        facts("onnx", backend="onnxruntime", memory=memory),
        InstanceGroup("g", "KIND_GPU", 1, (0, 1)),
        InstanceGroup("h", "KIND_GPU", 1, (1,)),
    )
    gpus = {GPU: (GIB, 16.0 * GIB), OTHER: (GIB, 16.0 * GIB)}
    found = by_device(devices_of(inputs(models=[onnx], gpus=gpus)))
    assert [found[name].models[0].instances for name in ("GPU 0", "GPU 1")] == [1, 2]


def test_on_the_only_card_instances_on_the_processor_are_not_counted() -> None:
    made = with_groups(
        facts("onnx", backend="onnxruntime", memory=(MemoryUse("GPU", 0, GIB), MemoryUse("CPU", 0, 7))),
        InstanceGroup("g", "KIND_GPU", 2, (0,)),
        InstanceGroup("c", "KIND_CPU", 3),
    )
    found = devices_of(inputs(models=[made]))
    assert (gpu(found).models[0].instances, machine(found).models[0].instances) == (2, 3)


def test_an_estimate_inside_tritonservers_own_process_is_not_taken_off_twice() -> None:
    """8 GiB of tritonserver, 5 of them a model by its weights; 1 GiB of somebody else; 1 GiB nobody's."""
    torch = facts("torch", backend="pytorch")
    card = GpuCard(
        GPU, 0, "H", 16 * GIB, 10 * GIB,
        (GpuTenant(1, "tritonserver", 8 * GIB, True), GpuTenant(9, "python3 train.py", GIB)),
    )  # fmt: skip
    seen = ServerProcesses(1, cards=(card,), weights={("torch", "1"): 5 * GIB})
    found = gpu(devices_of(inputs(models=[torch], processes=seen)))
    assert [(one.key.name, one.shown.source, one.shown.bytes) for one in found.models] == [
        ("torch", MemorySource.ESTIMATE, 5 * GIB)
    ]
    server, stranger = found.others
    assert (server.bytes, server.inside_bytes, stranger.name) == (8 * GIB, 5 * GIB, "python3 train.py")
    assert "about 5 GiB of it by estimate: torch v1" in server.words
    assert (found.attributed_bytes, found.unattributed_bytes, found.rest_bytes) == (9 * GIB, GIB, GIB)
    # A Python model lives in processes of its own: its estimate is no part of tritonserver's.
    python = devices_of(inputs(models=[facts("torch")], processes=seen))
    assert gpu(python).others[0].inside_bytes == 0
    assert gpu(python).rest_bytes == 0


@pytest.mark.parametrize(
    ("since", "doubt"),
    [
        (99.0, ""),
        (130.0, ""),
        (200.0, "it was loaded again since"),
        (None, "it runs since before this app was started"),
    ],
)
def test_growth_of_an_earlier_load_is_not_sure_to_be_todays(since: float | None, doubt: str) -> None:
    made = replace(facts("m", backend="pytorch"), since=since)
    changes: list[MemoryChange] = [change("m", GIB, 3 * GIB), change("m", GIB, 3 * GIB)]
    figure = gpu(devices_of(inputs(models=[made], changes=changes))).models[0].shown
    assert figure.confidence is (Confidence.LOW if doubt else Confidence.MEDIUM)
    assert ("not sure" in figure.words) is bool(doubt) and doubt in figure.words


def test_a_reservation_is_called_one_whatever_tells_it() -> None:
    figures = gpu(
        devices_of(inputs(models=[facts("llm", backend="vllm")], changes=[change("llm", GIB, 9 * GIB)]))
    )
    assert figures.models[0].shown.source is MemorySource.DELTA
    assert "a reservation" in figures.models[0].shown.words


def test_weights_are_not_put_where_nothing_says_they_are() -> None:
    weights = ServerProcesses(1, weights={("m", "1"): GIB})
    somewhere = with_groups(facts("m", backend="pytorch"), InstanceGroup("g", "KIND_MODEL", 1))
    found = devices_of(inputs(models=[somewhere], processes=weights))
    assert gpu(found).models == machine(found).models == ()


def test_a_python_model_on_a_card_is_estimated_with_a_context_for_each_instance() -> None:
    weights = ServerProcesses(1, weights={("m", "1"): GIB})
    figure = gpu(devices_of(inputs(models=[facts("m", count=2)], processes=weights))).models[0].shown
    assert (figure.low_bytes, figure.high_bytes) == (2 * GIB, pytest.approx(2.4 * GIB + 1e9))
    assert "a CUDA context for each instance" in figure.words


def test_processes_that_nobody_here_can_name_stay_unattributed_and_are_said_to_be_there() -> None:
    card = GpuCard(
        GPU, 0, "H", 16 * GIB, 10 * GIB, (GpuTenant(4711, "", 6 * GIB), GpuTenant(9, "ffmpeg", GIB))
    )
    found = gpu(devices_of(inputs(processes=ServerProcesses(1, cards=(card,)))))
    assert [part.name for part in found.others] == ["ffmpeg"]
    assert (found.attributed_bytes, found.unattributed_bytes) == (GIB, 9 * GIB)
    assert "cannot be seen from here hold 6 GiB (ids by NVML: 4711)" in " ".join(found.notes)


def test_ids_of_another_namespace_are_said_beside_the_card_too() -> None:
    card = GpuCard(GPU, 0, "H", 16 * GIB, 10 * GIB, (GpuTenant(4711, "", 6 * GIB),))
    why = "NVML names process ids that this process cannot see: share the host's process namespace"
    notes = " ".join(gpu(devices_of(inputs(processes=ServerProcesses(1, cards=(card,), gpu_why=why)))).notes)
    assert f"Processes on the card are not seen: {why}." in notes
    denied = replace(card, tenants=(), why="NVML does not tell which processes are on it: No Permission")
    assert "No Permission" in " ".join(
        gpu(devices_of(inputs(processes=ServerProcesses(1, cards=(denied,))))).notes
    )


def test_nothing_is_said_to_be_missing_on_a_gpu_that_is_made_up() -> None:
    gpus = {"GPU-SIMULATED-0": (GIB, 16.0 * GIB)}
    models = [facts("torch", backend="pytorch")]
    (found,) = [one for one in devices_of(inputs(models=models, gpus=gpus)) if one.device != CPU]
    assert found.notes == (
        "This GPU is made up: its memory follows the sandbox's models, and nothing is on it.",
    )


def test_where_processes_are_not_seen_the_exporter_beside_the_server_tells() -> None:
    made = facts("m")
    exported = {(made.key, GPU): 3.0 * GIB, (made.key, CPU): 70.0}
    far = ServerProcesses(None, "it runs on another machine")
    found = devices_of(inputs(models=[made], processes=far, exported=exported, exported_at=90.0))
    figure = gpu(found).models[0].shown
    assert (figure.source, figure.bytes, figure.at) == (MemorySource.PROCESS, 3 * GIB, 90.0)
    assert figure.words == "its processes, as the exporter beside the server sees them"
    assert machine(found).models[0].shown.bytes == 70
    assert "not seen from here" not in " ".join(gpu(found).notes)
    # Where they are seen from here, that counts alone.
    stubs = (StubProcess(2, "m", "1", "m_0", 90, {GPU: GIB}),)
    near = devices_of(inputs(models=[made], processes=ServerProcesses(1, stubs=stubs), exported=exported))
    assert [one.bytes for one in gpu(near).models[0].figures] == [GIB]


def test_what_the_driver_keeps_is_not_free() -> None:
    card = GpuCard(GPU, 0, "H", 16 * GIB, 10 * GIB, (), GIB)
    found = gpu(devices_of(inputs(processes=ServerProcesses(1, cards=(card,)))))
    assert (found.free_bytes, found.reserved_bytes) == (5 * GIB, GIB)


def test_lower_bounds_make_the_whole_one() -> None:
    onnx = facts("onnx", backend="onnxruntime", memory=(MemoryUse("GPU", 0, 2 * GIB),))
    assert gpu(devices_of(inputs(models=[onnx]))).at_least
    assert not gpu(
        devices_of(inputs(models=[facts("m", backend="pytorch")], changes=[change("m", 0, GIB)]))
    ).at_least


def test_how_to_know_more_names_the_models_that_no_backend_tells_of() -> None:
    models = [
        facts("torch", backend="pytorch"),
        facts("onnx", backend="onnxruntime", kind="KIND_CPU"),
        facts("py"),
    ]
    notes = " ".join(gpu(devices_of(inputs(models=models))).notes)
    assert "torch v1: pytorch reports nothing" in notes and "its growth is taken as theirs" in notes
    # The tracker counts on GPUs alone.
    assert "memory-tracker" not in notes
    measured = inputs(models=models, changes=[change("torch", GIB, 3 * GIB)])
    assert "reports nothing" not in " ".join(gpu(devices_of(measured)).notes)
