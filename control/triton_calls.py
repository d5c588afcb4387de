"""The repository calls of Triton's HTTP API, each in its own thread: the index can be read meanwhile."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from enum import StrEnum

from telemetry.errors import NoAnswer, NotHttp, SourceError, TlsFailed, Unreachable
from telemetry.identity import Server
from telemetry.transport import Answer, Transport


class CallState(StrEnum):
    """Where a call stands. LOST: no answer will come, but the server may be working on it."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    LOST = "lost"


_LOST = (NoAnswer, NotHttp, TlsFailed, Unreachable)


class RepositoryCall:
    """One load or unload call under way. It is sent once, when the object is made."""

    def __init__(self, send: Callable[[], Answer]) -> None:
        self._send = send
        self._done = threading.Event()
        self.error: SourceError | None = None
        threading.Thread(target=self._run, name="repository-call", daemon=True).start()

    @property
    def state(self) -> CallState:
        """Where it stands now."""
        if not self._done.is_set():
            return CallState.PENDING
        if self.error is None:
            return CallState.ACCEPTED
        return CallState.LOST if isinstance(self.error, _LOST) else CallState.REFUSED

    def pause(self, seconds: float) -> None:
        """Let so much time pass, less if the answer comes meanwhile."""
        if self._done.is_set():
            time.sleep(seconds)
        else:
            self._done.wait(seconds)

    def _run(self) -> None:
        try:
            self._send()
        except SourceError as error:
            self.error = error
        finally:
            self._done.set()


def load_call(
    server: Server, model: str, timeout_seconds: float, *, config: Mapping[str, object] | None = None
) -> RepositoryCall:
    """Send a load. Triton answers when the model is loaded; giving up on the answer does not stop it.

    `config` is a whole configuration in place of the file's. Files (`file:` parameters) cannot be sent.
    """
    body = json.dumps({"parameters": {"config": json.dumps(config)}}) if config is not None else ""
    return _call(server, model, "load", body, timeout_seconds)


def unload_call(
    server: Server, model: str, timeout_seconds: float, *, unload_dependents: bool = False
) -> RepositoryCall:
    """Send an unload. Triton answers at once; the model is gone when the index says so."""
    body = json.dumps({"parameters": {"unload_dependents": True}}) if unload_dependents else ""
    return _call(server, model, "unload", body, timeout_seconds)


def _call(server: Server, model: str, verb: str, body: str, timeout_seconds: float) -> RepositoryCall:
    url = f"{server.http_url}/v2/repository/models/{model}/{verb}"
    transport = Transport(server, timeout_seconds=timeout_seconds)
    return RepositoryCall(lambda: transport.post(url, body))
