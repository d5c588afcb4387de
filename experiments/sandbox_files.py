"""The sandbox's files: its models' config.pbtxt and the end of its log, which no endpoint of Triton tells."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

LOG_TAIL_BYTES = 65_536
CONFIG_BYTES = 1_000_000
"""More than any config.pbtxt has; what follows is not read."""


class SandboxFiles:
    """The `control.ports.ServerFiles` of the sandbox this run started; of other servers nothing is read.

    `state` is the file that `python -m sandbox run` writes; `is_sandbox` is True only for the server that
    answers with the id in it.
    """

    def __init__(self, state: Path | None, is_sandbox: Callable[[str], bool]) -> None:
        self._state = state
        self._is_sandbox = is_sandbox

    def config_text(self, server_id: str, model: str) -> str | None:
        """The text of the model's config.pbtxt, "" if it has none; None for another server."""
        folder = self._path(server_id, "repository_path")
        # A name is one folder of the repository, never a way out of it.
        if folder is None or model in ("", ".", "..") or "/" in model:
            return None
        if not folder.is_dir():
            return None
        return _text(folder / model / "config.pbtxt", 0, CONFIG_BYTES) or ""

    def log_tail(self, server_id: str) -> str | None:
        """The end of the server's log; None for another server."""
        path = self._path(server_id, "log_path")
        return None if path is None else _text(path, -LOG_TAIL_BYTES, LOG_TAIL_BYTES)

    def golden_folder(self, server_id: str) -> Path | None:
        """Where the golden requests of the sandbox are; None for another server."""
        return self._path(server_id, "golden_path")

    def _path(self, server_id: str, name: str) -> Path | None:
        if self._state is None or not self._is_sandbox(server_id):
            return None
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        path = state.get(name) if isinstance(state, dict) else None
        return Path(path) if isinstance(path, str) else None


def _text(path: Path, start: int, size: int) -> str | None:
    """So many bytes of a file from `start` (below 0: from its end); None if it cannot be read."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(0, end + start if start < 0 else start))
            return file.read(size).decode(errors="replace")
    except OSError:
        return None
