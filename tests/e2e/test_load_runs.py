"""What a newcomer does without the docs: finds the comparison of configurations, runs it, reads it."""

from __future__ import annotations

import re

import pytest
import requests
from playwright.sync_api import Page, expect

from tests.e2e.stack import Stack

pytestmark = pytest.mark.e2e

MODEL = "batch_cost_model"


def config(stack: Stack) -> dict[str, object]:
    url = f"{stack.state()['http_url']}/v2/models/{MODEL}/config"
    found: dict[str, object] = requests.get(url, timeout=10).json()
    return found


def test_a_newcomer_finds_the_comparison_and_reads_which_configuration_serves_more(
    app: Page, stack: Stack
) -> None:
    before = config(stack)
    app.goto(f"{stack.app_url}/model?server=sandbox&model={MODEL}")
    app.get_by_role("link", name="Load runs").first.click()
    expect(app.locator(".ts-verdict").first).to_contain_text("Measure")
    app.goto(f"{stack.app_url}/load_runs?server=sandbox&model={MODEL}")
    seconds = app.get_by_label("Seconds for each")
    seconds.fill("1.5")
    seconds.press("Enter")
    start = app.get_by_role("button", name="Compare configurations", exact=True).last
    expect(start).to_be_enabled()
    start.click()
    expect(app.get_by_text("RUNNING").first).to_be_visible()
    expect(app.get_by_role("button", name="Stop")).to_be_enabled()
    done = app.locator(".ts-finding", has_text="DONE").first
    expect(done).to_contain_text("batching on gives", timeout=90_000)
    said = re.search(r"gives ([\d.]+) times the throughput of batching off", done.inner_text())
    assert said is not None and float(said.group(1)) > 2.0
    table = app.locator("table.ts-table", has_text="GPU utilization").first
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(table).to_contain_text("dynamic batching off, 1 instance")
    expect(app.get_by_text("Throughput by configuration").first).to_be_visible()
    assert config(stack) == before
    # It is kept: also after the page is opened anew.
    app.reload()
    expect(app.get_by_text("batching on gives").first).to_be_visible()
