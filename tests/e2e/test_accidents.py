"""What the page says when tritonserver is killed, stopped and restarted under it."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.stack import Stack, start_stack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]
TWO_INTERVALS_MS = 4_000
ANSWER_IN_TIME_MS = TWO_INTERVALS_MS + 3_000
"""Two refresh intervals, and the browser's own time on a busy machine."""


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A product of its own, so that its accidents hurt no other test."""
    running = start_stack(tmp_path_factory.mktemp("fragile"))
    yield running
    assert running.end() == 0, running.output.read_text()


@pytest.fixture
def overview(page: Page, fragile: Stack) -> Page:
    """Overview with figures on it."""
    page.set_default_timeout(30_000)
    page.goto(fragile.app_url)
    expect(page.locator(".ts-verdict").first).to_contain_text("Nothing is wrong", timeout=60_000)
    return page


def no_traceback(page: Page) -> None:
    """Nothing on the page looks like a Python error."""
    for text in ("Traceback", "Exception", "could not be drawn"):
        expect(page.get_by_text(text)).to_have_count(0)


def no_invented_zero(page: Page) -> None:
    """No tile claims a rate of 0 for a server that did not answer."""
    expect(page.get_by_text(re.compile(r"^0 (/s|req/s)$"))).to_have_count(0)


def test_killed_server_is_told_history_kept_and_the_return_seen(overview: Page, fragile: Stack) -> None:
    fragile.signal_triton(signal.SIGKILL)
    verdict = overview.locator(".ts-verdict").first
    expect(verdict).to_contain_text("does not answer", timeout=ANSWER_IN_TIME_MS)
    expect(verdict).to_contain_text("refused")
    no_traceback(overview)
    no_invented_zero(overview)
    expect(overview.locator("table.ts-table tr", has_text="batch_add_model").first).to_be_visible()

    fragile.restart_triton()
    expect(verdict).to_contain_text("Nothing is wrong", timeout=30_000)
    changed = overview.get_by_text("Changed in the last hour").locator("..")
    expect(changed).to_contain_text(re.compile("down|restart"))
    no_traceback(overview)


def test_stopped_server_gives_no_answer_and_recovers_by_itself(overview: Page, fragile: Stack) -> None:
    began = time.monotonic()
    fragile.signal_triton(signal.SIGSTOP)
    try:
        verdict = overview.locator(".ts-verdict").first
        expect(verdict).to_contain_text("no answer", timeout=ANSWER_IN_TIME_MS + 2_000)
        assert time.monotonic() - began < 12
        no_traceback(overview)
        no_invented_zero(overview)
    finally:
        fragile.signal_triton(signal.SIGCONT)
    expect(verdict).to_contain_text("Nothing is wrong", timeout=30_000)
    no_traceback(overview)


def test_the_log_of_the_app_has_no_traceback(overview: Page, fragile: Stack) -> None:
    log = Path(fragile.output).read_text(encoding="utf-8", errors="replace")
    assert "Traceback" not in log
    assert "ScriptRunContext" not in log
