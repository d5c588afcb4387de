"""Processes of a server: what /proc and NVML print, and what it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from collectors.gpu_processes import ProcessCollector, process_samples, read_processes
from collectors.nvml import read_cards
from collectors.processes import (
    Process,
    ProcessTable,
    StubCall,
    local_port,
    parse_http_port,
    parse_listening,
    parse_private_bytes,
    parse_stat,
    parse_stub,
)
from collectors.weights import repositories
from telemetry.identity import Server
from telemetry.memory import GpuCard, GpuTenant, ServerProcesses, StubProcess

SERVER = Server("a", "http://127.0.0.1:8000", "http://127.0.0.1:8002/metrics")
ROLLUP = """55e63d61b000-7ffc22c67000 ---p 00000000 00:00 0                          [rollup]
Rss:               66880 kB
Pss:               30038 kB
Shared_Clean:      39176 kB
Shared_Dirty:        892 kB
Private_Clean:         4 kB
Private_Dirty:     26812 kB
Private_Hugetlb:       0 kB
Swap:                 40 kB
SwapPss:              10 kB
"""
TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 31337 1 0
   1: 0100007F:1F40 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 31338 1 0
"""

NO_DRIVER = "NVML cannot be used here: NVML Shared Library Not Found"


def stub(path: str, instance: str, program: str = "/b/python/triton_python_backend_stub") -> list[str]:
    return [program, path, "shm", "1048576", "1048576", "31441", "/b/python", "336", instance, "DEFAULT"]


def test_a_stub_says_whose_instance_it_is() -> None:
    assert parse_stub(stub("/m/add/3/model.py", "add_0_1")) == StubCall("add", "3", "add_0_1")
    assert parse_stub(stub("/m/add/3/model.py", "own_group_0")) == StubCall("add", "3", "own_group_0")
    # Files that came with the load request lie in a folder that is not called as the model.
    assert parse_stub(stub("/tmp/folderA1b2C3/1/model.py", "sent_0_1")) == StubCall("sent", "1", "sent_0_1")
    assert parse_stub(stub("/tmp/folderA1b2C3/1/model.py", "sent_0")) == StubCall("sent", "1", "sent_0")


@pytest.mark.parametrize(
    "arguments",
    [
        stub("/m/add/1/model.py", "add"),  # only asks for the configuration at load
        stub("/m/add/1/model.py", "add_0", program="/bin/sh"),
        stub("/m/add/v1/model.py", "add_0"),
        stub("model.py", "add_0"),
        ["triton_python_backend_stub"],
        [],
    ],
)
def test_other_processes_are_no_instances(arguments: list[str]) -> None:
    assert parse_stub(arguments) is None


def test_private_memory_is_what_no_other_process_maps() -> None:
    assert parse_private_bytes(ROLLUP) == 1024 * (4 + 26812 + 10)
    assert parse_private_bytes("") is None


def test_a_process_is_read_whatever_its_name() -> None:
    tail = " ".join(["S", "42", *("0" for _ in range(17)), "987", "0"])
    assert parse_stat(f"7 (a) (b) {tail}") == Process(7, 42, 987, "a) (b")
    assert parse_stat(f"7 (gone) {tail.replace('S', 'Z', 1)}") is None
    assert parse_stat("") is None


def test_only_listening_sockets_count() -> None:
    assert parse_listening(TCP, 8000) == {"31337"}
    assert parse_listening(TCP, 50000) == set()


def test_the_http_port_of_a_command_line() -> None:
    assert parse_http_port(["tritonserver", "--http-port=9000"]) == 9000
    assert parse_http_port(["tritonserver", "--http-port", "9001", "--id=x"]) == 9001
    assert parse_http_port(["tritonserver"]) == 8000


def test_addresses_of_this_machine() -> None:
    assert local_port("http://127.0.0.1:8000/x") == 8000
    assert local_port("http://192.0.2.1:8000") is None
    assert local_port(None) is None


@dataclass
class Table:
    """A table of processes without a machine."""

    processes: dict[int, Process]
    lines: dict[int, list[str]]
    sizes: dict[int, int]
    server: int | None = 1
    why: str = ""
    without_gpu: tuple[int, ...] = ()

    def program(self, pid: int) -> str:
        return self.processes[pid].name if pid in self.processes else ""

    def uses_gpu(self, pid: int) -> bool | None:
        return pid not in self.without_gpu

    def server_of(
        self, server: Server, ports: Sequence[int], known: Process | None = None
    ) -> tuple[int | None, str]:
        return self.server, self.why

    def children(self, pid: int) -> list[Process]:
        return [one for one in self.processes.values() if one.parent == pid]

    def tree(self, pid: int) -> list[int]:
        below = [two for one in self.children(pid) for two in self.tree(one.pid)]
        return [pid, *below]

    def arguments(self, pid: int) -> list[str]:
        return self.lines.get(pid, [])

    def private_bytes(self, pids: Sequence[int]) -> int | None:
        known = [self.sizes[pid] for pid in pids if pid in self.sizes]
        return sum(known) if known else None


def table(**changes: Any) -> Any:
    """tritonserver (1), two instances of `add` (2, 3), the second with a worker (4), a stranger (9)."""
    names = {1: ("tritonserver", 0), 2: ("stub", 1), 3: ("stub", 1), 4: ("worker", 3), 9: ("python3", 0)}
    processes = {pid: Process(pid, parent, 0, name) for pid, (name, parent) in names.items()}
    lines = {2: stub("/m/add/1/model.py", "add_0_0"), 3: stub("/m/add/1/model.py", "add_0_1")}
    values = {"processes": processes, "lines": lines, "sizes": {1: 5, 2: 100, 3: 200, 4: 30}, **changes}
    return Table(**values)


def card(*tenants: GpuTenant) -> GpuCard:
    return GpuCard("GPU-1", 0, "H", 1000, 900, tenants)


def test_instances_and_their_workers_are_the_models() -> None:
    cards = (card(GpuTenant(4, "", 60), GpuTenant(2, "", 40), GpuTenant(1, "", 300), GpuTenant(9, "", 50)),)
    found = read_processes(SERVER, lambda: table(), lambda: (cards, ""))
    assert (found.pid, found.server_private_bytes, found.gpu_why) == (1, 5, "")
    assert found.stubs == (
        StubProcess(2, "add", "1", "add_0_0", 100, {"GPU-1": 40}),
        StubProcess(3, "add", "1", "add_0_1", 230, {"GPU-1": 60}),
    )
    assert [(one.name, one.ours, one.model) for one in found.cards[0].tenants] == [
        ("worker", True, "add"),
        ("stub", True, "add"),
        ("tritonserver", True, ""),
        ("python3", False, ""),
    ]
    samples = process_samples(found)
    assert {
        (one.label("kind"), one.label("device"), one.label("model"), one.label("source")): value
        for one, value in zip(samples.series, samples.values.tolist(), strict=True)
    } == {("CPU", "0", "add", "process"): 330.0, ("GPU", "GPU-1", "add", "process"): 100.0}
    smallest = found.smallest_stub()
    assert smallest is not None and smallest.instance == "add_0_0"


def test_a_size_that_is_hidden_is_no_zero() -> None:
    cards = (card(GpuTenant(2, "", None), GpuTenant(4, "", 60)),)
    found = read_processes(SERVER, lambda: table(sizes={1: 5, 2: 100}), lambda: (cards, ""))
    assert [dict(one.gpu_bytes) for one in found.stubs] == [{}, {"GPU-1": 60}]
    # One instance cannot be read: the model has no figure rather than half of one.
    assert {one.label("kind") for one in process_samples(found).series} == {"GPU"}


def test_process_ids_of_another_namespace_are_said_to_be() -> None:
    found = read_processes(SERVER, lambda: table(), lambda: ((card(GpuTenant(70000, "", 5)),), ""))
    assert "share the host's process namespace" in found.gpu_why


def test_a_process_that_has_no_gpu_open_is_not_the_one_that_nvml_means() -> None:
    """By the host's ids 3 is somebody else: here it is an instance that never touched a GPU."""
    cards = (card(GpuTenant(3, "", 600), GpuTenant(9, "", 50), GpuTenant(1, "", 300)),)
    found = read_processes(SERVER, lambda: table(without_gpu=(3, 1)), lambda: (cards, ""))
    assert [(one.pid, one.name, one.ours, one.model) for one in found.cards[0].tenants] == [
        (3, "", False, ""),
        (9, "python3", False, ""),
        (1, "", False, ""),
    ]
    assert all(not one.gpu_bytes for one in found.stubs)
    assert found.gpu_why == ""


def proc(folder: Path, pid: int, name: str, arguments: Sequence[str], *opened: str) -> None:
    """One process as /proc shows it."""
    tail = " ".join(["S", "1", *("0" for _ in range(17)), "987", "0"])
    (folder / str(pid) / "fd").mkdir(parents=True)
    (folder / str(pid) / "stat").write_text(f"{pid} ({name}) {tail}")
    (folder / str(pid) / "cmdline").write_bytes("\0".join(arguments).encode() + b"\0")
    for number, target in enumerate(opened):
        (folder / str(pid) / "fd" / str(number)).symlink_to(target)


@pytest.mark.parametrize(
    ("name", "arguments", "program"),
    [
        ("python3", ["python3", "-u", "/srv/jobs/train.py", "--token", "s3cret"], "python3 train.py"),
        (
            "python3.11",
            ["python3.11", "-m", "vllm.entrypoints", "--key=s3cret"],
            "python3.11 -m vllm.entrypoints",
        ),
        ("python3", ["python3", "-c", "s3cret"], "python3"),
        ("ffmpeg", ["ffmpeg", "-i", "s3cret.py"], "ffmpeg"),
    ],
)
def test_a_program_is_named_by_what_it_runs_and_by_no_other_argument(
    tmp_path: Path, name: str, arguments: list[str], program: str
) -> None:
    proc(tmp_path, 7, name, arguments, "/dev/null", "/dev/nvidia0")
    proc(tmp_path, 8, "bash", ["bash"], "/dev/null")
    table = ProcessTable(tmp_path)
    assert (table.program(7), table.program(9)) == (program, "")
    assert (table.uses_gpu(7), table.uses_gpu(8), table.uses_gpu(9)) == (True, False, None)


def test_hundreds_of_processes_are_looked_at_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    worked = iter([10.0, 10.4, 20.0, 20.1])
    now = [100.0]
    monkeypatch.setattr("collectors.gpu_processes.time.thread_time", lambda: next(worked))
    monkeypatch.setattr("collectors.gpu_processes.time.monotonic", lambda: now[0])
    collector = ProcessCollector(SERVER, table=lambda: table(), cards=lambda: ((), NO_DRIVER))
    assert collector.collect() is not None
    # 0.4 s of work may come once in 20 s.
    now[0] = 119.0
    assert collector.collect() is None
    now[0] = 121.0
    assert collector.collect() is not None


def test_a_stub_lives_until_two_readings_in_a_row_are_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.gpu_processes.MOST_CPU_SHARE", float("inf"))
    tables = iter([table(), table(lines={}), table(lines={})])
    collector = ProcessCollector(SERVER, table=lambda: next(tables), cards=lambda: ((), NO_DRIVER))
    readings = [scrape.payload for _ in range(3) if (scrape := collector.collect()) is not None]
    # The last two instances went: while a model is loaded anew, one reading may meet it without any.
    assert [one.living("add", "1") for one in readings] == [2, 2, 0]  # type: ignore[attr-defined]
    assert [len(one.stubs) for one in readings] == [2, 0, 0]  # type: ignore[attr-defined]


def test_since_when_stubs_are_missing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100.0, 200.0])
    monkeypatch.setattr("collectors.gpu_processes.time.time", lambda: next(now))
    hidden = table(server=None, why="no process named tritonserver can be seen from here")
    tables = iter([table(), table(lines={}), hidden, table(lines={}), table(), table(lines={})])
    collector = ProcessCollector(SERVER, table=lambda: next(tables), cards=lambda: ((), NO_DRIVER))
    told = [collector._read().payload.fewer_since.get(("add", "1")) for _ in range(6)]  # type: ignore[attr-defined]
    # Gone at 100, still gone, there again, gone again at 200; what is out of sight says nothing.
    assert told == [None, 100.0, None, 100.0, None, 200.0]


def test_what_cannot_be_seen_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.gpu_processes.MOST_CPU_SHARE", float("inf"))
    hidden = table(server=None, why="no process named tritonserver can be seen from here")
    tables = iter([hidden, hidden, table(), hidden])
    collector = ProcessCollector(SERVER, table=lambda: next(tables), cards=lambda: ((), NO_DRIVER))
    scrapes = [collector.collect() for _ in range(4)]
    whys = [None if one is None else one.payload.why for one in scrapes]  # type: ignore[attr-defined]
    assert whys == [hidden.why, None, "", hidden.why]
    assert all(one is None or one.ok for one in scrapes)
    far = ProcessCollector(Server("b", "http://192.0.2.1:8000", None), table=lambda: pytest.fail("read"))
    scrape = far.collect()
    assert scrape is not None and scrape.payload == ServerProcesses(None, "it runs on another machine")


class Nvml(SimpleNamespace):
    """The part of pynvml that is used, with two cards."""

    class NVMLError(Exception):
        pass

    refuses = False
    lost: tuple[int, ...] = ()
    silent = False

    def nvmlInit(self) -> None:
        if self.refuses:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlShutdown(self) -> None:
        self.shut = True

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:
        if number in self.lost:
            raise self.NVMLError("GPU is lost")
        return number

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(total=1000, used=100 + handle)

    def nvmlDeviceGetUUID(self, handle: int) -> str | bytes:
        return b"GPU-0" if handle == 0 else "GPU-1"

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "NVIDIA H"

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        if self.silent:
            raise self.NVMLError("Insufficient Permissions")
        return [SimpleNamespace(pid=7, usedGpuMemory=40), SimpleNamespace(pid=8, usedGpuMemory=None)]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: int) -> list[Any]:
        if handle == 1:
            raise self.NVMLError("Not Supported")
        return [SimpleNamespace(pid=7, usedGpuMemory=41)]


def test_cards_as_nvml_tells_them() -> None:
    library = Nvml()
    cards, why = read_cards(library)
    assert (why, library.shut) == ("", True)
    assert cards == (
        GpuCard("GPU-0", 0, "NVIDIA H", 1000, 100, (GpuTenant(7, "", 41), GpuTenant(8, "", None))),
        GpuCard("GPU-1", 1, "NVIDIA H", 1000, 101, (GpuTenant(7, "", 40), GpuTenant(8, "", None))),
    )


class NewerNvml(Nvml):
    """A driver that tells what it keeps for itself."""

    nvmlMemory_v2 = 2

    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int = 1) -> Any:
        assert version == 2
        return SimpleNamespace(total=1000, used=100, reserved=60)


class OlderNvml(Nvml):
    """The library knows the newer call, the driver does not."""

    nvmlMemory_v2 = 2

    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int = 1) -> Any:
        if version == 2:
            raise self.NVMLError("Function Not Found")
        return SimpleNamespace(total=1000, used=160)


def test_what_the_driver_keeps_for_itself_is_told_where_it_says_so() -> None:
    newer, older = read_cards(NewerNvml())[0], read_cards(OlderNvml())[0]
    assert [(one.used_bytes, one.reserved_bytes) for one in newer] == [(100, 60), (100, 60)]
    assert [(one.used_bytes, one.reserved_bytes) for one in older] == [(160, None), (160, None)]


def test_a_card_that_is_lost_does_not_hide_the_others() -> None:
    cards, why = read_cards(Nvml(lost=(0,)))
    assert ([one.uuid for one in cards], why) == (["GPU-1"], "")
    assert read_cards(Nvml(lost=(0, 1))) == (
        (),
        "NVML could not read card 0: GPU is lost; NVML could not read card 1: GPU is lost",
    )


def test_processes_that_nvml_may_not_tell_leave_the_card_its_figures() -> None:
    cards, why = read_cards(Nvml(silent=True))
    assert [(one.used_bytes, one.tenants) for one in cards] == [(100, ()), (101, ())]
    assert cards[0].why == "NVML does not tell which processes are on it: Insufficient Permissions"
    assert why == ""


def test_without_a_driver_nvml_says_why() -> None:
    assert read_cards(Nvml(refuses=True)) == ((), "NVML cannot be used here: Driver Not Loaded")


def test_repositories_on_a_command_line() -> None:
    arguments = ["tritonserver", "--model-repository=/m/one", "--model-store", "/m/two", "--id=x"]
    assert repositories(arguments) == ("/m/one", "/m/two")
    # What lies in an object store cannot be read here.
    assert repositories(["tritonserver", "--model-repository=s3://bucket/models"]) == ()
