"""What this machine's /proc says about a server's processes: which one it is, its stubs, their memory.

It works where the app or the exporter shares the server's view of processes: on one host, in one pod
with `shareProcessNamespace`, or with `pid: "service:triton"` in Compose.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from telemetry.identity import Server

PROC = Path("/proc")
SERVER_PROGRAM = "tritonserver"
STUB_PROGRAM = "triton_python_backend_stub"
_LISTENING = "0A"
_DEFAULT_HTTP_PORT = 8000
_TEMPORARY_FOLDER = re.compile(r"folder\w{6}")
_INSTANCE_NUMBERS = re.compile(r"(_\d+){1,2}$")
_INTERPRETERS = ("python", "pypy")
_GPU_DEVICES = ("/dev/nvidia", "/dev/dxg")
_PRIVATE = ("Private_Clean:", "Private_Dirty:", "Private_Hugetlb:", "SwapPss:")


@dataclass(frozen=True, slots=True)
class Process:
    """One living process. `started` is its start in clock ticks since boot: with `pid` it is unique."""

    pid: int
    parent: int
    started: int
    name: str


@dataclass(frozen=True, slots=True)
class StubCall:
    """What a Python stub's command line says: whose instance it is."""

    model: str
    version: str
    instance: str


def parse_stat(text: str) -> Process | None:
    """One /proc/PID/stat; None for a zombie, which holds nothing, or for text that is none."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    pid, _, name = head.partition(" (")
    if len(fields) < 20 or not pid.isdecimal() or fields[0] in ("Z", "X"):
        return None
    return Process(int(pid), int(fields[1]), int(fields[19]), name)


def parse_private_bytes(smaps_rollup: str) -> int | None:
    """Private memory in bytes from /proc/PID/smaps_rollup (in kB): no other process maps these pages."""
    found = None
    for line in smaps_rollup.splitlines():
        name, *values = line.split()[:2] or [""]
        if name in _PRIVATE and values and values[0].isdecimal():
            found = (found or 0) + 1024 * int(values[0])
    return found


def parse_listening(tcp: str, port: int) -> set[str]:
    """Inodes of the sockets that listen on `port`, from /proc/net/tcp or tcp6."""
    wanted = f":{port:04X}"
    rows = (line.split() for line in tcp.splitlines()[1:])
    return {row[9] for row in rows if len(row) > 9 and row[3] == _LISTENING and row[1].endswith(wanted)}


def parse_stub(arguments: list[str]) -> StubCall | None:
    """Whose instance a stub runs, from its arguments; None if it is no stub or one that only asks for the
    configuration at load (its instance is then called as the model itself).
    """  # fmt: skip
    if len(arguments) < 9 or arguments[0].rpartition("/")[2] != STUB_PROGRAM:
        return None
    *_, model, version, _file = ("", "", *arguments[1].split("/"))
    instance = arguments[8]
    if _TEMPORARY_FOLDER.fullmatch(model):
        # Files that came with the load request are put into a temporary folder without the model's name.
        model = _INSTANCE_NUMBERS.sub("", instance)
    if not model or not version.isdecimal() or instance == model:
        return None
    return StubCall(model, version, instance)


def parse_http_port(arguments: Iterable[str]) -> int:
    """The HTTP port on a tritonserver command line; Triton's default where it names none."""
    found = _DEFAULT_HTTP_PORT
    given = list(arguments)
    for place, argument in enumerate(given):
        name, equals, value = argument.partition("=")
        if name != "--http-port":
            continue
        text = value if equals else (given[place + 1] if place + 1 < len(given) else "")
        found = int(text) if text.isdecimal() else found
    return found


class ProcessTable:
    """All processes of this machine that can be seen, read once."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self.processes: Mapping[int, Process] = {one.pid: one for one in self._read()}
        self._children: dict[int, list[int]] = {}
        for one in self.processes.values():
            self._children.setdefault(one.parent, []).append(one.pid)

    def children(self, pid: int) -> list[Process]:
        """Its direct children."""
        return [self.processes[child] for child in self._children.get(pid, ())]

    def tree(self, pid: int) -> list[int]:
        """The process and all its descendants."""
        found, waiting = [], [pid]
        while waiting:
            one = waiting.pop()
            found.append(one)
            waiting += self._children.get(one, ())
        return found

    def arguments(self, pid: int) -> list[str]:
        """Its command line; empty where it is gone or hidden."""
        with contextlib.suppress(OSError):
            text = (self._proc / str(pid) / "cmdline").read_bytes().decode(errors="replace")
            return text.rstrip("\0").split("\0")
        return []

    def program(self, pid: int) -> str:
        """What a person knows a process by: its name, and what an interpreter runs; "" if it is gone."""
        process = self.processes.get(pid)
        if process is None:
            return ""
        return " ".join(filter(None, (process.name, _script(process.name, self.arguments(pid)))))

    def private_bytes(self, pids: Iterable[int]) -> int | None:
        """Private memory of these processes together; None if none of them may be read."""
        found = None
        for pid in pids:
            with contextlib.suppress(OSError):
                text = (self._proc / str(pid) / "smaps_rollup").read_text(encoding="ascii", errors="replace")
                size = parse_private_bytes(text)
                found = found if size is None else (found or 0) + size
        return found

    def uses_gpu(self, pid: int) -> bool | None:
        """Whether a process has a GPU's device open, as each with memory on one has; None if it is hidden."""
        try:
            entries = list((self._proc / str(pid) / "fd").iterdir())
        except OSError:
            return None
        for entry in entries:
            with contextlib.suppress(OSError):
                if str(entry.readlink()).startswith(_GPU_DEVICES):
                    return True
        return False

    def server_of(
        self, server: Server, ports: list[int], known: Process | None = None
    ) -> tuple[int | None, str]:
        """The tritonserver that listens on one of these ports (`local_ports`), else None and the reason.

        `known` is the one found before: while it lives, open files are not searched again.
        """
        if known is not None and self.processes.get(known.pid) == known:
            return known.pid, ""
        candidates = [one.pid for one in self.processes.values() if one.name == SERVER_PROGRAM]
        if not candidates:
            return None, f"no process named {SERVER_PROGRAM} can be seen from here"
        for port in ports:
            inodes = self._listening(port)
            for pid in candidates:
                if inodes & self._sockets(pid):
                    return pid, ""
        # Another user's open files are hidden; its command line is not.
        http = local_port(server.http_url)
        same = [pid for pid in candidates if parse_http_port(self.arguments(pid)) == http]
        if len(same) == 1 and not self._may_look_into(same[0]):
            return same[0], ""
        return None, f"no {SERVER_PROGRAM} of this machine listens on port {ports[-1]}"

    def _read(self) -> Iterator[Process]:
        for folder in self._proc.glob("[0-9]*"):
            # A process may end while the list is read.
            with contextlib.suppress(OSError):
                one = parse_stat((folder / "stat").read_text(errors="replace"))
                if one is not None:
                    yield one

    def _listening(self, port: int) -> set[str]:
        found: set[str] = set()
        for name in ("tcp", "tcp6"):
            with contextlib.suppress(OSError):
                found |= parse_listening((self._proc / "net" / name).read_text(encoding="ascii"), port)
        return found

    def _sockets(self, pid: int) -> set[str]:
        found = set()
        with contextlib.suppress(OSError):
            for entry in (self._proc / str(pid) / "fd").iterdir():
                with contextlib.suppress(OSError):
                    target = str(entry.readlink())
                    if target.startswith("socket:["):
                        found.add(target[len("socket:[") : -1])
        return found

    def _may_look_into(self, pid: int) -> bool:
        try:
            next((self._proc / str(pid) / "fd").iterdir(), None)
        except OSError:
            return False
        return True


def _script(name: str, arguments: list[str]) -> str:
    """`train.py` or `-m vllm.server`, and no other argument: they may hold what is nobody's business."""
    if not name.startswith(_INTERPRETERS):
        return ""
    for place, argument in enumerate(arguments[1:-1], start=1):
        if argument == "-m":
            return f"-m {arguments[place + 1]}"
    return next((one.rpartition("/")[2] for one in arguments[1:] if one.endswith(".py")), "")


def local_ports(server: Server) -> list[int]:
    """The ports of a server's addresses that are addresses of this machine."""
    return [port for url in (server.metrics_url, server.http_url) if (port := local_port(url))]


def local_port(url: str | None) -> int | None:
    """The port of an address of this machine; None for another machine's."""
    parts = urlsplit(url or "")
    if not parts.hostname or not _is_local(parts.hostname):
        return None
    return parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _is_local(host: str) -> bool:
    """An address is ours if a socket can be bound to it; nothing is sent."""
    try:
        answers = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, protocol, _, address in answers:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
            return True
    return False
