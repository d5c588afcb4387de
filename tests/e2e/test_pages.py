"""Each page opened first on a running product by its address: its own words, no error, zoom kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.stack import Stack, start_stack, until

pytestmark = pytest.mark.e2e

PAGES = {
    "": "models loaded",
    "triage": "models loaded",
    "model": "req/s",
    "gpu": "simulated",
    "capacity": "are free",
    "repository": "models are loaded",
    "test_request": "Ask",
    "load_runs": "Measure",
    "explore": "families",
}


@pytest.mark.parametrize("path", PAGES)
def test_each_page_opens_by_its_address_and_says_its_answer(page: Page, stack: Stack, path: str) -> None:
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on(
        "request",
        lambda request: (
            failures.append(request.url)
            if not request.url.startswith(("http://127.0.0.1", "data:", "blob:"))
            else None
        ),
    )
    page.goto(f"{stack.app_url}/{path}")
    expect(page.locator(".ts-verdict").first).to_contain_text(PAGES[path], timeout=30_000)
    expect(page.get_by_text("could not be drawn")).to_have_count(0)
    expect(page.locator("[data-testid=stException]")).to_have_count(0)
    assert not failures, "script errors, or something fetched from elsewhere"


def test_a_deep_link_on_a_fresh_process_runs_inside_the_frame(page: Page, tmp_path: Path) -> None:
    fresh = start_stack(tmp_path)
    try:
        page.goto(f"{fresh.app_url}/gpu")
        expect(page.locator(".ts-verdict").first).to_be_visible(timeout=30_000)
        expect(page.get_by_role("link", name="Repository")).to_be_visible()
        expect(page).to_have_title("GPU & VRAM · Tritonscope")
    finally:
        assert fresh.end() == 0


def test_zoom_survives_refreshes(page: Page, stack: Stack) -> None:
    page.goto(f"{stack.app_url}/model?server=sandbox&model=batch_add_model")
    chart = page.locator(".js-plotly-plot").first
    expect(chart).to_be_visible(timeout=30_000)
    read = "(node) => node._fullLayout.xaxis.range.map(String)"
    before = chart.evaluate(read)
    box = chart.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.4, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, middle, steps=8)
    page.mouse.up()
    page.wait_for_function(
        "([node, before]) => node._fullLayout.xaxis.range.map(String)[0] !== before[0]",
        arg=[chart.element_handle(), before],
    )
    zoomed = chart.evaluate(read)
    draws = "(node) => { node.__draws = 0; node.on('plotly_afterplot', () => { node.__draws += 1; }); }"
    chart.evaluate(draws)
    page.wait_for_function("(node) => node.__draws >= 3", arg=chart.element_handle(), timeout=30_000)
    assert chart.evaluate(read) == zoomed


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata"])
def test_charts_and_words_agree_on_the_readers_local_time(browser: Browser, stack: Stack, zone: str) -> None:
    context = browser.new_context(timezone_id=zone, viewport={"width": 1440, "height": 900})
    try:
        page = context.new_page()
        page.goto(f"{stack.app_url}/model?server=sandbox&model=batch_add_model")
        chart = page.locator(".js-plotly-plot").first
        expect(chart.locator(".xtick text").first).to_be_visible(timeout=30_000)
        wanted = page.evaluate(
            "() => [0, 1].map((m) => new Date(Date.now() - m * 60e3).toTimeString().slice(0, 5))"
        )
        shown = str(chart.evaluate("(node) => node._fullLayout.xaxis.range[1]")).split(" ")[1][:5]
        assert shown in wanted

        until(lambda: cursors_elsewhere(page, chart), "the cursor of one chart on the others")
    finally:
        context.close()


def cursors_elsewhere(page: Page, chart: Locator) -> int:
    """Cursors that the others show while the mouse moves over one chart; a redraw hides them."""
    box = chart.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    for part in (0.7, 0.75, 0.8):
        page.mouse.move(box["x"] + box["width"] * part, box["y"] + box["height"] / 2, steps=4)
    return page.locator(".ts-plot-cursor:visible").count()
