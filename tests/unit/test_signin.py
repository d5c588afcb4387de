"""The gate before the app: who is let in as whom, and every way to pretend that fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from starlette.websockets import WebSocketDisconnect

from signin.connection import Connection
from signin.forms import TOO_LARGE
from signin.gate import MAX_FORM_BYTES, SAFE_HEADERS
from signin.tickets import Tickets
from signin.visitors import HEADER, Visitor, opened
from telemetry.access import ROLES, Access, How, Oidc, TrustedProxy
from tests.signin_edge import ELSEWHERE, GRANTS, LOOPBACK, PROXY, STREAM, Clock, Edge, fields, with_password

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
