"""Traffic: real requests to a Triton server, sent from a process of its own.

`TrafficSender` sends a profile's streams from threads of this process (`python -m sandbox traffic`);
`TrafficProcess` runs that command as a child, for the launcher and for tests. Each thread has a connection of
its own. A model that is not loaded and a server that does not answer are waited for, and said once.
"""

from __future__ import annotations

import collections
import functools
import http.client
import math
import queue
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from sandbox.errors import SandboxError
from sandbox.options import PROJECT_ROOT
from sandbox.processes import end_group, start_bound
from sandbox.traffic_profiles import PROFILES, Profile, Stream
from sandbox.traffic_requests import InferRequest, infer_request

REQUEST_SECONDS = 20.0
STOP_SECONDS = 3.0
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 5.0
_CALM_SECONDS = 3.0
# Slow waves, so that charts look like a day's traffic in small: plus and minus a third over three minutes.
_WAVE_RATIO = 0.35
_WAVE_SECONDS = 180.0


def profile_named(name: str) -> Profile:
    """The profile of that name; SandboxError that lists them if there is none."""
    if name not in PROFILES:
        raise SandboxError(f"There is no traffic profile {name!r}; there are {', '.join(PROFILES)}.")
    return PROFILES[name]


class TrafficSender:
    """Sends a profile from threads of this process until told to stop."""

    def __init__(
        self, url: str, profile: Profile, *, rate_scale: float = 1.0, tell: Callable[[str], None] = print
    ) -> None:
        """Prepare; `url` is Triton's HTTP address, `rate_scale` multiplies the paced streams' rates."""
        parts = urlsplit(url if "//" in url else f"//{url}")
        if not parts.hostname or parts.scheme not in ("", "http"):
            raise SandboxError(f"{url!r} is not a plain HTTP address: write it like http://127.0.0.1:8000.")
        self._address = (parts.hostname, parts.port or 80)
        self._path = parts.path.rstrip("/")
        self._rate_scale = rate_scale
        self._tell = tell
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self.answers: collections.Counter[tuple[str, str]] = collections.Counter()
        self._troubles: dict[str, str | None] = {}
        self._failed_at: dict[str, float] = {}
        self._threads = [thread for stream in profile.streams for thread in self._stream_threads(stream)]

    def run(self, seconds: float | None = None) -> None:
        """Send until `stop` is called or the seconds are over."""
        for thread in self._threads:
            thread.start()
        self._ended.wait(seconds)
        self.stop()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def stop(self) -> None:
        """End soon; callable from a signal handler."""
        self._ended.set()

    def _stream_threads(self, stream: Stream) -> list[threading.Thread]:
        tickets: queue.Queue[None] | None = None
        targets: list[Callable[[], None]] = []
        if stream.events_per_second is not None:
            # Bounded: what the clients cannot take is not sent, instead of piling up.
            tickets = queue.Queue(maxsize=stream.clients)
            targets.append(functools.partial(self._pace, stream, tickets))
        targets += [functools.partial(self._client, stream, tickets)] * stream.clients
        return [threading.Thread(target=target, daemon=True) for target in targets]

    def _pace(self, stream: Stream, tickets: queue.Queue[None]) -> None:
        chance = random.Random()
        while not self._ended.is_set():
            wave = 1.0 + _WAVE_RATIO * math.sin(2 * math.pi * time.monotonic() / _WAVE_SECONDS)
            rate = (stream.events_per_second or 0.0) * self._rate_scale * wave
            if self._ended.wait(chance.expovariate(rate)):
                return
            for _ in range(chance.randint(*stream.group)):
                if not tickets.full():
                    tickets.put_nowait(None)

    def _client(self, stream: Stream, tickets: queue.Queue[None] | None) -> None:
        chance = random.Random()
        connection = http.client.HTTPConnection(*self._address, timeout=REQUEST_SECONDS)
        pause_seconds = _FIRST_PAUSE_SECONDS
        try:
            while self._may_send(stream, tickets):
                if self._send(connection, stream, chance):
                    pause_seconds = _FIRST_PAUSE_SECONDS
                    continue
                self._ended.wait(pause_seconds * chance.uniform(0.7, 1.3))
                pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
        finally:
            connection.close()

    def _may_send(self, stream: Stream, tickets: queue.Queue[None] | None) -> bool:
        """Wait for the next moment to send; False at the end."""
        while not self._ended.is_set():
            if stream.on_seconds is not None:
                period = stream.on_seconds + stream.off_seconds
                phase = time.monotonic() % period
                if phase >= stream.on_seconds:
                    self._ended.wait(period - phase)
                    continue
            if tickets is None:
                return True
            try:
                tickets.get(timeout=0.5)
            except queue.Empty:
                continue
            return True
        return False

    def _send(self, connection: http.client.HTTPConnection, stream: Stream, chance: random.Random) -> bool:
        """Send one request; whether it was answered well."""
        request = infer_request(stream.model, stream.rows, chance)
        # A kept connection may be of a server that is gone, while a new one answers already: tried twice.
        was_kept = connection.sock is not None
        status = self._status_of(connection, stream.model, request)
        if status is None and was_kept:
            status = self._status_of(connection, stream.model, request)
        if status is None:
            self._notice("the server", "does not answer")
        else:
            self._notice("the server", None)
            trouble = None if status == http.HTTPStatus.OK else f"answers with status {status}"
            self._notice(stream.model, trouble)
        with self._lock:
            self.answers[stream.model, "ok" if status == http.HTTPStatus.OK else "failed"] += 1
        return status == http.HTTPStatus.OK

    def _status_of(
        self, connection: http.client.HTTPConnection, model: str, request: InferRequest
    ) -> int | None:
        """The status of the answer to one request; None if there is no answer."""
        path = f"{self._path}/v2/models/{model}/infer"
        try:
            connection.request("POST", path, request.body, request.headers)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return None
        return answer.status

    def _notice(self, subject: str, trouble: str | None) -> None:
        """Say a trouble when it begins or changes, and its end when it has stayed away for a while."""
        now = time.monotonic()
        with self._lock:
            if trouble is not None:
                self._failed_at[subject] = now
            elif now - self._failed_at.get(subject, -math.inf) < _CALM_SECONDS:
                # A server that is ending still answers on kept connections and refuses new ones.
                return
            before = self._troubles.get(subject)
            self._troubles[subject] = trouble
        if trouble != before and not self._ended.is_set():
            self._tell(f"traffic: {subject} {f'{trouble}, trying on' if trouble else 'answers again'}")


class TrafficProcess:
    """The traffic command as a child process: start, switch and stop it; it ends with this process."""

    def __init__(self, url: str, *, rate_scale: float = 1.0, log_path: Path | None = None) -> None:
        """Prepare; `log_path` takes what the child says (default: this process's own streams)."""
        self._url = url
        self._rate_scale = rate_scale
        self._log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None
        self.profile = "idle"

    @property
    def running(self) -> bool:
        """Whether requests are being sent."""
        return self._process is not None and self._process.poll() is None

    def start(self, profile: str) -> None:
        """Send this profile from now on, instead of what was sent; SandboxError for an unknown name."""
        streams = profile_named(profile).streams
        self.stop()
        self.profile = profile
        if not streams:
            return
        command = [sys.executable, "-m", "sandbox", "traffic", profile, "--url", self._url]
        command += ["--rate-scale", str(self._rate_scale)]
        if self._log_path is None:
            self._process = start_bound(command, folder=PROJECT_ROOT)
            return
        with self._log_path.open("ab") as log:
            self._process = start_bound(command, output=log, folder=PROJECT_ROOT)

    def stop(self) -> None:
        """End the child; the profile becomes "idle"."""
        if self._process is not None:
            end_group(self._process, STOP_SECONDS)
            self._process = None
        self.profile = "idle"
