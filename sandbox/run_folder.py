"""The temporary folder of one sandbox run, and the tidying up after runs that were killed.

The folder is locked for as long as its process lives. A folder that can be locked belongs to nobody any more:
it is removed at the next start together with the shared memory that its server left behind. Only names that
carry the run's own random key are touched.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
_FOLDER_PREFIX = "tritonscope-sandbox-"
_LOCK = "owner.lock"


class RunFolder:
    """A locked temporary folder with a random key, which also names the run's shared memory and server."""

    def __init__(self) -> None:
        """Make and lock a new folder, after removing those of runs that are gone."""
        remove_abandoned()
        self.key = secrets.token_hex(4)
        self.path = Path(tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{self.key}-"))
        # Locked before it gets its name: a folder without the name is left alone by others.
        unnamed = self.path / f"{_LOCK}.new"
        self._lock = os.open(unnamed, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / _LOCK)

    @property
    def shared_memory_prefix(self) -> str:
        """How the names of this run's shared memory regions begin."""
        return shared_memory_prefix(self.key)

    def remove_shared_memory(self) -> None:
        """Remove what the run's server left in shared memory; its processes must have ended."""
        remove_shared_memory(self.key)

    def remove(self) -> None:
        """Remove the folder and the run's shared memory; its processes must have ended."""
        self.remove_shared_memory()
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def shared_memory_prefix(key: str) -> str:
    """How the names of a run's shared memory regions begin."""
    return f"tritonscope_{key}_"


def remove_shared_memory(key: str) -> None:
    """Remove the regions a run's server leaked; nothing maps them once its processes have ended."""
    for region in SHARED_MEMORY.glob(f"{shared_memory_prefix(key)}*"):
        region.unlink(missing_ok=True)


def remove_abandoned() -> None:
    """Remove the folders and the shared memory of runs whose process is gone."""
    for lock in _locks():
        try:
            handle = os.open(lock, os.O_RDWR)
        except OSError:
            continue  # Another user's, or just being removed.
        try:
            if _lock_now(handle):
                remove_shared_memory(lock.parent.name.removeprefix(_FOLDER_PREFIX).split("-")[0])
                shutil.rmtree(lock.parent, ignore_errors=True)
        finally:
            os.close(handle)


def living_run_folders() -> list[Path]:
    """The folders of this user's runs whose process lives."""
    living = []
    for lock in _locks():
        try:
            handle = os.open(lock, os.O_RDWR)
        except OSError:
            continue  # Another user's, or just being removed.
        try:
            if not _lock_now(handle):
                living.append(lock.parent)
        finally:
            os.close(handle)
    return living


def _locks() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*/{_LOCK}"))


def _lock_now(handle: int) -> bool:
    """Take the lock if nobody holds it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
