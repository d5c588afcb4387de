"""Memory accounting against a real GPU, in under five minutes: `python -m tests.gpu.check`.

Needs what the sandbox needs and an NVIDIA driver. Starts a
tritonserver of its own with two Python models that hold 1 GiB and 3 GiB on GPU 0, and compares three figures:
what NVML says of each process, how far the card's memory in use grew, and what the app would show. One JSON
line for each check. Exit status: 0 all hold, 1 one does not, 77 nothing could be checked here.

It is no part of `make test`: pytest does not collect it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import requests

from collectors.gpu_processes import read_processes
from collectors.nvml import read_cards
from history.inventory import ModelFacts
from sandbox import Sandbox, SandboxOptions
from signals.memory_sources import ServerMemoryInputs, devices_of
from telemetry.facts import ModelState
from telemetry.identity import ModelKey, Server
from telemetry.memory import MemorySource, ServerProcesses

GIB = 2**30
HELD = {"one": GIB, "three": 3 * GIB}
MODEL = Path(__file__).parent / "models" / "holds_gpu_memory"
MOST_CONTEXT_BYTES = 1.5 * GIB
"""A CUDA context takes 300 to 500 MB, more on the largest cards."""
SKIPPED = 77
_SETTLE_SECONDS = 3.0


class Checks:
    """Tells each check as it is made, and remembers whether all held."""

    def __init__(self) -> None:
        self.held = True

    def tell(self, name: str, ok: bool, **figures: object) -> None:
        self.held &= ok
        print(json.dumps({"check": name, "ok": ok, **figures}), flush=True)


def main() -> int:
    """Run all checks."""
    cards, why = read_cards()
    if not cards:
        print(json.dumps({"skipped": why}))
        return SKIPPED
    print(json.dumps({"card": cards[0].name, "total_bytes": cards[0].total_bytes}))
    options = SandboxOptions(
        http_port=0, grpc_port=0, metrics_port=0, models=(), simulated_gpu=False,
        extra_args=("--allow-gpu-metrics=true",),
    )  # fmt: skip
    checks = Checks()
    with Sandbox(options) as sandbox:
        server = Server("gpu", sandbox.http_url, sandbox.metrics_url)
        before = read_cards()[0][0].used_bytes
        for name, size in HELD.items():
            sandbox.add_model(MODEL, name=name, parameters={"held_bytes": str(size)})
            _post(sandbox, name, "load")
        time.sleep(_SETTLE_SECONDS)
        found = read_processes(server)
        _compare_processes(found, checks)
        _compare_growth(found, before, checks)
        _compare_page(server, found, checks)
        for name in HELD:
            _post(sandbox, name, "unload")
        _wait(lambda: not read_processes(server).stubs)
        time.sleep(_SETTLE_SECONDS)
        after = read_cards()[0][0].used_bytes
        checks.tell("given back after unload", after - before < 64 * 2**20, left_bytes=after - before)
    return 0 if checks.held else 1


def _compare_processes(found: ServerProcesses, checks: Checks) -> None:
    """Each process holds what its model allocated and one context; the context is the same for both."""
    uuid = found.cards[0].uuid if found.cards else ""
    sizes = {stub.model: stub.gpu_bytes.get(uuid) for stub in found.stubs}
    checks.tell(
        "processes are seen", not found.gpu_why and None not in sizes.values(), sizes=sizes, why=found.gpu_why
    )
    for name, held in HELD.items():
        size = sizes.get(name)
        context = None if size is None else size - held
        ok = context is not None and 0 <= context <= MOST_CONTEXT_BYTES
        checks.tell("process = allocated + context", ok, model=name, held_bytes=held, context_bytes=context)
    one, three = sizes.get("one"), sizes.get("three")
    apart = None if one is None or three is None else three - one
    ok = apart is not None and abs(apart - 2 * GIB) <= 0.02 * 2 * GIB
    checks.tell("3 GiB - 1 GiB by process", ok, apart_bytes=apart)


def _compare_growth(found: ServerProcesses, before: int, checks: Checks) -> None:
    """The card grew by what the two processes hold, within 5 %."""
    uuid = found.cards[0].uuid if found.cards else ""
    grown = read_cards()[0][0].used_bytes - before
    held = sum(stub.gpu_bytes.get(uuid, 0) for stub in found.stubs)
    ok = held > 0 and abs(grown - held) <= 0.05 * held
    checks.tell("growth of the card = processes", ok, grown_bytes=grown, processes_bytes=held)


def _compare_page(server: Server, found: ServerProcesses, checks: Checks) -> None:
    """The GPU page would show both models by process, and what is left as unattributed."""
    models = [ModelFacts(ModelKey(server.id, name, "1"), ModelState.READY) for name in HELD]
    devices = devices_of(ServerMemoryInputs(server.id, models, processes=found, processes_at=time.time()))
    card = next((one for one in devices if found.cards and one.device == found.cards[0].uuid), None)
    shown = {} if card is None else {one.key.name: one.shown for one in card.models}
    ok = set(shown) == set(HELD) and all(one.source is MemorySource.PROCESS for one in shown.values())
    checks.tell(
        "shown by the app",
        ok,
        models={name: one.bytes for name, one in shown.items()},
        others={} if card is None else {part.name: part.bytes for part in card.others},
        unattributed_bytes=None if card is None else card.unattributed_bytes,
        attributed_ratio=None if card is None else card.attributed_ratio,
    )


def _post(sandbox: Sandbox, model: str, verb: str) -> None:
    url = f"{sandbox.http_url}/v2/repository/models/{model}/{verb}"
    answer = requests.post(url, timeout=60)
    if answer.status_code != 200:
        raise SystemExit(f"{verb} of {model}: {answer.text}")


def _wait(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
