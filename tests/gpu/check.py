"""Memory accounting against a real GPU, in under five minutes: `python -m tests.gpu.check`.

Needs NVIDIA's driver, what the sandbox needs, and of Python packages numpy, requests and nvidia-ml-py
alone; a machine without a network gets all of it in one file (tests/gpu/bundle.py). Starts a tritonserver
of its own with two Python models that hold 1 GiB and 3 GiB on GPU 0, beside them another program that holds
512 MiB, and compares what NVML says of each process, how far the card's memory in use grew by NVML and by
Triton's page, and what the app would show.

One JSON line for each step as it is made: what fails, or cannot be done, does not stop the rest. The last
line sums up. Exit status: 0 all hold, 1 one does not, 77 nothing could be checked here. `--rehearse` walks
the same way without a GPU, on processes that hold main memory: it shows that the script works, nothing
about GPUs.

It is no part of `make test`; its rehearsal is (tests/integration/test_gpu_check.py).
"""

from __future__ import annotations

import json
import platform
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from collectors.exposition import SeriesCache, read_page
from collectors.gpu_processes import read_processes
from collectors.nvml import read_cards
from collectors.processes import ProcessTable
from history.inventory import ModelFacts
from sandbox import Sandbox, SandboxOptions
from signals.memory_sources import ServerMemoryInputs, devices_of
from telemetry.facts import ModelState
from telemetry.identity import ModelKey, Server
from telemetry.memory import GpuCard, MemorySource, ServerProcesses
from tests.gpu.rehearsal import OpenTable, made_up_cards

MIB = 2**20
GIB = 2**30
FOLDER = Path(__file__).parent
MODEL = FOLDER / "models" / "holds_gpu_memory"
MOST_CONTEXT_BYTES = 1.5 * GIB
"""A CUDA context takes 300 to 500 MB, more on the largest cards."""
SKIPPED = 77
SETTLE_SECONDS = 3.0
LOAD_SECONDS = 60.0
LIMIT_SECONDS = 270
"""After so long what is being waited for is broken off, and the rest is told as it is."""
STEADY_BYTES = 64 * MIB


class Checks:
    """Tells each check as it is made, and remembers how all went."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self.failed: list[str] = []
        self._began = time.monotonic()

    def tell(self, name: str, ok: bool | None, **figures: object) -> None:
        """`ok` None: a figure to look at, which neither holds nor fails."""
        if ok is not None:
            (self.held if ok else self.failed).append(name)
        at = round(time.monotonic() - self._began, 1)
        print(json.dumps({"check": name, "ok": ok, "at_seconds": at, **figures}), flush=True)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """What goes wrong in it is a failed check of that name; the next step is made all the same."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - partial results are worth more than none
            where = traceback.extract_tb(error.__traceback__)[-1]
            words = f"{type(error).__name__}: {error}"[:500]
            self.tell(name, False, error=words, where=f"{Path(where.filename).name}:{where.lineno}")

    def summary(self) -> int:
        """The last line and the exit status."""
        seconds = round(time.monotonic() - self._began, 1)
        told = {"held": len(self.held), "failed": self.failed, "seconds": seconds}
        print(json.dumps({"summary": told}), flush=True)
        return 1 if self.failed or not self.held else 0


class Bench:
    """Where it is measured: a GPU, or in a rehearsal main memory that stands for one."""

    def __init__(self, rehearse: bool) -> None:
        self.rehearse = rehearse
        scale = 64 * MIB if rehearse else GIB
        self.held = {"one": scale, "three": 3 * scale}
        self.stranger_bytes = scale // 2
        self.least_context, self.most_context = 0.0, float(128 * MIB if rehearse else MOST_CONTEXT_BYTES)
        self.steady_bytes = 16 * MIB if rehearse else STEADY_BYTES

    def cards(self) -> tuple[tuple[GpuCard, ...], str]:
        return made_up_cards() if self.rehearse else read_cards()

    def card(self) -> GpuCard:
        cards, why = self.cards()
        if not cards:
            raise RuntimeError(why)
        return cards[0]

    def processes(self, server: Server) -> ServerProcesses:
        return read_processes(server, OpenTable if self.rehearse else ProcessTable, self.cards)

    def parameters(self, size: int) -> dict[str, str]:
        return {"held_bytes": str(size), "rehearse": "1" if self.rehearse else "0"}


def main(arguments: list[str]) -> int:
    """Run all checks."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LIMIT_SECONDS)
    bench, checks = Bench("--rehearse" in arguments), Checks()
    cards, why = bench.cards()
    if not cards:
        print(json.dumps({"skipped": why}))
        return SKIPPED
    checks.tell("surroundings", None, rehearsal=bench.rehearse, **surroundings(cards))
    options = SandboxOptions(
        http_port=0, grpc_port=0, metrics_port=0, models=(), simulated_gpu=False, onnx_files=False,
        real_gpu=not bench.rehearse,
    )  # fmt: skip
    with checks.step("tritonserver starts"), Sandbox(options) as sandbox:
        checks.tell("tritonserver starts", True, pid=sandbox.pid)
        try:
            with _stranger(bench, checks):
                _measure(sandbox, bench, checks)
        finally:
            if checks.failed:
                log = sandbox.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
                checks.tell("log of tritonserver", None, last_lines=log[-30:])
    return checks.summary()


def _too_long(_number: int, _frame: object) -> None:
    raise TimeoutError(f"not done within {LIMIT_SECONDS} s")


def _measure(sandbox: Sandbox, bench: Bench, checks: Checks) -> None:
    server = Server("gpu", sandbox.http_url, sandbox.metrics_url)
    before = 0
    with checks.step("Triton's figures of the card"):
        time.sleep(SETTLE_SECONDS)
        before = bench.card().used_bytes
        _compare_used(sandbox, bench, checks)
    for name, size in bench.held.items():
        with checks.step(f"load of {name}"):
            _load(sandbox, name, bench, checks, size)
    found = ServerProcesses(None)
    with checks.step("processes are seen"):
        found = bench.processes(server)
        _compare_processes(found, bench, checks)
    with checks.step("growth of the card = processes"):
        _compare_growth(found, before, bench, checks)
    with checks.step("another program is named"):
        _compare_stranger(found, bench, checks)
    with checks.step("shown by the app"):
        _compare_page(server, found, bench, checks)
    with checks.step("given back after unload"):
        for name in bench.held:
            _post(sandbox, name, "unload")
        _wait(lambda: not bench.processes(server).stubs)
        time.sleep(SETTLE_SECONDS)
        left = bench.card().used_bytes - before
        checks.tell("given back after unload", left < bench.steady_bytes, left_bytes=left)


def surroundings(cards: tuple[GpuCard, ...]) -> dict[str, object]:
    """What somebody must know who reads the results elsewhere."""
    driver: str
    try:
        import pynvml

        pynvml.nvmlInit()
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        pynvml.nvmlShutdown()
    except Exception as error:  # noqa: BLE001 - a figure to look at
        driver = f"not told ({error})"
    return {
        "cards": [
            {
                "name": one.name, "total_bytes": one.total_bytes, "used_bytes": one.used_bytes,
                "reserved_bytes": one.reserved_bytes, "processes": len(one.tenants), "why": one.why,
            }
            for one in cards
        ],
        "driver": driver,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "pid_namespace": str(Path("/proc/self/ns/pid").readlink()),
    }  # fmt: skip


@contextmanager
def _stranger(bench: Bench, checks: Checks) -> Iterator[None]:
    """A program on the card that is no model's; without it the rest is measured all the same."""
    command = [sys.executable, str(FOLDER / "holder.py"), str(bench.stranger_bytes)]
    command += ["--rehearse"] if bench.rehearse else []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        late = threading.Timer(LOAD_SECONDS, process.kill)
        late.start()
        try:
            said = process.stdout.readline().strip() if process.stdout is not None else ""
            if said != "holds":
                checks.tell("another program starts", False, said=said)
            late.cancel()
            yield
        finally:
            late.cancel()
            process.kill()


def _load(sandbox: Sandbox, name: str, bench: Bench, checks: Checks, size: int) -> None:
    before, began = bench.card().used_bytes, time.monotonic()
    page_before = _page_bytes(sandbox)
    sandbox.add_model(MODEL, name=name, parameters=bench.parameters(size))
    _post(sandbox, name, "load")
    seconds = round(time.monotonic() - began, 2)
    time.sleep(SETTLE_SECONDS)
    grown, page_after = bench.card().used_bytes - before, _page_bytes(sandbox)
    page_grown = None if page_before is None or page_after is None else page_after - page_before
    context = grown - size
    checks.tell(
        f"load of {name}",
        bench.least_context - bench.steady_bytes <= context <= bench.most_context,
        held_bytes=size, grown_bytes=grown, context_bytes=context, grown_by_page_bytes=page_grown,
        load_seconds=seconds,
    )  # fmt: skip
    if page_grown is not None:
        same = abs(page_grown - grown) <= bench.steady_bytes
        checks.tell(f"growth by Triton's page = by NVML ({name})", same, page=page_grown, nvml=grown)


def _page_bytes(sandbox: Sandbox) -> float | None:
    """What Triton's page says is in use on the first card; None where it has no such figure."""
    page = read_page(requests.get(sandbox.metrics_url, timeout=10).text, SeriesCache())
    values = dict(zip(page.samples.series, page.samples.values.tolist(), strict=True))
    return next((value for one, value in values.items() if one.name == "nv_gpu_memory_used_bytes"), None)


def _compare_used(sandbox: Sandbox, bench: Bench, checks: Checks) -> None:
    """Whether Triton's "used" leaves out what the driver reserves, as the app takes it to."""
    page, card = _page_bytes(sandbox), bench.card()
    figures = {"page_bytes": page, "nvml_bytes": card.used_bytes, "reserved_bytes": card.reserved_bytes}
    if page is None:
        checks.tell(
            "Triton's figures of the card", None, why="its page has no nv_gpu_memory_used_bytes", **figures
        )
    else:
        same = abs(page - card.used_bytes) <= bench.steady_bytes
        checks.tell("Triton's figures of the card", same, **figures)


def _compare_processes(found: ServerProcesses, bench: Bench, checks: Checks) -> None:
    """Each process holds what its model allocated and one context; the context is the same for both."""
    uuid = found.cards[0].uuid if found.cards else ""
    sizes = {stub.model: stub.gpu_bytes.get(uuid) for stub in found.stubs}
    seen = bool(sizes) and None not in sizes.values() and not found.gpu_why
    tenants = [[one.pid, one.name, one.bytes, one.ours] for card in found.cards for one in card.tenants]
    checks.tell("processes are seen", seen, sizes=sizes, why=found.why or found.gpu_why, tenants=tenants)
    for name, held in bench.held.items():
        size = sizes.get(name)
        context = None if size is None else size - held
        ok = context is not None and 0 <= context <= bench.most_context
        checks.tell(f"process of {name} = allocated + context", ok, held_bytes=held, context_bytes=context)
    one, three = sizes.get("one"), sizes.get("three")
    apart, wanted = (None if one is None or three is None else three - one), 2 * bench.held["one"]
    ok = apart is not None and abs(apart - wanted) <= 0.02 * wanted
    checks.tell("the two processes differ by what they allocated", ok, apart_bytes=apart, wanted_bytes=wanted)


def _compare_growth(found: ServerProcesses, before: int, bench: Bench, checks: Checks) -> None:
    """The card grew by what the two processes hold, within 5 %."""
    uuid = found.cards[0].uuid if found.cards else ""
    grown = bench.card().used_bytes - before
    held = sum(stub.gpu_bytes.get(uuid, 0) for stub in found.stubs)
    ok = held > 0 and abs(grown - held) <= max(0.05 * held, bench.steady_bytes)
    checks.tell("growth of the card = processes", ok, grown_bytes=grown, processes_bytes=held)


def _compare_stranger(found: ServerProcesses, bench: Bench, checks: Checks) -> None:
    """The other program is named by its script and counted as no model's."""
    others = [one for card in found.cards for one in card.tenants if not one.ours]
    mine = next((one for one in others if "holder.py" in one.name), None)
    ok = mine is not None and mine.bytes is not None and mine.bytes >= bench.stranger_bytes
    checks.tell(
        "another program is named", ok, others={one.name or str(one.pid): one.bytes for one in others}
    )


def _compare_page(server: Server, found: ServerProcesses, bench: Bench, checks: Checks) -> None:
    """The GPU page would show both models by process, the other program, and the rest as unattributed."""
    models = [ModelFacts(ModelKey(server.id, name, "1"), ModelState.READY) for name in bench.held]
    devices = devices_of(ServerMemoryInputs(server.id, models, processes=found, processes_at=time.time()))
    card = next((one for one in devices if found.cards and one.device == found.cards[0].uuid), None)
    shown = {} if card is None else {one.key.name: one.shown for one in card.models}
    ok = set(shown) == set(bench.held) and all(one.source is MemorySource.PROCESS for one in shown.values())
    checks.tell(
        "shown by the app",
        ok,
        models={name: one.bytes for name, one in shown.items()},
        others={} if card is None else {part.name: part.bytes for part in card.others},
        unattributed_bytes=None if card is None else card.unattributed_bytes,
        attributed_ratio=None if card is None else card.attributed_ratio,
        free_bytes=None if card is None else card.free_bytes,
        notes=[] if card is None else list(card.notes),
    )


def _post(sandbox: Sandbox, model: str, verb: str) -> None:
    url = f"{sandbox.http_url}/v2/repository/models/{model}/{verb}"
    answer = requests.post(url, timeout=LOAD_SECONDS)
    if answer.status_code != 200:
        raise RuntimeError(f"{verb} of {model}: {answer.text}")


def _wait(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
