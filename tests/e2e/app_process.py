"""The app alone as its own process, with settings of the test's: `python app.py` on a free port."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from sandbox.ports import free_ports
from sandbox.processes import end_group, start_bound
from tests.e2e.stack import ROOT, until

START_SECONDS = 90.0


@contextmanager
def app_process(folder: Path, settings: str, *, port: int = 0, **environment: str) -> Iterator[str]:
    """Address of the app, without a trailing slash; its log is `app.log` in the folder."""
    port = port or free_ports(1)[0]
    (folder / "tritonscope.yml").write_text(settings, encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRITONSCOPE_")}
    variables = {
        **kept,
        "TRITONSCOPE_CONFIG": str(folder / "tritonscope.yml"),
        "TRITONSCOPE_JOURNAL_PATH": str(folder / "journal.jsonl"),
        "TRITONSCOPE_APP_PORT": str(port),
        **environment,
    }
    url, log = f"http://127.0.0.1:{port}", folder / "app.log"
    with log.open("wb") as output:
        process = start_bound([sys.executable, "app.py"], folder=ROOT, environment=variables, output=output)

    def answers() -> bool:
        assert process.poll() is None, f"the app ended:\n{log.read_text()}"
        try:
            return requests.get(f"{url}/healthz", timeout=5).status_code == 200
        except requests.RequestException:
            return False

    try:
        until(answers, f"the app answers; see {log}", START_SECONDS)
        yield url
    finally:
        end_group(process, 30.0)
