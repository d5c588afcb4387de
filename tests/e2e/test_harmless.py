"""What a server or a file may hold and must not do: names with markup, and files that are too large."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import BrowserContext, Dialog, Page, Request, expect

from tests.e2e.app_process import app_process
from ui.navigation import PAGES

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
RECORDED = Path(__file__).resolve().parents[1] / "fixtures" / "small_repo"
EVIL = "<img src=x onerror=window.pwned=1>'&amp;<b>"
RENAMED = "slow_add"
LINK = {"refresh": "pause", "family": "nv_inference_count", "server": "lab"}
HUNDRED_MEGABYTES = 100 * 2**20


def recorded(name: str) -> bytes:
    text = (RECORDED / name).read_text(encoding="utf-8")
    return text.replace(f'"{RENAMED}"', f'"{EVIL}"').encode()


class Answers(BaseHTTPRequestHandler):
    """Recorded answers of a real server, in which one model has another name."""

    def do_GET(self) -> None:
        paths = {
            "/v2/models/stats": "default_2_under_load_stats.json",
            "/metrics": "default_2_under_load_metrics.txt",
        }
        if self.path in paths:
            self._answer(recorded(paths[self.path]))
        elif self.path == "/v2":
            self._answer(json.dumps({"name": EVIL, "version": "2.51.0", "extensions": [EVIL]}).encode())
        elif self.path.endswith("/config"):
            config = json.loads(recorded("config_fast_add.json"))
            config["name"] = self.path.split("/")[3]
            self._answer(json.dumps(config | {"parameters": {EVIL: {"string_value": EVIL}}}).encode())
        else:
            self.send_error(404, "no such path")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(recorded("default_2_under_load_index.json"))

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        settings = f"servers:\n  - {{id: lab, url: '{address}', metrics_url: '{address}', control: true}}\n"
        with app_process(tmp_path_factory.mktemp("harmless"), settings) as started:
            yield started
        server.shutdown()


def test_a_model_named_with_markup_does_nothing_on_any_page(url: str, page: Page) -> None:
    dialogs: list[str] = []

    def noted(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", noted)
    hosts: set[str] = set()
    page.on("request", lambda one: hosts.add(urlsplit(one.url).netloc))
    page.on("websocket", lambda one: hosts.add(urlsplit(one.url).netloc))
    seen = []
    for row in PAGES:
        if not row.file.exists():
            continue
        query = httpx.QueryParams({**LINK, "model": EVIL, "find": "<img"})
        page.goto(f"{url}/{row.address}?{query}")
        expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=60_000)
        page.wait_for_load_state("networkidle", timeout=60_000)
        assert page.evaluate("() => window.pwned") is None, row.address
        assert page.locator("img[src='x']").count() == 0, row.address
        seen.append(EVIL in page.inner_text("body"))
    assert any(seen), "the name is shown, as text"
    assert dialogs == []
    assert hosts - {""} == {urlsplit(url).netloc}, "nothing is asked of anybody else"


def test_a_file_of_a_hundred_megabytes_is_refused_with_a_sentence(
    url: str, page: Page, context: BrowserContext, tmp_path: Path
) -> None:
    large, small = tmp_path / "large.npy", tmp_path / "small.npy"
    with large.open("wb") as file:
        file.truncate(HUNDRED_MEGABYTES)
    small.write_bytes(b"not an array")
    page.goto(f"{url}/test_request?model=fast_add&refresh=pause")
    page.get_by_role("radio", name="file", exact=True).first.click(timeout=60_000)
    uploads: list[Request] = []

    def uploading(one: Request) -> None:
        if "/upload_file/" in one.url:
            uploads.append(one)

    page.on("request", uploading)
    chooser = page.locator("input[type=file]").first
    chooser.set_input_files(large)
    expect(page.get_by_text("File must be 64.0MB or smaller.")).to_be_visible()
    assert uploads == [], "the browser does not even send it"
    # A client that does not ask the page first.
    with page.expect_request(lambda one: "/upload_file/" in one.url and one.method == "PUT") as sent:
        page.locator("input[type=file]").first.set_input_files(small)
    put = sent.value
    cookies = "; ".join(f"{one['name']}={one['value']}" for one in context.cookies())
    headers = {"cookie": cookies, "x-xsrftoken": put.all_headers()["x-xsrftoken"], "origin": url}
    with large.open("rb") as content:
        answer = httpx.put(put.url, files={"file": ("large.npy", content)}, headers=headers, timeout=60)
    assert (answer.status_code, answer.text) == (413, "File too large")
