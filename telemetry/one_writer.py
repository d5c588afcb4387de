"""Of all processes that share a file one writes it: the lock, and who holds it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

MODE = 0o600
"""Who did what, and what was measured, is for the process' own user."""


class OneWriter:
    """An flock on `path`.lock: it ends with the process that holds it, however that ends. Not thread-safe.

    A file of its own: on the file itself it would wander off when that one is replaced.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(f"{path.name}.lock")
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        """True while this process may write."""
        return self._fd is not None

    def take(self) -> bool:
        """Try at once to become the writer; True if this process is it. Raises OSError for a bad place."""
        if self._fd is not None:
            return True
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        except OSError:
            os.close(fd)
            raise
        self._fd = fd
        self._sign(fd)
        return True

    def signature(self) -> Mapping[str, Any]:
        """What the holder wrote of itself: `pid`, `host`, `since`; empty if it wrote nothing."""
        try:
            said = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return said if isinstance(said, dict) else {}

    def close(self) -> None:
        """Let another process write."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _sign(self, fd: int) -> None:
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        who = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        # A full disk: the lock holds all the same, only its name plate is missing.
        with suppress(OSError):
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps(who).encode(), 0)


def write_all(fd: int, data: bytes) -> None:
    """All of it, in as many calls as it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def still_at(path: Path, fd: int) -> bool:
    """False if somebody moved or removed the open file under us."""
    try:
        there, ours = path.stat(), os.fstat(fd)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def reason_of(error: OSError) -> str:
    """`no space left on device`, for the middle of a sentence."""
    return os.strerror(error.errno).lower() if error.errno else type(error).__name__


def sync_folder(folder: Path) -> None:
    """Names that came or went in the folder are on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
