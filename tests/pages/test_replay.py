"""Every page on an incident file: the figures as they were, marked as a replay, and nothing to press."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import runtime
from replay import replayed
from settings import Settings
from tests.incident_process import START, Watched

PAGES = (
    "overview",
    "triage",
    "model",
    "gpu",
    "capacity",
    "repository",
    "test_request",
    "load_runs",
    "explore",
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "incident.zip"
    Watched().everything().saved(path)
    return path


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: object, **_named: object) -> None:
        raise AssertionError("a replay must not open a connection")

    monkeypatch.setattr(socket.socket, "connect", refused)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_works_on_the_file(page: str, file: Path, open_page: Callable[..., object]) -> None:
    shown = open_page(replayed(file, Settings()), page, model="alpha")
    words = shown.words()
    assert "Not available" not in words
    assert "Replay of an incident captured 14 Nov 2023 22:13:32" in shown.words("replay")
    assert "replay of 14 Nov 2023 22:13" in shown.words("header")
    assert "incident" not in shown.panels
    assert not any(one.label == "Refresh" for one in shown.app.get("button_group"))


def test_overview_tells_what_was_wrong_then(file: Path, open_page: Callable[..., object]) -> None:
    shown = open_page(replayed(file, Settings()))
    findings = shown.words("findings")
    assert "other" in findings and "broken failed to load" in findings
    assert "figures of 22:13:30" in shown.words("header")
    assert runtime.current().now() == START + 10


def test_charts_carry_the_badge(file: Path, open_page: Callable[..., object]) -> None:
    shown = open_page(replayed(file, Settings()), "model", model="alpha")
    badges = {chart_header(data)["badge"] for data in shown.charts.values()}
    assert badges == {"replay"}


def test_the_journal_of_the_file_is_shown_without_anything_to_press(
    file: Path, open_page: Callable[..., object]
) -> None:
    shown = open_page(replayed(file, Settings()), "repository")
    assert "override of alpha on sandbox · by anna · because: tuning" in shown.words("journal")
    assert not shown.app.get("download_button")


def test_a_live_process_offers_the_file_of_the_range_looked_at(open_page: Callable[..., object]) -> None:
    shown = open_page(Watched().everything().process, range="1h", server="sandbox")
    assert 'href="/incident.zip?minutes=60&amp;server=sandbox"' in shown.panels["header"]
    assert 'href="/incident.html?minutes=60&amp;server=sandbox"' in shown.panels["header"]
    assert "replay" not in shown.panels


def chart_header(data: bytes) -> dict[str, object]:
    (length,) = struct.unpack_from("<I", data)
    return json.loads(data[4 : 4 + length])
