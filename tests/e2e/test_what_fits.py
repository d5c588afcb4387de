"""What fits in the memory that is left: asked and answered on screen, without docs."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.e2e

LIMIT_MS = 60_000


def test_from_who_holds_the_memory_to_what_still_fits(app: Page) -> None:
    app.get_by_role("link", name="GPU & VRAM").first.click()
    # Which model holds what, and how that is known.
    held = app.locator("tr", has_text="resnet18 v1").first
    expect(held).to_contain_text(re.compile(r"[0-9.]+ MiB"), timeout=LIMIT_MS)
    expect(held.locator(".ts-badge")).to_have_text("process")
    expect(app.get_by_text("of what is in use has an owner").first).to_be_visible()
    app.get_by_role("link", name="What else fits on it?").first.click()
    expect(app.locator(".ts-verdict").first).to_contain_text("are free", timeout=LIMIT_MS)
    # Another instance of a model that is there.
    second = app.locator(".ts-answer", has_text="1 instance more of")
    expect(second.locator(".fit-fits")).to_be_visible(timeout=LIMIT_MS)
    expect(second).to_contain_text("Basis:")
    # A model that is not there: 7 billion parameters in FP32 are 28 GB; a hundred times as many fit nowhere.
    app.get_by_role("tab", name="Another model").click()
    size = app.get_by_label("Parameters, million")
    size.fill("700000")
    size.press("Enter")
    expect(app.locator(".ts-answer .fit-no")).to_be_visible(timeout=LIMIT_MS)
    expect(app.locator(".ts-answer", has_text="short at the least")).to_be_visible()
