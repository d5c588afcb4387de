"""Notes on old versions and on load and unload without a key."""

from __future__ import annotations

import pytest

from telemetry.advisories import advisories, is_old
from telemetry.identity import Server

OPEN = Server("lab", "http://lab:8000", None)
KEYED = Server("lab", "http://lab:8000", None, api_headers={"model-repository": {"key": "v"}})


@pytest.mark.parametrize(
    ("version", "old"),
    [("2.51.0", True), ("2.59.0", True), ("2.59.1", False), ("2.60.0", False), ("3.0", False), ("", False)],
)
def test_versions_before_release_25_07(version: str, old: bool) -> None:
    assert is_old(version) is old


@pytest.mark.parametrize(
    ("server", "answers", "mode", "sentences"),
    [
        (OPEN, True, "explicit", ["lab takes load and unload from whoever reaches it, without a key"]),
        (
            OPEN, True, None,
            ["lab takes load and unload from whoever reaches it, without a key, if it runs in explicit mode"],
        ),
        (OPEN, True, "none or poll", []),
        (OPEN, False, "explicit", []),
        (KEYED, True, "explicit", []),
    ],
)  # fmt: skip
def test_load_and_unload_without_a_key(
    server: Server, answers: bool, mode: str | None, sentences: list[str]
) -> None:
    found = advisories(server, "2.72.0", index_answers=answers, control_mode=mode)
    assert [one.sentence for one in found] == sentences


def test_an_old_version_names_the_holes() -> None:
    (note,) = advisories(KEYED, "2.51.0", index_answers=True, control_mode="explicit")
    assert note.sentence == "lab runs Triton 2.51.0, older than release 25.07: known holes are open"
    assert "CVE-2025-23319" in note.detail
