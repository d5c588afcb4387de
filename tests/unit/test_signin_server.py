"""The app's own addresses behind the gate: what they tell whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

import runtime
import server
from settings import Settings
from telemetry.access import NO_RIGHTS, VIEWER, Access, Grants, TrustedProxy
from telemetry.identity import Server

PROXY, ELSEWHERE = "10.0.0.2", "203.0.113.9"
SERVERS = (Server("open", None, "http://127.0.0.1:9"), Server("secret", None, "http://127.0.0.1:9"))
INNER = {"x-forwarded-email": "a@example.com", "x-forwarded-groups": "inner"}


@pytest.fixture
def ask() -> Iterator[Callable[..., Any]]:
    """`ask(path, address, access, **headers)`: the answer of the real routes behind the real gate."""

    def asked(path: str, address: str, access: Access, **headers: str) -> Any:
        runtime.install(runtime.Runtime(Settings(servers=SERVERS, access=access)))
        app = Starlette(routes=server.routes(), middleware=server.middleware())
        client = TestClient(app, base_url="http://triton.example.com", client=(address, 1))
        return client.get(path, headers=headers)

    yield asked
    runtime.shut_down()


def access(*, metrics_open: bool = True) -> Access:
    return Access(
        Grants(anonymous=VIEWER, signed_in=VIEWER),
        {"secret": Grants(anonymous=NO_RIGHTS, groups={"inner": VIEWER})},
        configured=True,
        metrics_open=metrics_open,
        proxy=TrustedProxy((PROXY,)),
    )


def test_signs_of_life_name_only_servers_that_are_seen(ask: Callable[..., Any]) -> None:
    assert set(ask("/healthz", ELSEWHERE, access()).json()["servers"]) == {"open"}
    assert set(ask("/healthz", PROXY, access(), **INNER).json()["servers"]) == {"open", "secret"}
    assert set(ask("/healthz", ELSEWHERE, access(), **INNER).json()["servers"]) == {"open"}


def test_the_apps_metrics_are_open_unless_the_settings_say_otherwise(ask: Callable[..., Any]) -> None:
    assert ask("/metrics", ELSEWHERE, access()).status_code == 200
    closed = access(metrics_open=False)
    assert ask("/metrics", ELSEWHERE, closed).status_code == 403
    assert ask("/metrics", PROXY, closed, **INNER).status_code == 200
    assert ask("/metrics", PROXY, closed, **{**INNER, "x-forwarded-groups": "others"}).status_code == 403


def test_the_account_page_lists_what_one_may(ask: Callable[..., Any]) -> None:
    text = ask("/sign-in", PROXY, access(), **INNER).text
    assert "You are <b>a@example.com</b>, sign-in of the proxy." in text
    assert "<td>secret</td><td>view</td>" in text
    assert "secret" not in ask("/sign-in", ELSEWHERE, access()).text
    assert "no way to sign in at this app" in ask("/sign-in", ELSEWHERE, access()).text
