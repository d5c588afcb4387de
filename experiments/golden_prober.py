"""Sends the golden requests: to every ready model that has one, every few minutes, one at a time per server.

Where it sends nothing, it can say why (`why_not`). Only what changes is written to the journal.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from control.facade import Control
from control.golden import Asked, ask
from control.performer import Course
from control.saved_requests import SavedRequest
from signals.own_requests import Sent
from telemetry.access import GOLDEN
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.errors import ControlError
from telemetry.facts import ModelConfig
from telemetry.identity import Server
from telemetry.probe import ProbeCause, ProbeResult
from telemetry.scrape import Samples, Scrape, Series, Source

_log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""How often it is looked whether a server's turn has come."""
GAP_SECONDS = 0.5
"""Between two golden requests to one server: two a second at most."""
KEEP_SENT = 20_000
"""Golden requests of all servers that are remembered: an hour of three hundred models each minute."""
COUNTED_CAUSES = (None, ProbeCause.WRONG_ANSWER, ProbeCause.NOT_FINITE, ProbeCause.SLOW)
"""With these a model has answered, and its server has counted the request."""
AGAIN_SECONDS = 2.0
"""A model that fails is asked once more after this: a full queue of a moment is no finding."""


@dataclass(frozen=True, slots=True)
class Target:
    """A model that is READY; `version` is the newest that is."""

    server: Server
    model: str
    version: str
    config: ModelConfig | None


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Minutes between two golden requests to a model (0 = none by itself), and seconds to wait."""

    every_minutes: float
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class Hearers:
    """Who is told: of a result, of a model no longer asked, and of all results of a server at once."""

    report: Callable[[ProbeResult], None]
    forget: Callable[[str, str], None]
    publish: Callable[[Scrape], None]


class GoldenProber:
    """One per process; `start()` begins. Every method may be called from any thread.

    `servers()` are those that are watched, `targets(server_id)` the ready models of one, read only when its
    turn has come. `rhythm_of(server_id)` is None where no golden request is sent.
    """

    def __init__(
        self,
        control: Control,
        servers: Callable[[], Iterable[Server]],
        targets: Callable[[str], Iterable[Target]],
        rhythm_of: Callable[[str], Rhythm | None],
        hearers: Hearers,
    ) -> None:
        self._control = control
        self._servers = servers
        self._targets = targets
        self._rhythm_of = rhythm_of
        self._hearers = hearers
        self._ended = threading.Event()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._last_round: dict[str, float] = {}
        self._results: dict[tuple[str, str], ProbeResult] = {}
        self._sent: deque[tuple[str, Sent]] = deque(maxlen=KEEP_SENT)
        self.since = time.time()
        """Unix seconds from which on all that was sent is known."""

    def start(self) -> None:
        """Begin to look whose turn it is."""
        self._ended.clear()
        threading.Thread(target=self._loop, name="golden-requests", daemon=True).start()

    def stop(self) -> None:
        """Send nothing more."""
        self._ended.set()
        self._wake.set()

    def poke(self, server_id: str) -> None:
        """Ask this server's models now: one was loaded, or a golden request was saved."""
        with self._lock:
            self._last_round.pop(server_id, None)
        self._wake.set()

    def every_minutes(self, server_id: str) -> float:
        """Minutes between two golden requests to a model of this server; 0: none is sent by itself."""
        rhythm = self._rhythm_of(server_id)
        return rhythm.every_minutes if rhythm is not None else 0.0

    def sent(self, server_id: str, since: float) -> list[Sent]:
        """The golden requests to a server since then (unix seconds), the oldest first."""
        with self._lock:
            return [one for server, one in self._sent if server == server_id and one.ended >= since]

    def why_not(self, server_id: str, model: str, config: ModelConfig | None) -> str:
        """Why this model is not asked by itself, one clause; "" if it is."""
        rhythm = self._rhythm_of(server_id)
        if rhythm is None or not rhythm.every_minutes:
            return "golden requests are not sent by themselves there (golden: every_minutes)"
        server = next((one for one in self._servers() if one.id == server_id), None)
        if server is None:
            return "its server is not configured"
        if reason := limited(server, config):
            return reason
        try:
            self._control.admit(_action(server_id, model), by=GOLDEN)
        except ControlError as error:
            return error.sentence
        return ""

    # ---- whose turn it is

    def _loop(self) -> None:
        while not self._ended.is_set():
            servers = tuple(self._servers())
            self._forget_all_but({one.id for one in servers})
            for server in servers:
                self._forget_gone(server.id)
                if self._takes_turn(server.id):
                    threading.Thread(
                        target=self._turn, args=(server.id,), name=f"golden-{server.id}", daemon=True
                    ).start()
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()

    def _takes_turn(self, server_id: str) -> bool:
        rhythm = self._rhythm_of(server_id)
        if rhythm is None or not rhythm.every_minutes:
            return False
        with self._lock:
            last = self._last_round.get(server_id)
            due = last is None or time.monotonic() - last >= rhythm.every_minutes * 60.0
            if not due or server_id in self._busy:
                return False
            self._busy.add(server_id)
            self._last_round[server_id] = time.monotonic()
        return True

    def _turn(self, server_id: str) -> None:
        try:
            self.round(server_id)
        except ControlError as error:
            _log.warning("golden requests of %s: %s", server_id, error.sentence)
        finally:
            with self._lock:
                self._busy.discard(server_id)

    # ---- one round

    def round(self, server_id: str) -> None:
        """Ask every model of the server that has a golden request, one after the other."""
        golden = self._control.golden.of(server_id)
        ready = [one for one in self._targets(server_id) if one.model in golden]
        if golden and not ready:
            # Right after the start nothing of the server is known: its turn comes again soon.
            with self._lock:
                self._last_round[server_id] = time.monotonic() - self._soon(server_id)
        for target in ready:
            if self._ended.is_set():
                return
            if self.why_not(server_id, target.model, target.config):
                self._drop(server_id, target.model)
            elif target.config is not None and not self._in_use(target):
                self._tell(target, self._asked(target, target.config, golden[target.model]))
                self._ended.wait(GAP_SECONDS)
        known = {one.model for one in ready}
        for server, model in tuple(self._results):
            if server == server_id and model not in known:
                self._drop(server_id, model)
        self._publish(server_id)

    def _soon(self, server_id: str) -> float:
        rhythm = self._rhythm_of(server_id)
        return max(0.0, (rhythm.every_minutes * 60.0 if rhythm is not None else 0.0) - 5 * LOOK_SECONDS)

    def _in_use(self, target: Target) -> bool:
        """True while it is loaded, or while a run measures the server: then nothing may disturb."""
        if self._control.running(target.server.id, target.model) is not None:
            return True
        return any(
            record.running and record.action.kind in (ActionKind.LOAD_RUN, ActionKind.EXPERIMENT)
            for record in self._control.records(target.server.id)
        )

    def _asked(self, target: Target, config: ModelConfig, golden: SavedRequest) -> ProbeResult:
        rhythm = self._rhythm_of(target.server.id)
        limit = rhythm.timeout_seconds if rhythm is not None else golden.timeout_seconds
        found = self._sent_once(target, config, golden, limit)
        if found.cause is not None and not self._ended.wait(AGAIN_SECONDS):
            found = self._sent_once(target, config, golden, limit)
        if not found.version:
            found = Asked(found.cause, found.sentence, found.latency_us, target.version)
        return found.result(target.server.id, target.model, time.time())

    def _sent_once(self, target: Target, config: ModelConfig, golden: SavedRequest, limit: float) -> Asked:
        began = time.time()
        found = ask(target.server, config, golden, limit)
        answered = found.cause in COUNTED_CAUSES
        sent = Sent(target.model, began, time.time(), len(golden.steps), answered)
        with self._lock:
            self._sent.append((target.server.id, sent))
        return found

    def _tell(self, target: Target, result: ProbeResult) -> None:
        if result.cause == ProbeCause.NOT_READY and target.model not in self._ready_on(target.server.id):
            # Somebody unloaded it while it was asked: that it does not answer is no fault.
            self._drop(target.server.id, target.model)
            return
        key = (result.server, result.model)
        before = self._results.get(key)
        self._results[key] = result
        self._hearers.report(result)
        was = before.label if before is not None else ""
        # The server's silence is told elsewhere, and the first good answer is no news.
        if result.cause == ProbeCause.UNREACHABLE or result.label == (was or "ok"):
            return
        self._record(result)

    def _record(self, result: ProbeResult) -> None:
        """One line in the journal: from here on it goes so."""
        outcome = Outcome.DONE if result.ok else Outcome.FAILED
        words = "answers its golden request again" if result.ok else "fails its golden request"
        sentence = f"{result.model} {words}: {result.sentence}"

        def note(course: Course) -> Conclusion:
            course.sent()
            return Conclusion(outcome, sentence)

        try:
            self._control.perform(_action(result.server, result.model, result.label), note, by=GOLDEN)
        except ControlError as error:
            _log.warning("golden request not recorded: %s; %s", sentence, error.sentence)

    def _forget_all_but(self, servers: set[str]) -> None:
        for server, model in [key for key in tuple(self._results) if key[0] not in servers]:
            self._drop(server, model)

    def _forget_gone(self, server_id: str) -> None:
        """Of a model that is not READY any more no earlier answer tells anything, whatever it was."""
        asked = {model for server, model in tuple(self._results) if server == server_id}
        for model in asked - self._ready_on(server_id) if asked else ():
            self._drop(server_id, model)

    def _ready_on(self, server_id: str) -> set[str]:
        return {one.model for one in self._targets(server_id)}

    def _drop(self, server_id: str, model: str) -> None:
        if self._results.pop((server_id, model), None) is not None:
            self._hearers.forget(server_id, model)

    def _publish(self, server_id: str) -> None:
        mine = sorted(
            (one for one in tuple(self._results.values()) if one.server == server_id),
            key=lambda one: one.model,
        )
        series = [
            Series(
                "tritonscope_probe_success",
                (("cause", one.label), ("model", one.model), ("version", one.version)),
            )
            for one in mine
        ]
        if mine:
            values = np.array([float(one.ok) for one in mine])
            self._hearers.publish(Scrape(server_id, Source.PROBES, time.time(), 0.0, Samples(series, values)))


def limited(server: Server, config: ModelConfig | None) -> str:
    """Why a model with a limit on its load is never asked by itself; "" without one."""
    if server.load_run_limit_per_second is not None:
        return "its server has a limit on load (load_runs), under which nothing is sent by itself"
    groups = config.raw.get("instance_group") if config is not None else None
    for group in groups if isinstance(groups, list) else ():
        limits = group.get("rate_limiter") if isinstance(group, dict) else None
        if isinstance(limits, dict) and limits.get("resources"):
            return "its instances share resources (rate_limiter), which others would wait for"
    return ""


def _action(server_id: str, model: str, cause: str = "") -> Action:
    told = {"golden request": cause} if cause else {}
    return Action(ActionKind.TEST_REQUEST, server_id, model, parameters=told)
