"""Control off is the default: then the code that could write is not even loaded, and every page works."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPEN_EVERYTHING = """
import json, sys
sys.path.insert(0, "tests/pages")
from streamlit.testing.v1 import AppTest
import fake_runtime, runtime
from ui.navigation import PAGES

process = fake_runtime.small_repository()
process.start()
runtime.install(process)
shown = {}
for row in PAGES:
    if not row.file.exists():
        continue
    for alone in (False, True):
        # As a deep link on a fresh process: the page's file without app.py.
        app = AppTest.from_file(str(row.file) if alone else "app.py", default_timeout=60)
        app.query_params["refresh"] = "pause"
        if not alone:
            app.switch_page(f"pages/{row.address}.py")
        app.run()
        panels = [json.loads(one.proto.json)["html"] for one in app.get("bidi_component") if one.proto.json]
        shown[f"{row.address} {alone}"] = [bool(app.exception), "".join(panels)]
loaded = sorted(name for name in sys.modules if name.partition(".")[0] == "control")
runtime.shut_down()
print(json.dumps({"loaded": loaded, "shown": shown}))
"""


@pytest.fixture(scope="module")
def opened() -> dict[str, object]:
    run = subprocess.run(
        [sys.executable, "-c", OPEN_EVERYTHING], cwd=ROOT, capture_output=True, text=True, timeout=110
    )
    assert run.returncode == 0, run.stderr[-3000:]
    result: dict[str, object] = json.loads(run.stdout.splitlines()[-1])
    return result


def test_the_write_side_is_not_even_imported(opened: dict[str, object]) -> None:
    assert opened["loaded"] == []


def test_every_page_works_without_it(opened: dict[str, dict[str, list[object]]]) -> None:
    shown = opened["shown"]
    assert len(shown) >= 12
    assert [name for name, (failed, _) in shown.items() if failed] == []
    assert not [name for name, (_, words) in shown.items() if "could not be drawn" in str(words)]
    for name in ("test_request False", "test_request True"):
        assert "Control is off" in str(shown[name][1])
    assert "READ-ONLY" in str(shown["repository False"][1])
