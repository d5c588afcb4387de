"""The script for a machine with a GPU, walked through without one: a real tritonserver, no card."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 240


def check(*arguments: str) -> tuple[int, list[dict[str, object]]]:
    """Exit status and lines of the script, run as a person runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.check", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_every_step_is_made_and_holds() -> None:
    status, lines = check("--rehearse")
    told = {str(line["check"]): line for line in lines if "check" in line}
    assert {name: line["ok"] for name, line in told.items()} == {
        "surroundings": None,
        "tritonserver starts": True,
        # Without a GPU its page has no figure of one.
        "Triton's figures of the card": None,
        "load of one": True,
        "load of three": True,
        "processes are seen": True,
        "process of one = allocated + context": True,
        "process of three = allocated + context": True,
        "the two processes differ by what they allocated": True,
        "growth of the card = processes": True,
        "another program is named": True,
        "shown by the app": True,
        "given back after unload": True,
    }
    assert status == 0
    assert told["surroundings"]["rehearsal"] is True
    assert told["the two processes differ by what they allocated"]["wanted_bytes"] == 128 << 20
    summary = lines[-1]["summary"]
    assert isinstance(summary, dict) and (summary["held"], summary["failed"]) == (11, [])


def test_without_a_gpu_nothing_is_said_to_hold() -> None:
    status, lines = check()
    if "skipped" not in lines[0]:
        pytest.skip("this machine has a GPU: run the check itself")
    assert (status, len(lines)) == (77, 1)
