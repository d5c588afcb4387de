"""The journal on disk: appended and synced line by line, rotated by size, written by one process."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from control.journal_lines import Line, decoded, unix
from telemetry.errors import NotRecorded
from telemetry.one_writer import MODE, OneWriter, reason_of, still_at, sync_folder, write_all
from telemetry.scrape import Notice

DEFAULT_MAX_BYTES = 5_000_000
DEFAULT_KEEP = 5


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes the journal: its pid, the host it runs on, and since when (unix seconds)."""

    pid: int | None
    host: str
    since: float | None

    @property
    def sentence(self) -> str:
        """Why this process is read-only."""
        who = "another Tritonscope process"
        if self.pid is not None:
            here = "" if self.host in ("", socket.gethostname()) else f" on {self.host}"
            who += f" (pid {self.pid}{here})"
        since = time.strftime(" since %d %b %H:%M", time.localtime(self.since)) if self.since else ""
        return (
            f"Read-only: {who} holds the journal{since}, and only one process may act. "
            "This one takes over when that one has ended."
        )


class JournalFile:
    """One journal, `path` and its older parts `path.1` (the newest) to `path.<keep>`; thread-safe.

    The lock is that of `telemetry.one_writer`, on `path.lock`.
    """

    def __init__(self, path: Path, *, max_bytes: int = DEFAULT_MAX_BYTES, keep: int = DEFAULT_KEEP) -> None:
        self.path = path
        self.carried: Callable[[], list[bytes]] = list
        """Lines that must stand in the newest part too: what is still open. Asked for at a rotation."""
        self._max_bytes = max_bytes
        self._keep = keep
        self._mutex = threading.Lock()
        self._writer = OneWriter(path)
        self._fd: int | None = None
        self._owed: list[bytes] = []

    # ---- the one writer

    @property
    def held(self) -> bool:
        """True while this process may write."""
        return self._writer.held

    def take(self) -> bool:
        """Try at once to become the writer; True if this process is it. A bad place raises NotRecorded."""
        with self._mutex:
            try:
                return self._writer.take()
            except OSError as error:
                raise self._failed(error) from error

    def holder(self) -> Holder:
        """The process that holds the lock, as far as it said who it is."""
        said = self._writer.signature()
        try:
            return Holder(int(said["pid"]), str(said["host"]), unix(said["since"]))
        except (ValueError, KeyError, TypeError):
            return Holder(None, "", None)

    def close(self) -> None:
        """Give the journal back; what is still owed to it is lost to it."""
        with self._mutex:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None
            self._writer.close()

    # ---- writing

    def append(self, line: bytes) -> None:
        """Write one line, with its end, and wait until it is on the disk; raises NotRecorded.

        What could not be written earlier (`owe`) goes first.
        """
        with self._mutex:
            if not self._writer.held:
                raise NotRecorded(f"{self.holder().sentence} Nothing was sent.")
            self._write(b"".join(self._owed) + line)
            self._owed.clear()

    def owe(self, line: bytes) -> bool:
        """Write a line that tells of what has happened already; True if it could be written.

        If not, it is kept and goes before the next one: until then nothing new can be written either.
        """
        with self._mutex:
            self._owed.append(line)
            if not self._writer.held:
                return False
            try:
                self._write(b"".join(self._owed))
            except NotRecorded:
                return False
            self._owed.clear()
            return True

    def _write(self, data: bytes) -> None:
        try:
            fd, size = self._opened(len(data))
            try:
                write_all(fd, data)
                os.fsync(fd)
            except OSError:
                # Half a line, or one whose action is now refused: neither may stand there.
                with suppress(OSError):
                    os.ftruncate(fd, size)
                raise
        except OSError as error:
            raise self._failed(error) from error

    def _opened(self, more: int) -> tuple[int, int]:
        """The file to append `more` bytes to, and its size; rotated or made anew where needed."""
        if self._fd is not None and not still_at(self.path, self._fd):
            os.close(self._fd)
            self._fd = None
        if self._fd is None:
            self._fd = self._open()
        size = os.fstat(self._fd).st_size
        if size and size + more > self._max_bytes:
            os.close(self._fd)
            self._fd = None
            self._rotate()
            self._fd = self._open()
            write_all(self._fd, b"".join(self.carried()))
            size = os.fstat(self._fd).st_size
        return self._fd, size

    def _open(self) -> int:
        new = not self.path.exists()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        fd = os.open(self.path, flags, MODE)
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            # The end of a line that a power cut took: it must not swallow the next one.
            write_all(fd, b"\n")
        if new:
            sync_folder(self.path.parent)
        return fd

    def _rotate(self) -> None:
        if self._keep == 0:
            self.path.unlink(missing_ok=True)
        for number in range(self._keep - 1, -1, -1):
            part = self.part(number)
            if part.exists():
                part.replace(self.part(number + 1))
        sync_folder(self.path.parent)

    def part(self, number: int) -> Path:
        """The file itself for 0, else its older part of that number."""
        return self.path if number == 0 else self.path.with_name(f"{self.path.name}.{number}")

    def _failed(self, error: OSError) -> NotRecorded:
        why = reason_of(error)
        return NotRecorded(
            f"The journal {self.path} cannot be written ({why}), and nothing is sent that is not recorded. "
            "Make room or set journal: path: to a file that can be written."
        )

    # ---- reading

    def read(self, least: int | None = None) -> tuple[list[Line], list[Notice]]:
        """Lines that can be read, the oldest first, and what could not be; no file: an empty journal.

        `least`: read no older part once there are so many lines; None reads all.
        """
        lines: list[Line] = []
        notices: list[Notice] = []
        for part in self.parts():
            if least is not None and len(lines) >= least:
                break
            try:
                content = part.read_bytes()
            except FileNotFoundError:
                continue
            except OSError as error:
                why = reason_of(error)
                notices.append(Notice(part.name, None, f"this part of the journal cannot be read ({why})"))
                continue
            found, damaged = parsed(content, part.name)
            lines, notices = found + lines, damaged + notices
        return lines, notices

    def parts(self) -> Iterator[Path]:
        """The files of the journal that may exist, the newest first."""
        return (self.part(number) for number in range(self._keep + 1))

    # ---- configurations that must be put back: beside the journal, which never holds one

    def keep_config(self, number: int, config: Mapping[str, object]) -> None:
        """Keep the configuration of one restoration, synced; raises NotRecorded."""
        try:
            fd = os.open(
                self._config_path(number), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE
            )
            try:
                write_all(fd, json.dumps(config).encode())
                os.fsync(fd)
            finally:
                os.close(fd)
            sync_folder(self.path.parent)
        except OSError as error:
            raise self._failed(error) from error

    def kept_config(self, number: int) -> Mapping[str, object]:
        """The configuration of one restoration; raises ValueError if it is not there or damaged."""
        try:
            config = json.loads(self._config_path(number).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            config = None
        if not isinstance(config, dict):
            raise ValueError("the configuration to put back is not there any more: load the model by hand")
        return config

    def drop_config(self, number: int) -> None:
        """Forget that configuration."""
        # What stays behind is a small file that nothing reads again.
        with suppress(OSError):
            self._config_path(number).unlink(missing_ok=True)

    def _config_path(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.restore-{number}.json")

    def stamp(self) -> tuple[int, int]:
        """Changes when the newest part was written or replaced: inode and bytes, (0, 0) without a file."""
        try:
            stat = self.path.stat()
        except OSError:
            return 0, 0
        return stat.st_ino, stat.st_size


def parsed(content: bytes, name: str) -> tuple[list[Line], list[Notice]]:
    """The lines of one file; a damaged line costs itself and one notice with its number."""
    lines: list[Line] = []
    notices: list[Notice] = []
    for number, text in enumerate(content.split(b"\n"), start=1):
        if not text.strip(b" \r\t\0"):
            continue
        try:
            lines.append(decoded(text))
        except ValueError:
            notices.append(Notice(name, number, "this line of the journal is damaged: it is left out"))
    return lines, notices
