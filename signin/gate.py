"""The ASGI middleware before every page, file and websocket: who is it, may they come in, safe headers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote

from signin.connection import Connection, Scope
from signin.events import Tell, say_on_stdout
from signin.tickets import Tickets
from signin.visitors import HEADER, Visitor, Visitors
from telemetry.access import How

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
_OPEN = ("/healthz", "/_stcore/health", SIGN_IN, SIGN_OUT, "/auth/login", "/auth/logout", "/oauth2callback")
"""Paths everybody may ask for: signs of life, and the way in and out."""
_ISSUER_SIGN_OUT = "/auth/logout"
MAX_FORM_BYTES = 8192
KEEP_KNOWN = 10_000
SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"SAMEORIGIN"),
    # What Streamlit needs of scripts and styles it gives itself; these four forbid what it never does.
    (b"content-security-policy", b"frame-ancestors 'self'; object-src 'none'; base-uri 'self'; "
                                 b"form-action 'self'"),
)  # fmt: skip


class Gate:
    """Wraps the app. What it finds out travels in a sealed header that no client can make."""

    def __init__(
        self,
        app: App,
        visitors: Callable[[], Visitors],
        tickets: Tickets,
        tell: Tell = say_on_stdout,
    ) -> None:
        """`visitors` is asked at every connection: the settings are known only once the process runs."""
        self._tell = tell
        self._known: OrderedDict[str, None] = OrderedDict()
        self._app = app
        self._visitors = visitors
        self._tickets = tickets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        visitors, connection = self._visitors(), Connection.of(scope)
        visitor = visitors.of(connection)
        path = str(scope.get("path", ""))
        secure = connection.secure or visitors.access.public_url.startswith("https:")
        answer = send if scope["type"] == "websocket" else _with_safe_headers(send, secure=secure)
        if visitor.how is How.OIDC:
            self._follow(visitor, leaving=path == _ISSUER_SIGN_OUT)
        if visitors.access.sign_in_required and visitor.how is How.ANONYMOUS and not self._is_open(path):
            await _refuse(scope, path, answer)
            return
        headers = [(name, value) for name, value in scope["headers"] if name.lower() != HEADER.encode()]
        headers.append((HEADER.encode(), visitor.sealed(self._tickets).encode()))
        await self._app({**scope, "headers": headers}, receive, answer)

    def _follow(self, visitor: Visitor, *, leaving: bool) -> None:
        """The issuer signs people in and out; this app sees the first request with a new session."""
        if visitor.session not in self._known:
            self._known[visitor.session] = None
            self._tell("sign-in", who=visitor.name, how=visitor.how, address=visitor.address, outcome="done")
            while len(self._known) > KEEP_KNOWN:
                self._known.popitem(last=False)
        if leaving:
            self._tickets.end(visitor.session)
            self._tell("sign-out", who=visitor.name, how=visitor.how, address=visitor.address, outcome="done")

    def _is_open(self, path: str) -> bool:
        return path in _OPEN or (path == "/metrics" and self._visitors().access.metrics_open)


def _with_safe_headers(send: Send, *, secure: bool) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [_cookie(name, value, secure=secure) for name, value in message.get("headers", ())]
            there = {name.lower() for name, _ in headers}
            headers += [(name, value) for name, value in SAFE_HEADERS if name not in there]
            message = {**message, "headers": headers}
        await send(message)

    return sending


def _cookie(name: bytes, value: bytes, *, secure: bool) -> tuple[bytes, bytes]:
    """Over TLS every cookie is Secure, also those of the libraries."""
    if secure and name.lower() == b"set-cookie" and b"; secure" not in value.lower():
        return name, value + b"; Secure"
    return name, value


async def _refuse(scope: Scope, path: str, send: Send) -> None:
    if scope["type"] == "websocket":
        # Before it is accepted, this is an HTTP 403.
        await send({"type": "websocket.close", "code": 1008, "reason": "sign in first"})
        return
    wants_page = scope.get("method") == "GET" and any(
        name.lower() == b"accept" and b"text/html" in value for name, value in scope["headers"]
    )
    query = scope.get("query_string", b"").decode("latin-1")
    back = quote(path + (f"?{query}" if query else ""), safe="")
    status = 303 if wants_page else 401
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
    if wants_page:
        headers.append((b"location", f"{SIGN_IN}?next={back}".encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"Sign in first.\n"})
