"""Signing in with a real browser at a real app: single sign-on, the shared password, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from oidc_provider_mock import User, run_server_in_thread
from playwright.sync_api import BrowserContext, Page, expect
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from sandbox.ports import free_ports
from tests.e2e.app_process import app_process

pytestmark = pytest.mark.e2e
PASSWORD = "correct horse battery"
OPERATOR, RESEARCHER = "operator@example.com", "researcher@example.com"
SETTINGS = """
control: true
servers:
  - {{id: search, url: "127.0.0.1:9", metrics_url: none}}
  - {{id: secret, url: "127.0.0.1:9", metrics_url: none}}
access:
  anonymous: no
  metrics: view
  groups: {{ops: operator}}
  servers:
    secret: {{groups: {{research: tester}}}}
  password: {{from_env: SHARED}}
  oidc:
    metadata_url: {issuer}/.well-known/openid-configuration
    client_id: tritonscope
    client_secret_from_env: CLIENT_SECRET
    cookie_secret_from_file: cookie-secret
    redirect_uri: {app}/oauth2callback
    label: the test issuer
"""


@dataclass
class Gated:
    url: str
    websocket: str


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gated]:
    """An app where everybody must sign in, and an issuer that knows two people."""
    users = [
        User(sub="1", claims={"email": OPERATOR, "groups": ["ops"]}),
        User(sub="2", claims={"email": RESEARCHER, "groups": ["research", "</script><b>"]}),
    ]
    folder = tmp_path_factory.mktemp("gated")
    (folder / "cookie-secret").write_text("a secret of the cookies with 32 letters at least")
    port = free_ports(1)[0]
    with run_server_in_thread(user_claims=users) as issuer:
        settings = SETTINGS.format(
            issuer=f"http://localhost:{issuer.server_port}", app=f"http://localhost:{port}"
        )
        with app_process(folder, settings, port=port, SHARED=PASSWORD, CLIENT_SECRET="a client's secret"):
            yield Gated(f"http://localhost:{port}", f"ws://localhost:{port}/_stcore/stream")


def sign_in_as(page: Page, gated: Gated, sub: str) -> None:
    page.goto(f"{gated.url}/repository")
    expect(page).to_have_url(re.compile(r"/sign-in\?next=%2Frepository"))
    page.get_by_role("link", name="Sign in with the test issuer").click()
    page.get_by_role("button", name=sub, exact=True).click()
    expect(who(page)).to_be_visible(timeout=30_000)


def who(page: Page) -> Any:
    return page.get_by_role("note", name="who you are")


def cookies_of(context: BrowserContext) -> dict[str, str]:
    return {one["name"]: one["value"] for one in context.cookies()}


def test_groups_of_the_issuer_become_rights_and_servers(gated: Gated, page: Page) -> None:
    sign_in_as(page, gated, "1")
    expect(who(page)).to_contain_text(OPERATOR)
    expect(who(page)).to_contain_text("view, infer, load, load-run, log")
    page.goto(f"{gated.url}/overview?server=secret")
    expect(page.get_by_role("heading", level=1)).to_contain_text("search", timeout=20_000)
    assert "secret" not in page.inner_text("body")
    page.goto(f"{gated.url}/sign-in")
    expect(page.get_by_role("cell", name="search")).to_be_visible()
    expect(page.get_by_role("cell", name="secret")).to_have_count(0)


def test_another_person_sees_the_other_server_and_leaves(
    gated: Gated, page: Page, context: BrowserContext
) -> None:
    sign_in_as(page, gated, "2")
    expect(who(page)).to_contain_text(RESEARCHER)
    page.goto(f"{gated.url}/sign-in")
    expect(page.get_by_role("row", name="secret")).to_contain_text("view, infer")
    expect(page.get_by_role("row", name="search")).to_contain_text("view")
    cookies = cookies_of(context)
    assert httpx.get(f"{gated.url}/", cookies=cookies).status_code == 200
    page.get_by_role("link", name="Sign out").click()
    page.goto(f"{gated.url}/overview")
    expect(page).to_have_url(re.compile("/sign-in"))
    assert httpx.get(f"{gated.url}/", cookies=cookies).status_code == 401, (
        "a copy of the cookies is worth nothing"
    )


def test_the_cookie_cannot_be_made_or_changed(gated: Gated, page: Page, context: BrowserContext) -> None:
    sign_in_as(page, gated, "2")
    real = cookies_of(context)["_streamlit_user"]
    forged = re.sub(
        r"^(.{40})(.)", lambda found: found[1] + ("A" if found[2] != "A" else "B"), real.strip('"')
    )
    claims = '{"is_logged_in": true, "email": "operator@example.com", "groups": ["ops"]}'
    for value in (forged, claims, "", real[:-4]):
        answer = httpx.get(f"{gated.url}/", headers={"cookie": f"_streamlit_user={value}"})
        assert answer.status_code == 401, value


def test_the_shared_password_opens_in_the_browser(gated: Gated, page: Page) -> None:
    page.goto(gated.url)
    page.get_by_label("Your name, for the journal").fill("<b>night</b> shift")
    page.get_by_label("Password").fill("not the password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("That is not the password.")
    page.get_by_label("Your name, for the journal").fill("<b>night</b> shift")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(who(page)).to_contain_text("<b>night</b> shift", timeout=30_000)
    who(page).get_by_role("link", name="Sign out").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Password")).to_be_visible()
    page.goto(f"{gated.url}/overview")
    expect(page).to_have_url(re.compile("/sign-in"))


# ---- without signing in, and from other sites


@pytest.mark.parametrize(
    "path",
    ["/", "/overview", "/metrics", "/_stcore/host-config", "/plotly.min.js", "/media/x", "/app/static/x"],
)
def test_nothing_is_told_before_signing_in(gated: Gated, path: str) -> None:
    answer = httpx.get(f"{gated.url}{path}")
    assert answer.status_code == 401
    assert answer.text == "Sign in first.\n"


def test_signs_of_life_are_told_without_names(gated: Gated) -> None:
    health = httpx.get(f"{gated.url}/healthz").json()
    assert (health["status"], health["servers"]) == ("ok", {})
    assert httpx.get(f"{gated.url}/_stcore/health").status_code == 200


def test_the_websocket_is_closed_to_strangers_and_to_other_sites(gated: Gated) -> None:
    with pytest.raises(InvalidStatus) as refused, connect(gated.websocket, origin=Origin(gated.url)):
        pass
    assert refused.value.response.status_code == 403
    cookies = password_cookies(gated)
    with connect(gated.websocket, origin=Origin(gated.url), additional_headers={"cookie": cookies}):
        pass
    with (
        pytest.raises(InvalidStatus) as foreign,
        connect(
            gated.websocket,
            origin=Origin("https://evil.example.com"),
            additional_headers={"cookie": cookies},
        ),
    ):
        pass
    assert foreign.value.response.status_code == 403


def test_an_upload_from_another_site_lacks_the_token(gated: Gated) -> None:
    cookies = password_cookies(gated)
    files = {"file": ("x.npy", b"123")}
    for headers in ({}, {"X-Xsrftoken": "made-up"}, {"Origin": "https://evil.example.com"}):
        answer = httpx.put(
            f"{gated.url}/_stcore/upload_file/some-session/some-file",
            files=files,
            headers={"cookie": cookies, **headers},
        )
        assert answer.status_code == 403
        assert "XSRF" in answer.text


def password_cookies(gated: Gated) -> str:
    with httpx.Client(base_url=gated.url) as client:
        page = client.get("/sign-in").text
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))
        answer = client.post("/sign-in", data={**hidden, "name": "test", "password": PASSWORD})
        assert answer.status_code == 303, answer.text
        return "; ".join(f"{one.name}={one.value}" for one in client.cookies.jar)


def test_the_log_of_the_app_holds_no_secret(gated: Gated, tmp_path_factory: pytest.TempPathFactory) -> None:
    logs = list(Path(tmp_path_factory.getbasetemp()).glob("gated*/app.log"))
    assert logs
    text = "".join(log.read_text(errors="replace") for log in logs)
    for secret in (PASSWORD, "a client's secret", "a secret of the cookies"):
        assert secret not in text


def test_a_proxy_beside_the_app_signs_people_in(tmp_path: Path) -> None:
    settings = (
        "servers: [{id: search, url: '127.0.0.1:9', metrics_url: none}]\n"
        "access: {anonymous: no, proxy: {addresses: [127.0.0.1]}, groups: {ops: operator}}\n"
    )
    person = {
        "X-Forwarded-Email": OPERATOR,
        "X-Forwarded-Groups": "dev,ops",
        "X-Forwarded-For": "203.0.113.9",
    }
    with app_process(tmp_path, settings) as url:
        assert httpx.get(f"{url}/overview").status_code == 401
        account = httpx.get(f"{url}/sign-in", headers=person).text
        assert f"You are <b>{OPERATOR}</b>" in account
        assert "<td>view, infer, load, load-run, log</td>" in account
        origin, stream = Origin(url), f"{url.replace('http', 'ws')}/_stcore/stream"
        with connect(stream, origin=origin, additional_headers=person) as websocket:
            assert websocket.response is not None
            assert websocket.response.status_code == 101
        with pytest.raises(InvalidStatus), connect(stream, origin=origin):
            pass
