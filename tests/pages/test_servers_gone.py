"""Pages after a server has gone: its models are gone with it, and nothing breaks."""

from __future__ import annotations

import pytest
from fake_runtime import small_repository

from runtime import Runtime


def without_its_server() -> Runtime:
    process = small_repository()
    process._servers_changed(process.roster._take({}, ()))
    return process


def test_its_models_stay_as_gone_and_the_event_is_told(open_page) -> None:
    page = open_page(without_its_server())
    rows = {row[0]: row[1] for row in page.rows("models") if len(row) > 1}
    assert set(rows.values()) - {"state"} == {"gone"}
    assert "fast_addv1" in rows
    assert "127.0.0.1:1 went: it is not in" in page.markup


@pytest.mark.parametrize("address", ["model", "gpu", "repository", "explore", "test_request"])
def test_every_page_opens(open_page, address: str) -> None:
    page = open_page(without_its_server(), address, model="fast_add", server="127.0.0.1:1")
    assert page.panels
