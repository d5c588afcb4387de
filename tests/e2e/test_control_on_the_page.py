"""What a person does with the buttons, on the real server: unload, load, ask, compare."""

from __future__ import annotations

import re

import pytest
import requests
from playwright.sync_api import Locator, Page, expect

from tests.e2e.stack import Stack, until

pytestmark = pytest.mark.e2e
MODEL = "batch_add_model"


def row(app: Page, model: str) -> Locator:
    """The row of one model in the table that is on the page."""
    return app.locator("table.ts-table tr", has_text=model).first


def headline(app: Page) -> Locator:
    """The first line of the page."""
    return app.locator(".ts-verdict").first


def press(app: Page, what: str, model: str = MODEL) -> None:
    """Press a row's button and say yes to the question."""
    app.get_by_role("button", name=f"{what} {model}").first.click()
    dialog = app.get_by_role("dialog")
    expect(dialog).to_contain_text(f"{what.capitalize()} {model}?")
    expect(dialog).to_contain_text("Traffic now" if what != "load" else "gets no traffic now")
    dialog.get_by_role("button", name=what.capitalize(), exact=True).click()
    expect(dialog).to_be_hidden()


def infer_status(stack: Stack) -> int:
    """HTTP status of one request for the model."""
    tensors = [
        {"name": name, "shape": [1, 1], "datatype": "FP32", "data": [1.0]} for name in ("INPUT_A", "INPUT_B")
    ]
    url = f"{stack.state()['http_url']}/v2/models/{MODEL}/infer"
    return requests.post(url, json={"inputs": tensors}, timeout=10).status_code


def test_unload_and_load_change_table_header_mark_and_the_server_itself(app: Page, stack: Stack) -> None:
    app.goto(f"{stack.app_url}/repository")
    expect(row(app, MODEL)).to_contain_text("ready")
    expect(headline(app)).to_contain_text("All 8 models are loaded")

    press(app, "unload")
    expect(row(app, MODEL)).to_contain_text("unloaded")
    expect(headline(app)).to_contain_text("7 of 8 models are loaded")
    assert infer_status(stack) == 404

    press(app, "load")
    expect(row(app, MODEL)).to_contain_text("ready")
    expect(headline(app)).to_contain_text("All 8 models are loaded")
    assert infer_status(stack) == 200

    app.goto(f"{stack.app_url}/model?server=sandbox&model={MODEL}")
    chart = app.locator(".js-plotly-plot").first
    expect(chart).to_be_visible()
    until(lambda: {"load", "unload"} <= set(marked(chart)), "a mark for each")
    app.goto(stack.app_url)
    expect(app.get_by_text("Changed in the last hour").locator("..")).to_contain_text(f"{MODEL}")


def marked(chart: Locator) -> list[str]:
    """What the chart's marks tell; marks that stand close together share a label, and its tooltip has all."""
    told = chart.evaluate("plot => (plot.layout.annotations ?? []).map(one => one.hovertext ?? '')")
    return [word for text in told for word in re.findall(r"\b(?:un|re)?load\b", text)]


def running_batch(stack: Stack) -> int:
    """max_batch_size the server runs the model with."""
    answer = requests.get(f"{stack.state()['http_url']}/v2/models/{MODEL}/config", timeout=10)
    return int(answer.json()["max_batch_size"])


def test_another_configuration_is_loaded_marked_and_reverted(app: Page, stack: Stack) -> None:
    app.goto(f"{stack.app_url}/repository")
    app.get_by_role("button", name=f"configure {MODEL}").first.click()
    dialog = app.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Load {MODEL} with another configuration")
    yes = dialog.get_by_role("button", name="Load with these changes")
    expect(yes).to_be_disabled()
    field = dialog.get_by_role("spinbutton", name="max_batch_size")
    field.fill("6")
    field.press("Enter")
    expect(dialog.get_by_role("row", name="max_batch_size 4 4 6")).to_be_visible()
    expect(dialog.locator("code")).to_have_text("max_batch_size: 6")
    yes.click()
    expect(row(app, MODEL)).to_contain_text("drift", timeout=30_000)
    assert running_batch(stack) == 6

    app.get_by_role("button", name=f"revert {MODEL}").first.click()
    expect(dialog).to_contain_text("max_batch_size 6 (its file: 4)")
    dialog.get_by_role("button", name="Unload and load").click()
    expect(row(app, MODEL)).not_to_contain_text("drift", timeout=30_000)
    expect(row(app, MODEL)).to_contain_text("ready")
    assert running_batch(stack) == 4


def test_leaving_the_question_sends_nothing(app: Page, stack: Stack) -> None:
    app.goto(f"{stack.app_url}/repository")
    app.get_by_role("button", name=f"unload {MODEL}").first.click()
    dialog = app.get_by_role("dialog")
    dialog.get_by_role("button", name="Leave it").click()
    expect(dialog).to_be_hidden()
    expect(row(app, MODEL)).to_contain_text("ready")
    assert infer_status(stack) == 200


def test_one_request_gives_the_right_sum(app: Page, stack: Stack) -> None:
    app.goto(f"{stack.app_url}/test_request?server=sandbox&model={MODEL}")
    for name, number in (("INPUT_A", "10.5"), ("INPUT_B", "20.25")):
        field = app.get_by_role("textbox", name=re.compile(name)).first
        field.fill(number)
        field.press("Enter")
    expect(app.get_by_text("sent shape [1,1] (batch 1)").first).to_be_visible()
    send = app.get_by_role("button", name="Send request")
    expect(send).to_be_enabled()
    send.click()
    expect(app.locator(".ts-pre").first).to_have_text("30.75")
    expect(app.get_by_text("Where the time went")).to_be_visible()


def cells(app: Page, label: str) -> list[str]:
    """The two figures of one row of the comparison: serial, concurrent."""
    line = app.locator("table.ts-table tr", has_text=label).first
    return line.locator("td").all_inner_texts()[1:]


@pytest.mark.parametrize("model", [MODEL, "batch_cost_model"])
def test_concurrent_requests_form_batches_and_finish_sooner(app: Page, stack: Stack, model: str) -> None:
    app.goto(f"{stack.app_url}/load_runs?server=sandbox&model={model}&run=serial")
    start = app.get_by_role("button", name="Run serial against concurrent")
    expect(start).to_be_enabled()
    start.click()
    expect(app.locator("th", has_text="16 at a time")).to_be_visible(timeout=60_000)
    until(lambda: len(cells(app, "rows per execution")) == 2, "both halves of the comparison")
    serial, concurrent = (float(text) for text in cells(app, "rows per execution"))
    # The sandbox's own traffic may join a serial request now and then.
    assert serial < 1.5
    assert concurrent > 1.2 * serial
    slow, fast = (float(text.split()[0].replace(",", "")) for text in cells(app, "throughput"))
    assert fast > slow
    expect(app.get_by_text("Batch sizes that formed").first).to_be_visible()
