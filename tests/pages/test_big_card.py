"""A card of 139 GiB with six models of every kind: is each sentence true, and enough?"""

from __future__ import annotations

import json
import time

import pytest
from fake_runtime import runtime_of

from telemetry.memory import GpuCard, GpuTenant, ServerProcesses, StubProcess
from telemetry.scrape import Scrape, Source

GIB = 2**30
UUID = "GPU-7f3a"
TOTAL, USED = 139 * GIB, 118 * GIB
BACKENDS = {
    "onnx": ("onnxruntime", 2), "engine": ("tensorrt", 1), "torch": ("pytorch", 1), "rank": ("python", 2),
    "llm": ("vllm", 1), "plain": ("onnxruntime", 1),
}  # fmt: skip


def page() -> str:
    return (
        "# TYPE nv_gpu_memory_total_bytes gauge\n"
        f'nv_gpu_memory_total_bytes{{gpu_uuid="{UUID}"}} {TOTAL}\n'
        "# TYPE nv_gpu_memory_used_bytes gauge\n"
        f'nv_gpu_memory_used_bytes{{gpu_uuid="{UUID}"}} {USED}\n'
    )


def config(name: str, backend: str, count: int) -> str:
    group = {"name": name, "kind": "KIND_GPU", "count": count, "gpus": [0]}
    return json.dumps({"name": name, "backend": backend, "max_batch_size": 8, "instance_group": [group]})


def statistics() -> str:
    """ONNX Runtime and TensorRT report what they took at load, "plain" does not."""
    sizes = {"onnx": 4 * GIB, "engine": 6 * GIB}
    rows = [
        {
            "name": name,
            "version": "1",
            "inference_stats": {},
            "memory_usage": [{"type": "GPU", "id": 0, "byte_size": sizes[name]}] if name in sizes else [],
        }
        for name in BACKENDS
    ]
    return json.dumps({"model_stats": rows})


def process():
    stubs = (
        StubProcess(2, "rank", "1", "rank_0_0", 60 << 20, {UUID: 3 * GIB}),
        StubProcess(3, "rank", "1", "rank_0_1", 60 << 20, {UUID: 3 * GIB}),
        StubProcess(4, "llm", "1", "llm_0_0", 900 << 20, {UUID: 70 * GIB}),
    )
    tenants = (
        GpuTenant(1, "tritonserver", 25 * GIB, True),
        GpuTenant(2, "stub", 3 * GIB, True, "rank", "1"),
        GpuTenant(3, "stub", 3 * GIB, True, "rank", "1"),
        GpuTenant(4, "stub", 70 * GIB, True, "llm", "1"),
        GpuTenant(9, "python3 train.py", 12 * GIB),
    )
    card = GpuCard(UUID, 0, "NVIDIA H200", TOTAL, USED, tenants, GIB)
    seen = ServerProcesses(1, "", 2 * GIB, stubs, (card,), weights={("torch", "1"): 5 * GIB})
    index = json.dumps([{"name": name, "version": "1", "state": "READY"} for name in BACKENDS])
    made = runtime_of(
        [page()] * 2,
        statistics=[statistics()],
        indexes=[index],
        configs=[config(name, *rest) for name, rest in BACKENDS.items()],
    )
    server = made.servers[0].id
    made.accept(Scrape(server, Source.PROCESSES, time.time() - 3, 0.01, payload=seen))
    return made


def test_the_bar_says_first_how_much_is_known_and_how_to_know_more(open_page) -> None:
    words = open_page(process(), "gpu").words("bar_0")
    # 10 GiB reported, 76 by process, tritonserver's other 15, 12 of somebody else: 113 of 118.
    first = words.index("At least 95.8 % of what is in use has an owner")
    assert first < words.index("llm v1 70 GiB")
    more = words[first : words.index("llm v1 70 GiB")]
    assert "How to know more" in more
    assert "--backend-config=onnxruntime,triton-backend-memory-tracker=true" in more
    assert "torch v1: pytorch reports nothing" in more
    for told in (
        "onnx v1 ≥ 4 GiB reported",
        "engine v1 ≥ 6 GiB reported",
        "rank v1 6 GiB process 2 processes, each with its CUDA context, high confidence",
        "a reservation: this backend takes a share of the card for its cache, needed or not",
        "torch v1 about 5 GiB estimate weight files of 5 GiB; activations come on top, low confidence",
        "tritonserver 15 GiB its context, its pools, and models nobody reports; about 5 GiB of it by",
        "python3 train.py 12 GiB another program on this card (process 9)",
        "llm v1 70 GiB process 1 process, with its CUDA context; a reservation",
        "unattributed ≤ 5 GiB held by no process that NVML names",
        "driver 1 GiB kept by the driver, in no figure of use",
        "free 20 GiB",
    ):
        assert told in words, told
    assert "plain" not in words.replace("plain v1: ", "")


FREE = "20 GiB are free: at least"
AT_LEAST = "a lower bound, so up to 40% more"
SHARED = "instances on one card share their weights, so it may be far less"


@pytest.mark.parametrize(
    ("model", "answer", "basis"),
    [
        (
            "rank v1",
            f"fits 1 instance more of rank v1 Needs 3 GiB to 3.6 GiB, {FREE} 16.4 GiB are left.",
            "6 GiB (process, high confidence) / 2.",
        ),
        (
            "onnx v1",
            f"fits 1 instance more of onnx v1 Needs 2 GiB to 2.8 GiB, {FREE} 17.2 GiB are left.",
            f"4 GiB (reported, high confidence) / 2; {AT_LEAST}.",
        ),
        (
            "engine v1",
            f"Needs 0 B to 8.4 GiB, {FREE} 11.6 GiB are left.",
            f"6 GiB (reported, high confidence); {AT_LEAST}; {SHARED}.",
        ),
        (
            "torch v1",
            f"Needs 5 GiB to 6 GiB, {FREE} 14 GiB are left.",
            "5 GiB (estimate, low confidence).",
        ),
        (
            "llm v1",
            "does not fit 1 instance more of llm v1 Needs 70 GiB, 20 GiB are free: 50 GiB short at the "
            "least, unless the share is made smaller for all of them (gpu_memory_utilization).",
            "70 GiB (process, high confidence); a reservation, which another one takes again.",
        ),
    ],
)
def test_a_second_instance_of_each(open_page, model: str, answer: str, basis: str) -> None:
    page = open_page(process(), "capacity")
    box = next(one for one in page.app.selectbox if one.key == "second_model")
    box.set_value(model).run()
    shown = type(page)(page.app).words("second")
    assert f"{answer} Basis: {basis}" in shown
    assert "engine v1, onnx v1 may still grow into it: what is known of them is a lower bound." in shown


def test_the_budget_counts_what_is_nobodys_and_what_others_hold(open_page) -> None:
    words = open_page(process(), "capacity").words("budget")
    # 118 in use - 86 measured - 5 estimated - 477 MiB of the framework.
    assert "other use 26.5 GiB other programs, and what is in use and nobody&#x27;s" in words
    assert "framework 1.47 GiB" in words
    # 6 + 70 reserved + 4 + 6 + 5 GiB; peaks: 1.2 of Python, none of the reservation, 4 of lower bounds, 1.
    assert "fits 5 models together Needs 91 GiB to 97.2 GiB, 111 GiB are available" in words


def test_what_is_edited_stays_while_the_measured_values_move(open_page) -> None:
    made = process()
    page = open_page(made, "capacity")
    field = next(one for one in page.app.number_input if one.label == "Other use, MiB")
    field.set_value(1024.0).run()
    table = page.app.get("dataframe")[0].proto.id
    server = made.servers[0].id
    (last,) = (made.ring.last(server, Source.PROCESSES).payload,)
    moved = tuple(
        StubProcess(one.pid, one.model, "1", one.instance, 1, {UUID: 2 * GIB}) for one in last.stubs
    )
    made.accept(
        Scrape(
            server,
            Source.PROCESSES,
            time.time(),
            0.01,
            payload=ServerProcesses(1, "", 2 * GIB, moved, last.cards),
        )
    )
    page.app.run()
    words = type(page)(page.app).words("budget")
    assert "other use 1 GiB" in words and "Needs 91 GiB to 97.2 GiB" in words
    assert page.app.get("dataframe")[0].proto.id == table
    next(one for one in page.app.button if one.label == "Fill in what is measured now").click().run()
    assert "Needs 91 GiB" not in type(page)(page.app).words("budget")


class Exporter:
    """Prometheus, which knows what an exporter beside the server told."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float, object]] = []

    def gauge(self, family: str, by: object, at: float, *, where: object = (), reduce: object = None):
        self.asked.append((family, at % 30.0, where))
        if family != "tritonscope_model_memory_bytes":
            return {}
        return {("rank", "1", "GPU", UUID): 6.0 * GIB, ("rank", "1", "CPU", "0"): 100.0 * 2**20}


def test_of_a_server_elsewhere_its_exporter_tells(open_page, monkeypatch) -> None:
    made = process()
    server = made.servers[0].id
    away = ServerProcesses(None, "it runs on another machine")
    made.accept(Scrape(server, Source.PROCESSES, time.time(), 0.01, payload=away))
    known = Exporter()
    monkeypatch.setattr(type(made), "distant", property(lambda _self: known))
    words = open_page(made, "gpu").words("bar_0")
    assert "rank v1 6 GiB process its processes, as the exporter beside the server sees them" in words
    assert "not seen from here" not in words
    where = (("server", server), ("source", "process"))
    assert ("tritonscope_model_memory_bytes", 0.0, where) in known.asked
