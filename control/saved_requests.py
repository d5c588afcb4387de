"""Test requests kept for later, one file each: off unless the settings name a folder.

They hold what was sent and answered, which may be customers' data: the folder is readable by its owner alone,
every file is removed after the retention, and nothing of their content goes to the journal or a log. Whoever
may not send test requests must not be shown them; the pages see to that.

A file is JSON with the exact bytes of its tensors in base64. A request may carry what its answer should be,
and then somebody can send it again and compare: `request_of`, `send_one`, `compare`.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import os
import re
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from control.expected_answers import Expected, ExpectedOutput, Mode
from control.inference import InferenceRequest, Tensor, Way
from control.request_parameters import ParameterValue
from control.tensor_files import as_raw, raw_values
from control.tensors import AnyArray
from telemetry.errors import ControlError, InvalidRequest
from telemetry.rounds import Rounds

_log = logging.getLogger(__name__)

FORMAT = 1
MAX_NAME_LETTERS = 80
DAY_SECONDS = 86_400.0
_EXPIRE_EVERY_SECONDS = 3600.0
_ID = re.compile(r"[0-9a-f]{32}")
_ENDING = ".request.json"


@dataclass(frozen=True, slots=True)
class SavedRequest:
    """One kept request. `steps` are the tensors of each step (one, but for a sequence).

    `saved_at` is unix seconds, `by` who saved it. `expected` is what its answer should be, None if nobody
    said.
    """

    id: str
    name: str
    server: str
    model: str
    version: str
    saved_at: float
    by: str
    way: Way
    timeout_seconds: float
    steps: tuple[tuple[Tensor, ...], ...]
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    expected: Expected | None = None


def saved_from(
    name: str, by: str, requests: tuple[InferenceRequest, ...], expected: Expected | None = None
) -> SavedRequest:
    """A request of the form, ready to be kept; InvalidRequest for a name that cannot be one."""
    label = " ".join(name.split())
    if not label:
        raise InvalidRequest("A saved request needs a name")
    if len(label) > MAX_NAME_LETTERS:
        raise InvalidRequest(f"The name of a saved request has at most {MAX_NAME_LETTERS} letters")
    first = requests[0]
    return SavedRequest(
        uuid.uuid4().hex, label, first.server, first.model, first.version, time.time(), by, first.way,
        first.timeout_seconds, tuple(request.tensors for request in requests), dict(first.parameters),
        expected,
    )  # fmt: skip


def request_of(saved: SavedRequest, server: str | None = None) -> tuple[InferenceRequest, ...]:
    """The requests to send, to the server it was saved from or to another one."""
    return tuple(
        InferenceRequest(
            server or saved.server, saved.model, saved.version, tensors, saved.timeout_seconds,
            saved.parameters, saved.way,
        )
        for tensors in saved.steps
    )  # fmt: skip


class SavedRequests:
    """The folder. Every call looks at the disk: several processes may share it. Raises ControlError."""

    def __init__(self, folder: Path, retention_days: float) -> None:
        self.folder = folder
        self.retention_days = retention_days
        self._rounds = Rounds("saved-requests", self._keep_retention, _EXPIRE_EVERY_SECONDS)

    def start(self) -> None:
        """Keep the retention by itself, every hour: nobody may look at the requests for long."""
        self._rounds.start()

    def stop(self) -> None:
        """No longer keep it by itself."""
        self._rounds.stop()

    def _keep_retention(self) -> None:
        try:
            self.expire(time.time())
        except ControlError as error:
            _log.warning("saved requests: %s", error.sentence)

    def save(self, saved: SavedRequest) -> None:
        """Write it, all or nothing, readable by this user alone."""
        self.expire(time.time())
        text = json.dumps(_written(saved))
        partial = self.folder / f"{saved.id}.partial"
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            partial.replace(self._path(saved.id))
        except OSError as error:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise ControlError(
                f"The request cannot be saved in {self.folder}: {error.strerror}", detail=str(error)
            ) from error

    def requests(self, model: str | None = None) -> tuple[SavedRequest, ...]:
        """All that can be read, of one model or of all, by name. What has expired is removed first."""
        self.expire(time.time())
        found = [saved for path in self._paths() if (saved := _read(path)) is not None]
        wanted = [saved for saved in found if model is None or saved.model == model]
        return tuple(sorted(wanted, key=lambda saved: (saved.name, saved.saved_at)))

    def get(self, saved_id: str) -> SavedRequest:
        """One request; raises InvalidRequest if it is not there or cannot be read."""
        saved = _read(self._path(saved_id))
        if saved is None:
            raise InvalidRequest("This saved request is gone or cannot be read")
        return saved

    def expect(self, saved_id: str, expected: Expected | None) -> SavedRequest:
        """Say, or no longer say, what its answer should be; the request after that."""
        saved = replace(self.get(saved_id), expected=expected)
        self.save(saved)
        return saved

    def delete(self, saved_id: str) -> None:
        """Remove it; one that is gone already is no error."""
        try:
            self._path(saved_id).unlink(missing_ok=True)
        except OSError as error:
            raise ControlError(f"The saved request cannot be removed: {error.strerror}") from error

    def expire(self, now: float) -> int:
        """Remove what is older than the retention at unix time `now`, readable or not; how many."""
        removed = 0
        for path in self._paths():
            try:
                saved = _read(path)
                saved_at = saved.saved_at if saved is not None else path.stat().st_mtime
                if now - saved_at > self.retention_days * DAY_SECONDS:
                    path.unlink(missing_ok=True)
                    removed += 1
            except OSError:
                # Removed by another process meanwhile: that is what was wanted.
                continue
        return removed

    def _paths(self) -> list[Path]:
        try:
            return sorted(self.folder.glob(f"*{_ENDING}"))
        except OSError as error:
            raise ControlError(f"The folder {self.folder} cannot be read: {error.strerror}") from error

    def _path(self, saved_id: str) -> Path:
        # An id comes from a visitor's browser: it must not name another file.
        if not _ID.fullmatch(saved_id):
            raise InvalidRequest("This is not the id of a saved request")
        return self.folder / f"{saved_id}{_ENDING}"


def _written(saved: SavedRequest) -> dict[str, Any]:
    expected = saved.expected
    return {
        "format": FORMAT,
        "id": saved.id,
        "name": saved.name,
        "server": saved.server,
        "model": saved.model,
        "version": saved.version,
        "saved_at": saved.saved_at,
        "by": saved.by,
        "way": saved.way.value,
        "timeout_seconds": saved.timeout_seconds,
        "parameters": dict(saved.parameters),
        "steps": [
            [_tensor(tensor.name, tensor.datatype, tensor.shape, tensor.array) for tensor in step]
            for step in saved.steps
        ],
        "expected": None
        if expected is None
        else {
            "mode": expected.mode.value,
            "relative": expected.relative,
            "absolute": expected.absolute,
            "latency_bound_us": expected.latency_bound_us,
            "replies": [
                [_tensor(output.name, output.datatype, output.shape, output.array) for output in reply]
                for reply in expected.replies
            ],
        },
    }


def _tensor(name: str, datatype: str, shape: tuple[int, ...], array: AnyArray | None) -> dict[str, Any]:
    data = None if array is None else base64.b64encode(as_raw(datatype, array)).decode()
    return {"name": name, "datatype": datatype, "shape": list(shape), "base64": data}


def _read(path: Path) -> SavedRequest | None:
    """The request in a file, None if it is gone, damaged or of a later format."""
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        if row["format"] != FORMAT:
            return None
        return SavedRequest(
            id=path.name.removesuffix(_ENDING),
            name=str(row["name"]),
            server=str(row["server"]),
            model=str(row["model"]),
            version=str(row["version"]),
            saved_at=float(row["saved_at"]),
            by=str(row["by"]),
            way=Way(row["way"]),
            timeout_seconds=float(row["timeout_seconds"]),
            steps=tuple(tuple(_sent(tensor) for tensor in step) for step in row["steps"]),
            parameters=dict(row["parameters"]),
            expected=None if row["expected"] is None else _expected(row["expected"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError, binascii.Error, InvalidRequest):
        return None


def _sent(row: Mapping[str, Any]) -> Tensor:
    array = _array(row)
    if array is None:
        raise ValueError("a tensor without values")
    return Tensor(row["name"], row["datatype"], array)


def _expected(row: Mapping[str, Any]) -> Expected:
    replies = tuple(
        tuple(
            ExpectedOutput(
                output["name"], output["datatype"], tuple(map(int, output["shape"])), _array(output)
            )
            for output in reply
        )
        for reply in row["replies"]
    )
    bound = row["latency_bound_us"]
    return Expected(
        Mode(row["mode"]),
        replies,
        float(row["relative"]),
        float(row["absolute"]),
        None if bound is None else float(bound),
    )


def _array(row: Mapping[str, Any]) -> AnyArray | None:
    if row["base64"] is None:
        return None
    shape = tuple(map(int, row["shape"]))
    return raw_values(row["datatype"], base64.b64decode(row["base64"], validate=True), shape)
