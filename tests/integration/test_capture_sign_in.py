"""An incident file of an app that wants a sign-in, from a terminal: shared password, header of a proxy.

The app replays a file, which needs no server; who may see it is what its settings say.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.app_process import app_process
from tests.incident_process import Watched
from triage.incident_file import read, recorded_findings
from triage.incident_replay import Opened

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "an umbrella in the rain"
SETTINGS = """
access:
  anonymous: no
  password: {from_env: SHARED, role: operator}
  proxy: {addresses: [127.0.0.1]}
  people: {carol@example.com: viewer}
"""


class App:
    """A running app and its folder."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder, self.out = url, folder, folder / "captured.zip"

    def capture(self, *words: str, typed: str = "", **variables: str) -> tuple[int, str]:
        """Exit status and what was printed of `python -m triage capture` with these words and variables."""
        self.out.unlink(missing_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRITONSCOPE_")}
        command = ["-m", "triage", "capture", "--app-url", self.url, "--out", str(self.out), *words]
        ended = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT, env={**kept, **variables}, input=typed,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return ended.returncode, ended.stdout + ended.stderr

    def written(self, text: str) -> str:
        """A file with that text."""
        path = self.folder / "secret"
        path.write_text(f"{text}\n", encoding="utf-8")
        return str(path)

    def log(self) -> str:
        return (self.folder / "app.log").read_text(errors="replace")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("gated")
    Watched().everything().saved(folder / "incident.zip")
    file = str(folder / "incident.zip")
    with app_process(folder, SETTINGS, TRITONSCOPE_INCIDENT=file, SHARED=PASSWORD) as url:
        yield App(url, folder)


def test_without_a_sign_in_one_sentence_says_which_ways_there_are(app: App) -> None:
    status, told = app.capture()
    assert status == 2
    assert "wants a sign-in (HTTP 401): sign in with --sign-in NAME" in told
    assert "--header-from-file" in told and told.count("\n") == 1
    assert not app.out.exists()


def test_the_shared_password_of_the_settings_signs_in_and_out_again(app: App) -> None:
    status, told = app.capture("--sign-in", "night shift", TRITONSCOPE_PASSWORD=PASSWORD)
    assert status == 0, told
    assert PASSWORD not in told
    original = app.folder / "incident.zip"
    assert recorded_findings(app.out)["findings"] == recorded_findings(original)["findings"]
    # An operator has the details that a viewer has not.
    assert [one.action.who for one in Opened(read(app.out)).records()] == ["anna"]
    lines = [line for line in app.log().splitlines() if '"night shift"' in line or "night shift (" in line]
    assert [bool(re.search('"event": "sign-(in|out)"', line)) for line in lines] == [True, True]
    assert PASSWORD not in app.log()


@pytest.mark.parametrize("way", ["file", "standard input"])
def test_the_password_may_come_from_a_file_or_standard_input(app: App, way: str) -> None:
    file = app.written(PASSWORD) if way == "file" else "-"
    status, told = app.capture("--sign-in", "ada", "--password-from-file", file, typed=PASSWORD)
    assert status == 0, told
    assert app.out.stat().st_size > 1000


def test_the_header_of_a_proxy_is_a_viewers_file(app: App) -> None:
    header = f"X-Forwarded-Email={app.written('carol@example.com')}"
    status, told = app.capture("--header-from-file", header)
    assert status == 0, told
    assert [one.action.who for one in Opened(read(app.out)).records()] == [""]


@pytest.mark.parametrize(
    ("words", "variables", "sentence"),
    [
        (["--sign-in", "ada"], {}, "no shared password is known here: set TRITONSCOPE_PASSWORD"),
        (
            ["--sign-in", "ada"],
            {"TRITONSCOPE_PASSWORD": "not the right one"},
            "did not sign in: That is not the password.",
        ),
        (["--password-from-file", "-"], {}, "--password-from-file needs --sign-in NAME"),
        (["--sign-in", "ada", "--password-from-file", "nowhere"], {}, "the file nowhere cannot be read"),
        (["--header-from-file", "Authorization"], {}, "--header-from-file wants NAME=FILE"),
        (["--header-from-file", "X-Forwarded-Email=-"], {}, "standard input is empty"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    app: App, words: list[str], variables: dict[str, str], sentence: str
) -> None:
    status, told = app.capture(*words, **variables)
    assert status == 2
    assert sentence in told and told.count("\n") == 1
    assert not app.out.exists()
    assert all(value not in told for value in variables.values())


def test_a_secret_cannot_stand_on_the_command_line(app: App) -> None:
    status, told = app.capture("--sign-in", "ada", "--password", PASSWORD)
    assert status == 2
    assert "unrecognized arguments: --password" in told
    status, told = app.capture("--header", f"Authorization: {PASSWORD}")
    assert status == 2 and "unrecognized arguments" in told
