"""The one guard: may this be done to this server? Read-only is the default."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from telemetry.access import How, Identity, Right
from telemetry.actions import Action, ActionKind
from telemetry.errors import NotAllowed
from telemetry.identity import Server, is_http_addressable

CONTROL_REFUSED = (
    "Refused: the server does not accept load/unload. Start it with --model-control-mode=explicit "
    "(it now runs in none or poll mode)."
)
NOT_ADDRESSABLE = (
    "This name cannot be used over Triton's HTTP API (special characters); use gRPC or rename the model."
)
EXPLICIT = "explicit"
NONE_OR_POLL = "none or poll"


@dataclass(frozen=True, slots=True)
class Decision:
    """The guard's answer. `reason` says why not, and for an allowed action what allows it."""

    allowed: bool
    reason: str


class Policy:
    """Decides per server and action.

    Allowed is only what goes to our own sandbox (`is_sandbox`: GET /v2 answered with the random id this run
    gave its server) or to a server whose settings say `control: true`, and is asked for by a person who has
    the right to it there. Load runs need a limit for that server besides. Buttons show the same reason.
    """

    def __init__(self, servers: Callable[[], Sequence[Server]], is_sandbox: Callable[[str], bool]) -> None:
        self._servers = servers
        self._is_sandbox = is_sandbox
        self._lock = threading.Lock()
        self._control_modes: dict[str, str] = {}

    def server(self, server_id: str) -> Server | None:
        """The configured server of that id, None if there is none."""
        return next((server for server in self._servers() if server.id == server_id), None)

    def decide(self, server_id: str, kind: ActionKind, model: str = "", *, by: Identity) -> Decision:
        """May this person do `kind` to `model` on this server? Asks nobody but `is_sandbox`."""
        server = self.server(server_id)
        # A server that this person may not see does not exist for them.
        if server is None or not by.sees(server_id):
            return Decision(False, f"No server {server_id!r} is configured.")
        right = self._switched_on(server)
        if not right.allowed:
            return right
        if not by.may(kind.right, server_id):
            return Decision(False, _no_right(kind, server_id, by))
        if kind.right is Right.LOAD_RUN and not self._load_runs_allowed(server):
            return Decision(False, _no_load_runs(server_id))
        if server.http_url is None:
            return Decision(
                False, f"{server.id} has no HTTP address in the settings: nothing can be sent to it."
            )
        if model and not is_http_addressable(model):
            return Decision(False, NOT_ADDRESSABLE)
        if kind.changes_repository and self.control_mode(server_id) == NONE_OR_POLL:
            return Decision(False, CONTROL_REFUSED)
        return right

    def check(self, action: Action, *, by: Identity) -> Server:
        """The server to send to; raises NotAllowed with the reason the buttons show."""
        decision = self.decide(action.server, action.kind, action.model, by=by)
        server = self.server(action.server)
        if not decision.allowed or server is None:
            raise NotAllowed(decision.reason)
        return server

    def load_run_cap_per_second(self, server: Server) -> float | None:
        """Requests/s that a load run may send at most; None = no limit, which only the sandbox has.

        Raises NotAllowed for a server that gets no load runs: the limit is asked for again at sending.
        """
        if not self._load_runs_allowed(server):
            raise NotAllowed(_no_load_runs(server.id))
        return server.load_run_limit_per_second

    def control_mode(self, server_id: str) -> str | None:
        """ "explicit" or "none or poll" as the server's answers showed it, None before the first answer."""
        with self._lock:
            return self._control_modes.get(server_id)

    def note_control_mode(self, server_id: str, mode: str) -> None:
        """Remember what an answer of the server showed about its control mode."""
        with self._lock:
            self._control_modes[server_id] = mode

    def forget_control_mode(self, server_id: str) -> None:
        """The server was restarted, or a person wants it asked again."""
        with self._lock:
            self._control_modes.pop(server_id, None)

    def _load_runs_allowed(self, server: Server) -> bool:
        return server.load_run_limit_per_second is not None or self._is_sandbox(server.id)

    def _switched_on(self, server: Server) -> Decision:
        if self._is_sandbox(server.id):
            return Decision(True, f"{server.id} is the sandbox this run started.")
        if server.control:
            return Decision(True, f"Control of {server.id} is switched on in the settings.")
        if server.expected_server_name is not None:
            return Decision(
                False,
                f"Read-only: what answers at the address of {server.id} is not the sandbox this run started, "
                "or it does not answer.",
            )
        return Decision(
            False,
            f"Read-only: control of {server.id} is not switched on. "
            "To allow it, write control: true at this server in tritonscope.yml.",
        )


def _no_load_runs(server_id: str) -> str:
    return (
        f"Load runs on {server_id} are off: they would take capacity from its users. To allow them up to a "
        "limit, write load_runs: {max_requests_per_second: 50} at this server in tritonscope.yml."
    )


def _no_right(kind: ActionKind, server_id: str, by: Identity) -> str:
    right = f"the right {kind.right.value!r} on {server_id}"
    if by.how is How.ANONYMOUS:
        return (
            f"You are not signed in, and this needs {right}. Open the app on its own machine "
            "(127.0.0.1), or sign in: docs/security.md says how."
        )
    return f"{by.name} may not do this: it needs {right}, which the settings (`access:`) do not give."
