"""The servers that are watched now. They come and go without a restart: with tritonscope.yml, `file_sd`, DNS.

One thread looks every few seconds, and tells what changed. What cannot be read changes nothing and becomes a
notice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from collectors.finding_servers import KEPT, Finder, Resolve, finder
from telemetry.discovery import Discovery
from telemetry.identity import Server
from telemetry.rounds import Rounds
from telemetry.scrape import Notice

CHECK_SECONDS = 5.0
REMEMBERED_SECONDS = 3600.0
"""How long the models of a server that went stay in the list, as gone."""


class Configured(Protocol):
    """What the settings say about servers. `readable` False: the file could not be read as a whole."""

    @property
    def servers(self) -> tuple[Server, ...]:
        """The servers that are written down."""
        ...

    @property
    def discoveries(self) -> tuple[Discovery, ...]:
        """Where others are looked for."""
        ...

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What could not be used."""
        ...

    @property
    def file(self) -> Path | None:
        """The file they were read from, whether it is there or not."""
        ...

    @property
    def readable(self) -> bool:
        """False if the file could not be read as a whole."""
        ...

    def reloaded(self) -> Self:
        """The settings as they are written now."""
        ...

    def waiting_for_restart(self, written: Self) -> tuple[Notice, ...]:
        """What of the settings as written now counts only after a restart."""
        ...


@dataclass(frozen=True, slots=True)
class Listed:
    """A server and where it is listed."""

    server: Server
    origin: str


@dataclass(frozen=True, slots=True)
class Change:
    """Between two looks. `forgotten` are ids of servers that went an hour ago and did not return.

    `first`: it is the first look, so that what was found did not just come.
    """

    came: tuple[Listed, ...] = ()
    went: tuple[Listed, ...] = ()
    changed: tuple[Listed, ...] = ()
    forgotten: tuple[str, ...] = ()
    first: bool = False

    def __bool__(self) -> bool:
        return bool(self.came or self.went or self.changed or self.forgotten)


@dataclass(frozen=True, slots=True)
class _State:
    """What readers see, replaced as a whole."""

    listed: Mapping[str, Listed] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()


class Roster:
    """Who is watched now; any thread may ask. `check` is for one thread, that of `start()`."""

    def __init__(
        self,
        configured: Configured,
        *,
        resolve: Resolve | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._configured, self._first = configured, configured
        self._resolve, self._clock = resolve, clock
        self._stamp = _stamp(configured.file)
        self._of_file: tuple[Notice, ...] = ()
        self._finders: list[Finder] = []
        self._looked = False
        self._state = _State(_own(configured), {}, configured.notices)
        self._changed: Callable[[Change], object] = lambda _change: None
        self._rounds = Rounds("roster", self._look, CHECK_SECONDS)

    # ---- who is there

    @property
    def servers(self) -> tuple[Server, ...]:
        """Those that are watched: as written first, then those found."""
        return tuple(one.server for one in self._state.listed.values())

    @property
    def gone(self) -> Mapping[str, float]:
        """Unix time at which servers went that were there within the last hour, by id."""
        return self._state.gone

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What of settings and lists of servers cannot be used now, each once."""
        return self._state.notices

    @property
    def looked(self) -> bool:
        """True once it has looked: before, only what is written down is listed."""
        return self._looked

    # ---- looking

    def start(self, changed: Callable[[Change], None]) -> None:
        """Look now and every few seconds; a second call does nothing.

        `changed` is called in that thread after each look that differs from the one before in servers or
        notices.
        """
        if not self._rounds.alive:
            self._changed = changed
        self._rounds.start()

    def stop(self) -> None:
        """End looking; who was there stays."""
        self._rounds.stop()

    def check(self) -> Change:
        """Look once: the servers as they are listed now, and how that differs from before."""
        self._reload()
        self._finders = [self._finder(one) for one in self._configured.discoveries]
        notices = [*self._configured.notices, *self._of_file]
        listed = _own(self._configured)
        for one in self._finders:
            found = one.look()
            notices += found.notices
            notices += _add(listed, found.servers, one.discovery)
        return self._take(listed, tuple(dict.fromkeys(notices)))

    def _look(self) -> None:
        before = self.notices
        change = self.check()
        if (change or self.notices != before) and not self._rounds.ended:
            self._changed(change)

    def _reload(self) -> None:
        stamp = _stamp(self._first.file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        written = self._first.reloaded()
        if written.readable:
            self._configured, self._of_file = written, self._first.waiting_for_restart(written)
            return
        name = self._first.file.name if self._first.file is not None else ""
        broken = next((one for one in written.notices if one.source == name), None)
        text = broken.text if broken is not None else "cannot be read"
        self._of_file = (Notice(name, broken.line if broken is not None else None, f"{text}; {KEPT}"),)

    def _finder(self, discovery: Discovery) -> Finder:
        known = next((one for one in self._finders if one.discovery == discovery), None)
        return known or finder(discovery, self._resolve)

    def _take(self, listed: Mapping[str, Listed], notices: tuple[Notice, ...]) -> Change:
        before, now = self._state, self._clock()
        first, self._looked = not self._looked, True
        went = tuple(one for name, one in before.listed.items() if name not in listed)
        gone = {name: at for name, at in before.gone.items() if name not in listed}
        forgotten = tuple(name for name, at in gone.items() if now - at > REMEMBERED_SECONDS)
        gone = {name: at for name, at in gone.items() if name not in forgotten}
        self._state = _State(listed, gone | {one.server.id: now for one in went}, notices)
        return Change(
            tuple(one for name, one in listed.items() if name not in before.listed),
            went,
            tuple(
                one
                for name, one in listed.items()
                if name in before.listed and one.server != before.listed[name].server
            ),
            forgotten,
            first,
        )


def _own(configured: Configured) -> dict[str, Listed]:
    origin = configured.file.name if configured.file is not None else "the settings"
    return {server.id: Listed(server, origin) for server in configured.servers}


def _add(listed: dict[str, Listed], servers: tuple[Server, ...], discovery: Discovery) -> Iterator[Notice]:
    """Who is listed already, by id or by the metrics page, is the same server: the first one counts."""
    pages = {one.server.metrics_url for one in listed.values()} - {None}
    mine: dict[str, Server] = {}
    for server in servers:
        first = mine.get(server.id)
        if first is not None and first.metrics_url != server.metrics_url:
            text = f"several targets are called {server.id}: only {first.metrics_url} is watched"
            yield Notice(Path(discovery.target).name, None, text)
        elif first is None and server.id not in listed and server.metrics_url not in pages:
            mine[server.id] = server
    listed |= {server.id: Listed(server, Path(discovery.target).name) for server in mine.values()}


def _stamp(file: Path | None) -> tuple[int, int, int] | None:
    """What tells that the file was written since; None if it is not there."""
    if file is None:
        return None
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
