"""The gate before the app: who is let in as whom, and every way to pretend that fails."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from signin.connection import Connection
from signin.events import say_on_stdout
from signin.forms import FOREIGN, TOO_LARGE, WRONG, Forms
from signin.gate import MAX_FORM_BYTES, SAFE_HEADERS, Gate
from signin.throttle import (
    GLOBAL_DELAY_SECONDS,
    GLOBAL_FREE_FAILURES,
    MAX_FAILURES,
    REFUSED_SECONDS,
    Throttle,
)
from signin.tickets import Tickets
from signin.visitors import COOKIE, HEADER, Visitor, Visitors, opened, tidy
from telemetry.access import ROLES, VIEWER, Access, Grants, How, Oidc, SharedPassword, TrustedProxy

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


# ---- the person at the machine


def test_without_settings_the_browser_on_this_machine_is_the_local_person() -> None:
    assert Edge(Access()).browser().get("/overview").json()["how"] == How.LOCAL


@pytest.mark.parametrize(
    ("address", "host", "headers"),
    [
        (ELSEWHERE, "localhost:8501", {}),
        (LOOPBACK, "rebound.example.com", {}),
        (LOOPBACK, "localhost.example.com", {}),
        (LOOPBACK, "localhost:8501", {"x-forwarded-for": ELSEWHERE}),
        (LOOPBACK, "localhost:8501", {"forwarded": "for=1.2.3.4"}),
        (LOOPBACK, "localhost:8501", {"x-real-ip": LOOPBACK}),
        (LOOPBACK, "localhost:8501", {"via": "1.1 proxy"}),
        ("", "localhost:8501", {}),
    ],
)
def test_whoever_is_not_surely_at_the_machine_is_a_viewer(
    address: str, host: str, headers: dict[str, str]
) -> None:
    told = Edge(Access()).browser(address, host, **headers).get("/overview").json()
    assert (told["how"], told["rights"]) == (How.ANONYMOUS, ["view"])


@pytest.mark.parametrize("host", ["127.0.0.1:8501", "[::1]:8501", "app.localhost"])
def test_names_of_this_machine(host: str) -> None:
    connection = Connection.of(
        {"headers": [(b"host", host.encode())], "client": ("::ffff:127.0.0.1", 1), "scheme": "http"}
    )
    assert connection.is_local


# ---- forged headers and roles


def test_the_gates_own_header_is_thrown_away_when_a_client_sends_it() -> None:
    edge, stranger = with_password(), Tickets()
    forged = Visitor("boss", How.OIDC, ("ops",)).sealed(stranger)
    for name in (HEADER, HEADER.upper()):
        told = edge.browser(ELSEWHERE, **{name: forged}).get("/overview").json()
        assert (told["how"], told["rights"]) == (How.ANONYMOUS, ["view"])


def by_proxy(address: str, **headers: str) -> dict[str, Any]:
    edge = Edge(Access(GRANTS, configured=True, proxy=TrustedProxy(("10.1.0.0/16", "::1"))))
    told: dict[str, Any] = edge.browser(address, "triton.example.com", **headers).get("/overview").json()
    return told


def test_the_proxy_says_who_it_is_and_only_the_proxy() -> None:
    headers = {"x-forwarded-email": "a@example.com", "x-forwarded-groups": "dev, ops"}
    assert by_proxy(PROXY, **headers) == {
        "name": "a@example.com", "how": How.PROXY, "rights": sorted(ROLES["admin"]),
    }  # fmt: skip
    for address in (ELSEWHERE, LOOPBACK, "10.2.0.1", "", "not an address"):
        assert by_proxy(address, **headers)["how"] == How.ANONYMOUS


def test_an_address_that_a_header_gave_is_not_believed() -> None:
    # What an ASGI server that believes X-Forwarded-For makes of a forged one.
    headers = {"x-forwarded-email": "a@example.com", "x-forwarded-for": f"{PROXY}, {PROXY}:443"}
    assert by_proxy(PROXY, **headers)["how"] == How.ANONYMOUS


def test_a_name_that_stands_there_twice_is_nobodys() -> None:
    edge = Edge(Access(GRANTS, configured=True, proxy=TrustedProxy((PROXY,))))
    client = edge.browser(PROXY)
    pair = [("x-forwarded-email", "a@example.com"), ("x-forwarded-email", "boss@example.com")]
    assert client.get("/overview", headers=pair).json()["how"] == How.ANONYMOUS


def by_issuer(claims: Mapping[str, Any] | None, **more: Any) -> dict[str, Any]:
    oidc = Oidc(
        "https://issuer.example.com", "app", "https://app.example.com/oauth2callback", "s", "c", **more
    )
    edge = Edge(Access(GRANTS, configured=True, oidc=oidc), lambda cookies: claims)
    told: dict[str, Any] = edge.browser(ELSEWHERE).get("/overview").json()
    return told


def test_claims_of_the_issuer_give_name_and_groups() -> None:
    fresh = {"email": "a@example.com", "groups": ["ops"], "iat": Clock().now - 60}
    assert by_issuer(fresh)["rights"] == sorted(ROLES["admin"])
    nested = {"sub": "7", "realm_access": {"roles": ["ops"]}, "iat": Clock().now}
    assert by_issuer(nested, groups_claim="realm_access.roles")["name"] == "7"
    assert by_issuer(nested, groups_claim="realm_access.roles")["rights"] == sorted(ROLES["admin"])
    assert by_issuer({**fresh, "groups": "others"})["rights"] == ["view"]
    assert by_issuer({**fresh, "groups": {"ops": True}})["rights"] == ["view"]


def test_without_valid_or_fresh_claims_nobody_is_signed_in() -> None:
    assert by_issuer(None)["how"] == How.ANONYMOUS
    assert by_issuer({"groups": ["ops"]})["how"] == How.ANONYMOUS
    old = {"email": "a@example.com", "groups": ["ops"], "iat": Clock().now - 13 * 3600}
    assert by_issuer(old)["how"] == How.ANONYMOUS


# ---- the shared password


def test_the_password_opens_and_the_session_has_an_end() -> None:
    edge = with_password()
    client = edge.browser()
    answer = client.post("/sign-in", data=fields(client, next="/repository?find=x"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/repository?find=x")
    cookie = next(one for one in answer.headers.get_list("set-cookie") if one.startswith(COOKIE))
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    told = client.get("/overview").json()
    assert (told["name"], told["rights"]) == ("night shift", sorted(ROLES["operator"]))
    edge.clock.now += edge.access.session_seconds + 1
    assert client.get("/overview").json()["how"] == How.ANONYMOUS


def test_the_password_does_not_open_from_elsewhere() -> None:
    edge = with_password()
    far = edge.browser(ELSEWHERE)
    assert 'name="password"' not in far.get("/sign-in").text
    near = edge.browser()
    answer = far.post("/sign-in", data=fields(near), cookies=dict(near.cookies))
    assert answer.status_code == 403
    assert edge.throttle.failures(ELSEWHERE) == 0, "it was not even compared"
    near.post("/sign-in", data=fields(near))
    stolen = far.get("/overview", cookies={COOKIE: near.cookies[COOKIE]}).json()
    assert stolen["how"] == How.ANONYMOUS


def test_the_settings_may_allow_it_from_elsewhere() -> None:
    edge = Edge(Access(GRANTS, configured=True, password=SharedPassword(PASSWORD, beyond_loopback=True)))
    far = edge.browser(ELSEWHERE)
    assert far.post("/sign-in", data=fields(far)).status_code == 303
    assert far.get("/overview").json()["how"] == How.PASSWORD


def test_ten_wrong_passwords_are_slowed_down_and_then_refused() -> None:
    edge = with_password()
    client = edge.browser()
    form = fields(client, password="wrong")
    waits = []
    for _ in range(MAX_FAILURES):
        answer = client.post("/sign-in", data=form)
        if answer.status_code == 429:
            waits.append(int(answer.headers["retry-after"]))
            assert "Nothing was checked" in answer.text
            assert client.post("/sign-in", data=fields(client)).status_code == 429, "not even the right one"
            edge.clock.now += waits[-1]
            answer = client.post("/sign-in", data=form)
        assert answer.status_code == 403
        assert WRONG in answer.text
    assert waits == sorted(waits)
    assert (len(waits), waits[0], waits[-1]) == (7, 3, 61)
    refused = client.post("/sign-in", data=fields(client))
    assert refused.status_code == 429
    assert "refused for 15 minutes" in refused.text
    assert COOKIE not in client.cookies
    edge.clock.now += REFUSED_SECONDS
    assert client.post("/sign-in", data=fields(client)).status_code == 303


def test_tries_from_everywhere_slow_everybody_down() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    for number in range(GLOBAL_FREE_FAILURES):
        assert throttle.admit(f"192.0.2.{number}") == 0
    assert 0 < throttle.admit("198.51.100.1") <= GLOBAL_DELAY_SECONDS
    clock.now += GLOBAL_DELAY_SECONDS
    assert throttle.admit("198.51.100.1") == 0


def test_all_addresses_of_an_ipv6_network_count_as_one() -> None:
    throttle = Throttle(Clock())
    for number in range(3):
        throttle.admit(f"2001:db8::{number}")
    assert throttle.admit("2001:db8::ffff") > 0
    assert throttle.admit("2001:db8:0:1::1") == 0


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "a\r\nSet-Cookie: x=1", "x" * 500, "\u202egro.evil", ""]
)
def test_a_given_name_is_one_harmless_line(name: str) -> None:
    edge = with_password()
    client = edge.browser()
    answer = client.post("/sign-in", data=fields(client, name=name))
    assert answer.status_code == 303
    shown = client.get("/sign-in").text
    assert "<script>" not in shown
    told = client.get("/overview").json()["name"]
    assert told == (tidy(name) or "somebody")
    assert told.isprintable()
    assert len(told) <= 80


# ---- requests that another site makes the browser send


@pytest.mark.parametrize(
    ("headers", "change"),
    [
        ({"origin": "https://evil.example.com"}, {}),
        ({"origin": "null"}, {}),
        ({"sec-fetch-site": "cross-site"}, {}),
        ({"sec-fetch-site": "same-site"}, {}),
        ({}, {"token": ""}),
        ({}, {"token": "e30.00"}),
    ],
)
def test_a_form_that_was_not_sent_from_here_does_nothing(
    headers: dict[str, str], change: dict[str, str]
) -> None:
    edge = with_password()
    client = edge.browser()
    answer = client.post("/sign-in", data=fields(client, **change), headers=headers)
    assert answer.status_code == 403
    assert FOREIGN in answer.text
    assert COOKIE not in client.cookies
    client.post("/sign-in", data=fields(client))
    out = client.post("/sign-out", data=fields(client, **change), headers=headers)
    assert out.status_code == 403
    assert client.get("/overview").json()["how"] == How.PASSWORD


def test_the_token_is_worth_nothing_without_its_cookie() -> None:
    edge = with_password()
    mine, other = edge.browser(), edge.browser()
    form = fields(mine)
    assert other.post("/sign-in", data=form).status_code == 403
    other.get("/sign-in")
    assert other.post("/sign-in", data=form).status_code == 403


def test_signing_out_ends_the_session_everywhere() -> None:
    edge = with_password()
    client, tab = edge.browser(), edge.browser()
    client.post("/sign-in", data=fields(client))
    stolen = client.cookies[COOKIE]
    with client.websocket_connect(STREAM) as stream:
        sealed = stream.receive_text()
    assert opened(sealed, edge.tickets) is not None
    assert client.post("/sign-out", data=fields(client)).headers["location"] == "/sign-in"
    assert client.get("/overview").json()["how"] == How.ANONYMOUS
    assert opened(sealed, edge.tickets) is None, "an open page knows it too"
    assert tab.get("/overview", cookies={COOKIE: stolen}).json()["how"] == How.ANONYMOUS


def test_sign_ins_and_sign_outs_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    edge = with_password()
    client = edge.browser()
    client.post("/sign-in", data=fields(client, password="wrong", name="guess"))
    client.post("/sign-in", data=fields(client))
    client.post("/sign-out", data=fields(client))
    assert edge.heard == [
        "sign-in guess, shared password, 127.0.0.1: refused",
        "sign-in night shift, shared password, 127.0.0.1: done",
        "sign-out night shift, shared password, 127.0.0.1: done",
    ]
    claims = {"email": "a@example.com", "iat": Clock().now}
    oidc = Oidc("https://issuer.example.com", "app", "https://app.example.com/oauth2callback", "s", "c")
    issued = Edge(Access(GRANTS, configured=True, oidc=oidc), lambda cookies: claims)
    browser = issued.browser(ELSEWHERE)
    for path in ("/overview", "/overview", "/auth/logout"):
        browser.get(path)
    assert issued.heard == [
        f"sign-in a@example.com, single sign-on, {ELSEWHERE}: done",
        f"sign-out a@example.com, single sign-on, {ELSEWHERE}: done",
    ]
    say_on_stdout("sign-in", who="a\nb", how=How.OIDC, address="::1", outcome="done")
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["who"] == "a\nb"


@pytest.mark.parametrize("change", ["x", ".", "", "0" * 64])
def test_a_cookie_that_was_changed_is_none(change: str) -> None:
    edge = with_password()
    client = edge.browser()
    client.post("/sign-in", data=fields(client))
    text, _, seal = client.cookies[COOKIE].partition(".")
    for forged in (f"{text}{change}.{seal[:-1]}", f"{text}.{change}", f"{change}.{seal}"):
        told = edge.browser().get("/overview", cookies={COOKIE: forged}).json()
        assert told["how"] == How.ANONYMOUS


def test_a_ticket_opens_for_its_purpose_only() -> None:
    tickets = Tickets()
    sealed = tickets.seal({"name": "x"}, 60, purpose="form")
    assert tickets.open(sealed, purpose="form") is not None
    assert tickets.open(sealed, purpose="visitor header") is None


# ---- where everybody must sign in


def test_nothing_is_shown_before_signing_in() -> None:
    edge = with_password(sign_in_required=True, metrics_open=False)
    client = edge.browser()
    page = client.get("/model?model=a b", headers={"accept": "text/html"})
    assert (page.status_code, page.headers["location"]) == (303, "/sign-in?next=%2Fmodel%3Fmodel%3Da%2520b")
    for path in (
        "/plotly.min.js",
        "/static/x.js",
        "/media/x",
        "/metrics",
        "/_stcore/host-config",
        "//healthz",
    ):
        assert client.get(path).status_code == 401, path
    assert client.put("/_stcore/upload_file/a/b").status_code == 401
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(STREAM):
        pass
    assert client.get("/healthz").text == "alive"
    client.post("/sign-in", data=fields(client))
    assert client.get("/model").json()["name"] == "night shift"
    with client.websocket_connect(STREAM) as stream:
        assert opened(stream.receive_text(), edge.tickets) is not None


@pytest.mark.parametrize(
    "target",
    ["https://evil.example.com", "//evil.example.com", "/\\evil.example.com", "javascript:x", "/a\nb"],
)
def test_signing_in_leads_nowhere_else(target: str) -> None:
    client = with_password().browser()
    assert client.post("/sign-in", data=fields(client, next=target)).headers["location"] == "/"


def test_a_form_of_a_hundred_megabytes_is_refused_while_it_arrives() -> None:
    client = with_password().browser()
    answer = client.post("/sign-in", content=b"a=" + b"x" * (MAX_FORM_BYTES + 1))
    assert answer.status_code == 413
    assert TOO_LARGE in answer.text


# ---- headers of every answer


def test_every_answer_has_the_safe_headers_and_over_tls_secure_cookies() -> None:
    edge = with_password(public_url="https://triton.example.com")
    client = edge.browser()
    for path in ("/overview", "/sign-in", "/healthz"):
        headers = client.get(path).headers
        for name, value in SAFE_HEADERS:
            assert headers[name.decode()] == value.decode()
    assert all("; Secure" in one for one in client.get("/sign-in").headers.get_list("set-cookie"))
    plain = with_password().browser().get("/sign-in").headers.get_list("set-cookie")
    assert plain
    assert not any("Secure" in one for one in plain)
