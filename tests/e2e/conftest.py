"""One running product for all browser tests, and the machine's Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.stack import Stack, start_stack
from tests.order import longest_first
from tools.browser import ARGUMENTS, browser_path

LONGEST = (
    "test_many_viewers.py",
    "test_killed_app.py",
    "test_pages.py",
    "test_accidents.py",
    "test_control_on_the_page.py",
    "test_sign_in.py",
    "test_load_runs.py",
    "test_harmless.py",
    "test_questions.py",
)
"""The files that last longest."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with what lasts longest."""
    longest_first(items, Path(__file__).parent, LONGEST)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The product as `make run` starts it, for the whole session."""
    running = start_stack(tmp_path_factory.mktemp("stack"))
    yield running
    assert running.end() == 0, running.output.read_text()


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """The machine's own Chromium where there is one; Playwright's otherwise."""
    path = browser_path()
    return {**browser_type_launch_args, "args": [*ARGUMENTS], **({"executable_path": path} if path else {})}


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    """A laptop's window."""
    return {**browser_context_args, "viewport": {"width": 1440, "height": 900}}


@pytest.fixture
def app(page: Page, stack: Stack) -> Page:
    """A page of the browser on the running product."""
    expect.set_options(timeout=40_000)
    page.set_default_timeout(40_000)
    page.goto(stack.app_url)
    return page
