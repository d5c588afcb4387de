"""Size of models' weight files, where the server's repository can be read from here."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

NO_WEIGHTS = (".py", ".pyc", ".pyi", ".so", ".md", ".txt", ".json", ".pbtxt", ".yaml", ".yml", ".sh")
"""What lies in version folders and is no weights; anything else is counted."""
MAX_FILES = 2000
KEEP_SECONDS = 60.0
"""Folders are walked again after this."""


def repositories(arguments: Sequence[str]) -> tuple[str, ...]:
    """The repositories on a tritonserver command line; those in object stores are left out."""
    found = []
    for place, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in ("--model-repository", "--model-store"):
            text = value if equals else (arguments[place + 1] if place + 1 < len(arguments) else "")
            if text.startswith("/"):
                found.append(text)
    return tuple(found)


class WeightReader:
    """Reads the sizes in a server's repositories, seen through its own root folder."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._known: tuple[object, float, Mapping[tuple[str, str], int]] | None = None

    def read(self, pid: int, arguments: Sequence[str]) -> Mapping[tuple[str, str], int]:
        """Bytes by (model, version); without the versions that have no weights or cannot be read."""
        paths = repositories(arguments)
        now = time.monotonic()
        if self._known is not None and self._known[0] == (pid, paths) and now - self._known[1] < KEEP_SECONDS:
            return self._known[2]
        found: dict[tuple[str, str], int] = {}
        for path in paths:
            # Another container's files are seen through its process; our own path may be something else.
            for root in (self._proc / str(pid) / "root" / path.lstrip("/"), Path(path)):
                sizes = dict(_versions(root))
                if sizes:
                    found |= sizes
                    break
        self._known = ((pid, paths), now, found)
        return found


def _versions(repository: Path) -> Iterator[tuple[tuple[str, str], int]]:
    with contextlib.suppress(OSError):
        for folder in sorted(repository.glob("*/[0-9]*")):
            if folder.name.isdecimal() and (size := _weight_bytes(folder)):
                yield (folder.parent.name, folder.name), size


def _weight_bytes(folder: Path) -> int:
    total = 0
    for number, file in enumerate(folder.rglob("*")):
        if number >= MAX_FILES:
            break
        with contextlib.suppress(OSError):
            if file.is_file() and file.suffix.lower() not in NO_WEIGHTS and file.name != "README":
                total += file.stat().st_size
    return total
