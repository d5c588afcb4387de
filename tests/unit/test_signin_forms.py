"""The shared password, its forms, and requests that another site makes the browser send."""

from __future__ import annotations

import json

import pytest

from signin.events import say_on_stdout
from signin.forms import FOREIGN, WRONG
from signin.throttle import (
    GLOBAL_DELAY_SECONDS,
    GLOBAL_FREE_FAILURES,
    MAX_FAILURES,
    REFUSED_SECONDS,
    Throttle,
)
from signin.tickets import Tickets
from signin.visitors import COOKIE, opened, tidy
from telemetry.access import ROLES, Access, How, Oidc, SharedPassword
from tests.signin_edge import ELSEWHERE, GRANTS, PASSWORD, STREAM, Clock, Edge, fields, with_password

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
