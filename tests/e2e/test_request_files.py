"""Files on the page Test request in a real browser: hostile by name, or damaged."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.stack import Stack

pytestmark = pytest.mark.e2e

HOSTILE = "..%2f..%2f<img src=x onerror=document.title=1>'\"; rm -rf $HOME.npy"


def open_file_form(app: Page, stack: Stack) -> None:
    app.goto(f"{stack.app_url}/test_request?model=batch_add_model&refresh=pause")
    app.get_by_role("radio", name="file", exact=True).first.click(timeout=60_000)
    expect(app.get_by_text("INPUT_A: no file is chosen.")).to_be_visible(timeout=60_000)


def give(app: Page, name: str, data: bytes) -> None:
    app.locator('input[type="file"]').set_input_files(
        {"name": name, "mimeType": "application/octet-stream", "buffer": data}
    )


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def test_a_hostile_name_is_harmless_and_a_damaged_file_a_sentence(app: Page, stack: Stack) -> None:
    open_file_form(app, stack)
    title = app.title()
    give(app, HOSTILE, npy(np.array([[1.5]], dtype=np.float32)))
    expect(app.get_by_text("INPUT_A: sent shape [1,1] (batch 1), FP32")).to_be_visible()
    app.get_by_role("button", name="Send request").click()
    expect(app.get_by_text("ANSWERED", exact=True)).to_be_visible()
    expect(app.locator("pre", has_text=re.compile(r"^2\.5$"))).to_be_visible()
    assert app.title() == title
    assert app.locator("img[src='x']").count() == 0
    give(app, "cut.npy", npy(np.ones((1, 1), np.float32))[:-2])
    expect(
        app.get_by_text("INPUT_A: the file is not a readable .npy array without Python objects.")
    ).to_be_visible()
    expect(app.get_by_role("button", name="Send request")).to_be_disabled()
