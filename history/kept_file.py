"""What a process learns over time and must not lose with its end: rows in a file of JSON lines.

    {"format": 1, "key": [...], "row": {...}}     of a row's identity (`key`) the newest line counts

One process writes, with a lock that ends with it; others read what it wrote and take over when it has ended.
A damaged line costs itself.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from telemetry.one_writer import MODE, OneWriter, reason_of, still_at, sync_folder, write_all
from telemetry.plain import from_plain, to_plain
from telemetry.scrape import Notice

FORMAT = 1
MAX_BYTES = 8_000_000
"""A file beyond this is written anew with what counts of it; one beyond four times as much is not ours."""
MAX_LINE_BYTES = 100_000
MAX_NOTICES = 20
LOOK_SECONDS = 5.0
"""How often a process that does not write looks at the file, at most."""
_LINES_PER_ROW = 3
_DAMAGED = "this line is damaged: it is left out"
_NEWER = "this line was written by a newer Tritonscope: it is left out"

Row = TypeVar("Row")
Key = tuple[str | int | bool, ...]


@dataclass(frozen=True, slots=True)
class News(Generic[Row]):
    """All rows of the file, the oldest first; `taken` True if this process became the writer just now."""

    rows: tuple[Row, ...]
    taken: bool


class Keeper(Protocol[Row]):
    """Who keeps rows beyond the life of a process. Any thread may ask; nothing here ever raises."""

    def news(self) -> News[Row] | None:
        """What is kept, if that changed without us since the last call; None if it did not."""

    def put(self, row: Row) -> None:
        """Keep this row in place of the one with the same identity."""


class KeptFile(Generic[Row]):
    """At most `most` rows of the type `kind` in the file `path`, the newest; a `Keeper`.

    `identity` says which rows replace each other. What is put while another process writes is not kept: that
    one keeps what it sees itself. Nothing is read or written before `open`.
    """

    def __init__(
        self, path: Path, kind: type[Row], identity: Callable[[Row], Key], *, most: int, what: str
    ) -> None:
        """`what` completes "<what> is forgotten when the app ends", for a file that cannot be written."""
        self.path = path
        self._kind, self._identity, self._most, self._what = kind, identity, most, what
        self._writer = OneWriter(path)
        self._mutex = threading.Lock()
        self._fd: int | None = None
        self._lines: dict[Key, bytes] = {}
        self._rows: dict[Key, Row] = {}
        """As they were read; a process that writes does not read again."""
        self._written = 0
        self._stamp: tuple[int, int, int] | None = None
        self._read_bytes = 0
        self._looked_at = float("-inf")
        self._wanted = False
        self._ours = True
        self._unreadable: tuple[Notice, ...] = ()
        self._damaged: tuple[Notice, ...] = ()
        self._left_out = 0
        """Damaged lines beyond those that are told one by one."""
        self._failed: tuple[Notice, ...] = ()

    @property
    def held(self) -> bool:
        """True while this process writes."""
        return self._writer.held

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What of the file could not be read, and why it cannot be written."""
        more = Notice(self.path.name, None, f"{self._left_out} more lines are left out")
        return (
            *self._unreadable,
            *self._damaged,
            *((more,) if self._left_out else ()),
            *self._failed,
        )

    def news(self) -> News[Row] | None:
        """All rows if another process may have written some since the last call; else None."""
        with self._mutex:
            now = time.monotonic()
            if self._writer.held or not self._wanted or now - self._looked_at < LOOK_SECONDS:
                return None
            self._looked_at = now
            taken = self._take()
            stamp = self._stamped()
            if not taken and stamp == self._stamp:
                return None
            before, self._stamp = self._stamp, stamp
            same = before is not None and stamp is not None and before[0] == stamp[0]
            grown = same and stamp is not None and stamp[1] >= self._read_bytes
            return News(self._read(anew=taken or not grown), taken)

    def put(self, row: Row) -> None:
        """Keep it; without the lock nothing happens."""
        with self._mutex:
            if not self._writer.held or not self._ours:
                return
            key = self._identity(row)
            line = _encoded(key, row)
            if len(line) > MAX_LINE_BYTES:
                return
            self._lines.pop(key, None)
            self._lines[key] = line
            while len(self._lines) > self._most:
                del self._lines[next(iter(self._lines))]
            try:
                self._append(line)
                self._failed = ()
            except OSError as error:
                self._failed = (self._unwritable(error),)

    def open(self) -> None:
        """From now on the file is looked at; before, and after `close`, nothing is read or written."""
        with self._mutex:
            self._wanted = True

    def close(self) -> None:
        """Let another process write, and look no more."""
        with self._mutex:
            self._wanted, self._looked_at = False, float("-inf")
            self._let_go()
            self._writer.close()

    # ---- writing

    def _take(self) -> bool:
        try:
            taken = self._writer.take()
            self._failed = ()
            return taken
        except OSError as error:
            self._failed = (self._unwritable(error),)
            return False

    def _append(self, line: bytes) -> None:
        fd = self._opened()
        size = os.fstat(fd).st_size if fd is not None else 0
        if fd is None or self._written >= _LINES_PER_ROW * self._most or size + len(line) > MAX_BYTES:
            self._write_anew()
            return
        try:
            write_all(fd, line)
        except OSError:
            # Half a line would cost the next one too.
            with suppress(OSError):
                os.ftruncate(fd, size)
            raise
        self._written += 1

    def _opened(self) -> int | None:
        """The file to append to; None if there is none."""
        if self._fd is not None and not still_at(self.path, self._fd):
            self._let_go()
        if self._fd is None:
            try:
                self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            size = os.fstat(self._fd).st_size
            if size and os.pread(self._fd, 1, size - 1) != b"\n":
                # The end of a line that a kill took: it must not swallow the next one.
                write_all(self._fd, b"\n")
        return self._fd

    def _write_anew(self) -> None:
        """Everything that counts, in place of the file: all of it or nothing."""
        self._let_go()
        part = self.path.with_name(f"{self.path.name}.part")
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, MODE)
        try:
            write_all(fd, b"".join(self._lines.values()))
            os.fsync(fd)
            part.replace(self.path)
        except OSError:
            os.close(fd)
            raise
        self._fd, self._written = fd, len(self._lines)
        sync_folder(self.path.parent)

    def _let_go(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _unwritable(self, error: OSError) -> Notice:
        text = (
            f"{self.path} cannot be written ({reason_of(error)}): {self._what} is forgotten when the app ends"
        )
        return Notice(self.path.name, None, text)

    # ---- reading

    def _stamped(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _read(self, *, anew: bool) -> tuple[Row, ...]:
        """All rows; not `anew`: of what was read before only the end is read again."""
        if anew or not self._ours:
            self._lines, self._rows, self._damaged, self._unreadable = {}, {}, (), ()
            self._written, self._read_bytes, self._left_out, self._ours = 0, 0, 0, True
        try:
            content = self._content(self._read_bytes)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError) as error:
            why = reason_of(error) if isinstance(error, OSError) else str(error)
            text = f"{self.path} cannot be read ({why}): it is left as it is, and {self._what} is forgotten "
            self._unreadable = (Notice(self.path.name, None, f"{text}when the app ends"),)
            self._ours = False
            return ()
        # A line that is being written is read with its end. At a takeover nobody writes any more.
        whole = content if self._writer.held else content[: content.rfind(b"\n") + 1]
        notices = self._take_in(whole)
        self._read_bytes += len(whole)
        self._written += whole.count(b"\n")
        self._tell(notices)
        return tuple(self._rows.values())

    def _content(self, start: int) -> bytes:
        with self.path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > 4 * MAX_BYTES:
                raise ValueError(f"it is larger than {4 * MAX_BYTES:,} bytes")
            file.seek(start)
            return file.read()

    def _take_in(self, content: bytes) -> list[Notice]:
        """The newest good line of each identity; what could not be used."""
        lines: dict[Key, list[tuple[int, bytes, Any]]] = {}
        notices: list[Notice] = []
        for number, text in enumerate(content.split(b"\n"), start=self._written + 1):
            if not text.strip(b" \r\t\0"):
                continue
            try:
                key, data = _decoded(text)
            except _Newer:
                notices.append(Notice(self.path.name, number, _NEWER))
            except (ValueError, TypeError, KeyError, RecursionError):
                notices.append(Notice(self.path.name, number, _DAMAGED))
            else:
                lines.setdefault(key, []).append((number, text, data))
        # By their newest line: decoding all of them would take most of a start.
        for key, known in sorted(lines.items(), key=lambda one: one[1][-1][0]):
            notices += self._newest(key, known)
        while len(self._rows) > self._most:
            oldest = next(iter(self._rows))
            del self._rows[oldest], self._lines[oldest]
        return sorted(notices, key=lambda one: one.line or 0)

    def _newest(self, key: Key, known: list[tuple[int, bytes, Any]]) -> list[Notice]:
        notices = []
        for number, text, data in reversed(known):
            try:
                row: Row = from_plain(self._kind, data)
                if self._identity(row) != key:
                    raise ValueError("another row than its key says")
            except (ValueError, TypeError, KeyError, RecursionError):
                notices.append(Notice(self.path.name, number, _DAMAGED))
                continue
            self._rows.pop(key, None)
            self._lines.pop(key, None)
            self._rows[key], self._lines[key] = row, text + b"\n"
            break
        return notices

    def _tell(self, notices: list[Notice]) -> None:
        told = (*self._damaged, *notices)
        self._damaged = told[:MAX_NOTICES]
        self._left_out += len(told) - len(self._damaged)


class _Newer(Exception):
    """A line of a format that is not known yet."""


def _encoded(key: Key, row: object) -> bytes:
    data = {"format": FORMAT, "key": key, "row": to_plain(row)}
    return json.dumps(data, separators=(",", ":")).encode() + b"\n"


def _decoded(text: bytes) -> tuple[Key, Any]:
    """Key and row of a line. Raises ValueError for a damaged one, _Newer for one of a format to come."""
    data: Any = json.loads(text)
    if not isinstance(data, dict) or not isinstance(data.get("format"), int):
        raise ValueError("no line of such a file")
    if data["format"] > FORMAT:
        raise _Newer
    key = data["key"]
    if not isinstance(key, list) or not all(isinstance(one, str | int) for one in key):
        raise ValueError("its key is none")
    return tuple(key), data["row"]
