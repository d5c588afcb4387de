"""Looks at the places where servers come and go: `file_sd` files, and the addresses of a DNS name.

What cannot be read leaves the servers found before in place, and says so in one notice.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from telemetry.discovery import Discovery, Kind, found_server, servers_of_file
from telemetry.errors import SettingsError
from telemetry.identity import Server
from telemetry.located_yaml import read_located
from telemetry.scrape import Notice

DNS_SECONDS = 30.0
"""How often names are resolved: what a headless service's answers usually live for."""
KEPT = "the servers found before stay"

Resolve = Callable[[str], Sequence[str]]
"""Addresses of a name, raising `socket.gaierror` as `socket.getaddrinfo` does."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one place holds now, and what of it could not be used."""

    servers: tuple[Server, ...] = ()
    notices: tuple[Notice, ...] = ()


class Finder(Protocol):
    """One place that is looked at again and again. For one thread."""

    discovery: Discovery

    def look(self) -> Found:
        """What is there now; asks only if it may have changed."""
        ...


def finder(discovery: Discovery, resolve: Resolve | None = None) -> Finder:
    """Who looks at the place."""
    if discovery.kind is Kind.FILE:
        return FileFinder(discovery)
    return DnsFinder(discovery, resolve or addresses)


def addresses(name: str) -> list[str]:
    """All IPv4 and IPv6 addresses of a name, sorted; raises `socket.gaierror`."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return sorted({str(address[0]) for *_, address in found})


@dataclass(slots=True)
class _File:
    """One file as it was last read: `seen` is what tells that it was written since."""

    seen: tuple[int, int, int] = (0, 0, 0)
    good: Found = field(default_factory=Found)
    problem: Notice | None = None


class FileFinder:
    """Servers of a `file_sd` file, or of all files its pattern names."""

    def __init__(self, discovery: Discovery) -> None:
        self.discovery = discovery
        self._files: dict[Path, _File] = {}

    def look(self) -> Found:
        """A file that is gone has no servers; one that cannot be read keeps those it had."""
        pattern = self.discovery.pattern
        paths = sorted(pattern.parent.glob(pattern.name)) if "*" in pattern.name else [pattern]
        self._files = {path: known for path in paths if (known := self._looked_at(path)) is not None}
        if not self._files:
            missing = "no such file" if "*" not in pattern.name else "no file of this name"
            source, line = self.discovery.source, self.discovery.line
            text = f"{self.discovery.target}: {missing}, so no server is known from it"
            return Found((), (Notice(source or pattern.name, line, text),))
        files = self._files.values()
        problems = tuple(one.problem for one in files if one.problem is not None)
        return Found(
            tuple(server for one in files for server in one.good.servers),
            (*problems, *(notice for one in files for notice in one.good.notices)),
        )

    def _looked_at(self, path: Path) -> _File | None:
        known = self._files.get(path, _File())
        try:
            status = path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen != known.seen:
                self._read(path, known)
                known.seen = seen
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            why = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else "cannot be read"
            known.problem = Notice(path.name, None, f"this file {why}: {KEPT}")
        return known

    def _read(self, path: Path, known: _File) -> None:
        # In JSON a tab can only stand between values; YAML does not take it there.
        text = path.read_text(encoding="utf-8")
        root, notices = read_located(text.replace("\t", " ") if path.suffix == ".json" else text, path.name)
        wrong = _why_unusable(root is not None and root.items is not None, text, notices)
        if wrong is not None:
            known.problem = Notice(path.name, wrong[0], f"{wrong[1]}: {KEPT}")
            return
        servers, found = servers_of_file(root, path.name, self.discovery)
        known.good, known.problem = Found(servers, (*notices, *found)), None


def _why_unusable(is_list: bool, text: str, notices: Sequence[Notice]) -> tuple[int | None, str] | None:
    """Line and reason; None for a list, and for a file without content, which says that there is none."""
    if is_list or not (notices or text.strip()):
        return None
    if notices:
        return notices[0].line, notices[0].text
    return 1, "a file_sd file must be a list of entries with `targets`"


class DnsFinder:
    """One server for each address of a name."""

    def __init__(
        self, discovery: Discovery, resolve: Resolve, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.discovery = discovery
        self._resolve, self._clock = resolve, clock
        self._asked: float | None = None
        self._found = Found()

    def look(self) -> Found:
        """A name without addresses has no servers; while nobody answers, those found before stay."""
        now = self._clock()
        if self._asked is None or now - self._asked >= DNS_SECONDS:
            self._asked = now
            self._found = self._resolved()
        return self._found

    def _resolved(self) -> Found:
        name, source, line = self.discovery.target, self.discovery.source or "dns", self.discovery.line
        try:
            found = self._resolve(name)
        except socket.gaierror as error:
            if error.errno == socket.EAI_NONAME:
                return Found((), (Notice(source, line, f"the name {name} does not exist: no server there"),))
            if error.errno == getattr(socket, "EAI_NODATA", None):
                # The name is there and nobody behind it: a workload scaled to nothing.
                return Found()
            text = f"the name {name} cannot be resolved now ({error.strerror}): {KEPT}"
            return Found(self._found.servers, (Notice(source, line, text),))
        labels = {"workload": self.discovery.workload or name}
        try:
            servers = [found_server(_host(address), labels, self.discovery) for address in found]
        except SettingsError as error:
            return Found(self._found.servers, (Notice(source, line, f"{name}: {error.sentence}"),))
        return Found(tuple(servers))


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
