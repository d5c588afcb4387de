"""The questions of the night, each answered on screen in words, without any docs.

A model that fails (a fault model of the sandbox) is loaded through the app and gets requests.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Locator, Page, expect

from sandbox.repository import FAULT_MODELS, place_model
from tests.e2e.stack import Stack, start_stack, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]
LIMIT_MS = 60_000
MODEL = "flaky"


class Clients:
    """Ten requests a second to the failing model until the end, whatever is answered."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/v2/models/{MODEL}/infer"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Clients:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(15)

    def _run(self) -> None:
        tensor = {"name": "INPUT", "shape": [1], "datatype": "FP32", "data": [1.0]}
        with requests.Session() as session:
            while not self._ended.wait(0.1):
                # A client of the night goes on: one answer that takes too long does not end the traffic.
                with contextlib.suppress(requests.RequestException):
                    session.post(self._url, json={"inputs": [tensor]}, timeout=10)


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A product of its own whose model `flaky` fails every second request."""
    running = start_stack(tmp_path_factory.mktemp("questions"))
    until(running.serves, "Triton ready", 60)
    state = running.state()
    place_model(FAULT_MODELS[MODEL], Path(state["repository_path"]), {}, parameters={"failure_ratio": "0.5"})
    with Clients(state["http_url"]):
        yield running
    assert running.end() == 0, running.output.read_text()


@pytest.fixture
def overview(page: Page, troubled: Stack) -> Page:
    expect.set_options(timeout=LIMIT_MS)
    page.set_default_timeout(LIMIT_MS)
    page.goto(troubled.app_url)
    return page


@pytest.fixture
def failing(overview: Page, troubled: Stack) -> Page:
    """The model was loaded on the Repository page: by whichever test is the first one."""
    index = requests.post(f"{troubled.state()['http_url']}/v2/repository/index", timeout=10).json()
    if not any(one["name"] == MODEL and one.get("state") == "READY" for one in index):
        overview.goto(f"{troubled.app_url}/repository")
        overview.get_by_role("button", name=f"load {MODEL}", exact=True).first.click()
        overview.get_by_role("dialog").get_by_role("button", name="Load", exact=True).click()
        expect(overview.locator("table tr", has_text=MODEL).first).to_contain_text("ready")
    return overview


def answer(page: Page, question: str) -> Locator:
    """The answer that stands beside a question."""
    return page.locator(f".ts-questions dt:text-is('{question}') + dd")


def ask(page: Page, troubled: Stack, model: str) -> None:
    page.goto(f"{troubled.app_url}/triage?model={model}")


def test_which_model_fails_and_since_when(failing: Page, troubled: Stack) -> None:
    overview = failing
    overview.goto(troubled.app_url)
    finding = overview.locator(".ts-finding", has_text=f"{MODEL} fails")
    expect(finding).to_contain_text(re.compile(r"since \d\d:\d\d"))
    finding.get_by_role("link", name="look").click()
    card = overview.locator(".ts-case", has_text=f"{MODEL} fails").first
    expect(card).to_contain_text(re.compile(r"fails (4|5)\d(\.\d)? % of its requests"))
    expect(card).to_contain_text(re.compile(r"since \d\d:\d\d \(\d+ (s|min)\)"))
    expect(card).to_contain_text("What to do")
    expect(card.locator("svg").first).to_be_visible()
    card.get_by_text("runbook RequestsFailing").click()
    expect(card).to_contain_text("Mitigation")


def test_is_it_the_server_or_the_clients(failing: Page, troubled: Stack) -> None:
    overview = failing
    ask(overview, troubled, MODEL)
    expect(answer(overview, "Is it the server or the clients?")).to_contain_text(
        re.compile(r"It is the server: \d\d(\.\d)? % of the requests fail in it, .*own code or backend")
    )
    ask(overview, troubled, "resnet18")
    expect(answer(overview, "Is it the server or the clients?")).to_contain_text(
        re.compile("Not the server, by its figures|No request reaches this model now")
    )


def test_what_changed_before(failing: Page, troubled: Stack) -> None:
    overview = failing
    ask(overview, troubled, MODEL)
    expect(answer(overview, "What changed before?")).to_contain_text(f"load {MODEL} by")
    expect(overview.locator(".ts-timeline li", has_text=f"load {MODEL} by").first).to_be_visible()


def test_may_i_unload_this(failing: Page, troubled: Stack) -> None:
    overview = failing
    ask(overview, troubled, MODEL)
    unload = answer(overview, "May I unload it?")
    expect(unload).to_contain_text(re.compile(r"No, it is in use: \d+(\.\d+)? requests/s now on sandbox"))
    expect(unload).to_contain_text("No ensemble uses it")
    ask(overview, troubled, "batch_add_model")
    expect(unload).to_contain_text(
        re.compile("ensemble_pipeline uses this model and will stop too|No ensemble")
    )
    unload.get_by_role("link").click()
    expect(overview).to_have_url(re.compile("/repository.*model=batch_add_model"))


def test_what_fits_in_the_memory_that_is_left(overview: Page, troubled: Stack) -> None:
    ask(overview, troubled, "resnet18")
    fits = answer(overview, "What fits in the memory that is left?")
    expect(fits).to_contain_text(re.compile(r"[\d.]+ GiB of [\d.]+ GiB are free"))
    expect(fits).to_contain_text(re.compile(r"one more instance of resnet18 v1 (fits|tight|does not fit)"))
    fits.get_by_role("link", name="What else fits?").click()
    expect(overview.locator(".ts-verdict").first).to_contain_text("are free")
