"""The gate and the forms of the sign-in before a small app that says whom it was told about."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

from signin.forms import Forms
from signin.gate import Gate
from signin.throttle import Throttle
from signin.tickets import Tickets
from signin.visitors import HEADER, Visitors, opened
from telemetry.access import ROLES, VIEWER, Access, Grants, How, SharedPassword

PASSWORD = "correct horse battery"
STREAM = "ws://localhost:8501/_stcore/stream"
LOOPBACK, ELSEWHERE, PROXY = "127.0.0.1", "203.0.113.9", "10.1.2.3"
GRANTS = Grants(
    anonymous=VIEWER, signed_in=VIEWER, password=ROLES["operator"], groups={"ops": ROLES["admin"]}
)


@dataclass
class Clock:
    """A clock that goes when it is told to."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Edge:
    """The gate, the forms, and an app behind them that says whom it was told about."""

    access: Access
    claims: Callable[[Mapping[str, str]], Mapping[str, Any] | None] = lambda cookies: None
    clock: Clock = field(default_factory=Clock)
    heard: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tickets = Tickets(clock=self.clock)
        self.throttle = Throttle(self.clock)
        visitors = Visitors(self.access, self.tickets, self.claims, self.clock)
        forms = Forms(
            lambda: visitors, self.tickets, self.throttle, lambda: "/auth/login", lambda: ["lab"], self._hear
        )
        self.app = Starlette(
            routes=[
                *forms.routes(),
                WebSocketRoute("/_stcore/stream", _stream),
                Route("/healthz", _plain),
                Route("/{path:path}", self._told, methods=["GET", "POST", "PUT"]),
            ],
            middleware=[Middleware(Gate, visitors=lambda: visitors, tickets=self.tickets, tell=self._hear)],
        )

    def _hear(self, event: str, *, who: str, how: How, address: str, outcome: str) -> None:
        self.heard.append(f"{event} {who}, {how}, {address}: {outcome}")

    async def _told(self, request: Request) -> Response:
        sealed = request.headers.getlist(HEADER)
        visitor = opened(sealed[0], self.tickets) if len(sealed) == 1 else None
        if visitor is None:
            return JSONResponse({"headers": len(sealed)})
        rights = sorted(visitor.identity(self.access).on("lab"))
        return JSONResponse({"name": visitor.name, "how": visitor.how, "rights": rights})

    def browser(self, address: str = LOOPBACK, host: str = "localhost:8501", **headers: str) -> TestClient:
        client = TestClient(
            self.app, base_url=f"http://{host}", client=(address, 40000), follow_redirects=False
        )
        client.headers.update(headers)
        return client


async def _plain(request: Request) -> Response:
    return Response("alive")


async def _stream(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text(websocket.headers.get(HEADER, ""))
    await websocket.close()


def with_password(**more: Any) -> Edge:
    return Edge(Access(GRANTS, configured=True, password=SharedPassword(PASSWORD), **more))


def fields(client: TestClient, **values: str) -> dict[str, str]:
    """The form as a browser would send it, with what stands hidden in it."""
    page = client.get("/sign-in").text
    found = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))
    return {**found, "name": "night shift", "password": PASSWORD, **values}
