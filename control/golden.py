"""Golden requests: one saved request per model whose answer is known, and how a model answers it.

They are saved requests in a folder of their own, which has no retention: what guards a model must not go away
by itself. Each stands for the servers of the workload it was saved from (without one, for that server alone).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from control.expected_answers import FIRST_DIFFERENCE, Mode, compare
from control.inference import InferenceRequest, Reply
from control.request_errors import explain
from control.saved_requests import SavedRequest, SavedRequests, request_of
from control.tensors import FLOAT_TYPES, AnyArray
from control.test_requests import as_sequence, check_steps, send_one
from telemetry.errors import (
    ActionFailed,
    ControlError,
    InvalidRequest,
    NoAnswer,
    SettingsError,
    SourceError,
    TritonscopeError,
)
from telemetry.facts import ModelConfig
from telemetry.identity import Server
from telemetry.probe import ProbeCause, ProbeResult

_CAUSES = {
    "queue full": ProbeCause.QUEUE_FULL,
    "queue time-out": ProbeCause.TIMEOUT,
    "dead Python process": ProbeCause.PROCESS_DEAD,
    "model not loaded": ProbeCause.NOT_READY,
    "version not there": ProbeCause.NOT_READY,
    "model not ready": ProbeCause.NOT_READY,
    "unknown model": ProbeCause.NOT_READY,
}
"""By the case that `control.request_errors` knows a text as."""
_IN_A_STEP = "in ensemble '"
_Stamp = tuple[tuple[str, int, int], ...]


class GoldenRequests:
    """All golden requests of this process. Every call looks at the disk; raises ControlError.

    `folder_of(server_id)` is where those of a server are, None where it has none; `workload_of` its workload.
    """

    def __init__(
        self, folder_of: Callable[[str], Path | None], workload_of: Callable[[str], str] = lambda _server: ""
    ) -> None:
        self._folder_of = folder_of
        self._workload_of = workload_of
        self._lock = threading.Lock()
        self._read: dict[Path, tuple[_Stamp, tuple[SavedRequest, ...]]] = {}

    def kept_for(self, server_id: str) -> bool:
        """True if golden requests can be kept for this server."""
        return self._folder_of(server_id) is not None

    def of(self, server_id: str) -> dict[str, SavedRequest]:
        """The golden requests of one server by model; of several the newest."""
        folder = self._folder_of(server_id)
        if folder is None:
            return {}
        mine = [one for one in self._all(folder) if one.expected is not None and self._fits(one, server_id)]
        return {one.model: one for one in sorted(mine, key=lambda one: one.saved_at)}

    def keep(self, saved: SavedRequest) -> SavedRequest:
        """Make this the golden request of its model; the one before goes. Raises InvalidRequest.

        It asks for no version: clients that name none are what it stands for.
        """
        folder = self._folder_of(saved.server)
        if folder is None:
            raise InvalidRequest(
                "Golden requests are off for this server. To keep one, name a folder in tritonscope.yml: "
                "golden: path"
            )
        if saved.expected is None or not saved.expected.replies:
            raise InvalidRequest("A golden request needs an answer that is expected")
        before = self.of(saved.server).get(saved.model)
        kept = replace(saved, version="")
        store = _store(folder)
        store.save(kept)
        if before is not None and before.id != kept.id:
            store.delete(before.id)
        return kept

    def remove(self, server_id: str, model: str) -> None:
        """The model is no longer asked; one that is gone already is no error."""
        folder, found = self._folder_of(server_id), self.of(server_id).get(model)
        if folder is not None and found is not None:
            _store(folder).delete(found.id)

    def _fits(self, saved: SavedRequest, server_id: str) -> bool:
        workload = self._workload_of(server_id)
        return saved.server == server_id or (bool(workload) and self._workload_of(saved.server) == workload)

    def _all(self, folder: Path) -> tuple[SavedRequest, ...]:
        stamp = _stamp(folder)
        with self._lock:
            known = self._read.get(folder)
        # A picture is a megabyte of text: it is read again only when a file changed.
        if known is not None and known[0] == stamp:
            return known[1]
        found = _store(folder).requests() if stamp else ()
        with self._lock:
            self._read[folder] = (stamp, found)
        return found


def _store(folder: Path) -> SavedRequests:
    return SavedRequests(folder, math.inf)


def _stamp(folder: Path) -> _Stamp:
    rows = []
    try:
        for path in sorted(folder.iterdir()):
            status = path.stat()
            rows.append((path.name, status.st_mtime_ns, status.st_size))
    except OSError:
        # No folder yet, or a file that went just now: looked at again at the next call.
        return tuple(rows)
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class Asked:
    """How it went: `cause` None if well. `latency_us` is None without an answer."""

    cause: ProbeCause | None
    sentence: str
    latency_us: float | None = None
    version: str = ""

    def result(self, server: str, model: str, at: float) -> ProbeResult:
        """The same as what triage and the pages know, at `at` (unix seconds)."""
        cause = "" if self.cause is None else str(self.cause)
        return ProbeResult(
            server, model, at, self.cause is None, cause, self.sentence, self.version, self.latency_us
        )


def ask(server: Server, config: ModelConfig, golden: SavedRequest, timeout_seconds: float) -> Asked:
    """Send a golden request once and compare; never raises. Asks no guard: that comes before.

    Several requests are the steps of one sequence. `timeout_seconds` bounds each wait, and after it no
    further reply of a stream is waited for.
    """
    limit = min(timeout_seconds, golden.timeout_seconds)
    requests = tuple(replace(one, version="", timeout_seconds=limit) for one in request_of(golden, server.id))
    try:
        check_steps(config, requests)
    except InvalidRequest as error:
        return Asked(ProbeCause.REFUSED, f"it does not fit the configuration any more: {error.sentence}")
    whole = as_sequence(requests) if config.sequence_batching else requests
    began = time.perf_counter()
    try:
        replies = _replies(server, config, whole, golden, began + limit)
    except (ControlError, SourceError, SettingsError) as error:
        waited = (time.perf_counter() - began) * 1e6
        cause, sentence = _failure(golden.model, error)
        return Asked(cause, sentence, None if isinstance(error, SourceError) else waited)
    return judge(replies, golden)


def judge(replies: tuple[Reply, ...], golden: SavedRequest) -> Asked:
    """Whether these replies are what is expected of a golden request."""
    if golden.expected is None:
        raise ValueError("a golden request without an expected answer")
    latency = max((reply.latency_us for reply in replies), default=None)
    version = next((reply.version for reply in replies if reply.version), "")
    broken = next((reply for reply in replies if reply.error), None)
    if broken is not None:
        return Asked(*_explained(golden.model, broken.error, None), latency, version)
    found = compare(replies, golden.expected)
    if found.differences:
        odd = golden.expected.mode is Mode.SHAPE or _all_finite(golden)
        cause = ProbeCause.NOT_FINITE if odd and _not_finite(replies) else ProbeCause.WRONG_ANSWER
        return Asked(cause, "; ".join(map(_without_values, found.differences[:3])), latency, version)
    if found.too_slow:
        return Asked(ProbeCause.SLOW, found.too_slow, latency, version)
    return Asked(None, "as expected", latency, version)


def _without_values(difference: str) -> str:
    """The difference as journal, findings and viewers may have it: what a model answered is users' data."""
    return difference.partition(FIRST_DIFFERENCE)[0]


def _replies(
    server: Server,
    config: ModelConfig,
    requests: tuple[InferenceRequest, ...],
    golden: SavedRequest,
    until: float,
) -> tuple[Reply, ...]:
    """What came back; of a stream one more than is expected is enough to tell the difference."""
    most = 1 + (len(golden.expected.replies) if golden.expected is not None else 0)
    replies: list[Reply] = []
    for request in requests:
        for reply in send_one(server, config, request):
            replies.append(reply)
            if len(replies) >= most:
                return tuple(replies)
            if time.perf_counter() > until:
                break
    return tuple(replies)


def _failure(model: str, error: TritonscopeError) -> tuple[ProbeCause, str]:
    if isinstance(error, NoAnswer):
        return ProbeCause.TIMEOUT, error.sentence
    if isinstance(error, SourceError) and error.status is None:
        return ProbeCause.UNREACHABLE, error.sentence
    if not isinstance(error, ActionFailed | SourceError):
        # It could not even be sent: an address or a package is missing.
        return ProbeCause.REFUSED, error.sentence
    return _explained(model, error.detail or error.sentence, error.status)


def _explained(model: str, text: str, status: int | None) -> tuple[ProbeCause, str]:
    """The cause and the words; a 4xx whose text nobody knows comes from the model's own code."""
    told = explain(model, text, status)
    # What is wrong in a step is no state of the ensemble itself: the sentence names the step.
    if told.case in _CAUSES and _IN_A_STEP not in text:
        return _CAUSES[told.case], told.what
    refused = bool(told.case) and status is not None and 400 <= status < 500
    return (ProbeCause.REFUSED if refused else ProbeCause.ERROR), told.what


def _all_finite(golden: SavedRequest) -> bool:
    expected = golden.expected
    return expected is not None and all(
        output.array is None or _finite(output.datatype, output.array)
        for reply in expected.replies
        for output in reply
    )


def _not_finite(replies: tuple[Reply, ...]) -> bool:
    return not all(_finite(one.datatype, one.array) for reply in replies for one in reply.outputs)


def _finite(datatype: str, array: AnyArray) -> bool:
    return datatype not in FLOAT_TYPES or bool(np.isfinite(array.astype(np.float64)).all())
