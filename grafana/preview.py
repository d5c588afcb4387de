"""Pictures of the boards, drawn with Grafana's own front-end packages: `python -m grafana preview`.

Opt-in: it needs node, npm (400 MB of packages into .tools/ the first time) and Chromium. It shows what panels
look like; heat maps and state timelines exist only in Grafana itself. It is no proof that Grafana imports a
board.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from playwright.sync_api import Page, sync_playwright

from grafana import promql
from grafana.board import all_panels

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path(__file__).with_name("preview_page.jsx")
PACKAGES = ROOT / ".tools" / "grafana-preview"
RELEASE = "13.2.3"
WANTED = (f"@grafana/ui@{RELEASE}", f"@grafana/data@{RELEASE}", "react@19", "react-dom@19", "esbuild@0.25.5")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
POINTS = 240
WIDTH = 1500
EMPTY = (
    '<body style="margin:8px;background:#111217;color:#ccccdc">'
    '<style>button{color:inherit}</style><div id="root"></div></body>'
)
SETTLE_MS = 4000
"""Charts draw themselves after the page is there."""

Json = dict[str, Any]


class PreviewError(Exception):
    """One sentence: what is missing or failed."""


@dataclass(frozen=True, slots=True)
class Source:
    """A Prometheus, and the time to show. `scrape_seconds` gives `$__rate_interval` as Grafana has it."""

    url: str
    range_seconds: int = 3600
    scrape_seconds: int = 15
    end: float | None = None

    def results(self, board: Json) -> Json:
        """What each query of each panel answers, by `panel-id refId`; variables stand at All."""
        end = self.end or time.time()
        start, step = end - self.range_seconds, max(self.range_seconds // POINTS, 1)
        window = max(4 * self.scrape_seconds, step + self.scrape_seconds)
        values = {"__rate_interval": f"{window}s", "__range": f"{self.range_seconds}s", "top": "10"}
        found: Json = {}
        for panel in all_panels(board):
            for target in panel.get("targets", ()):
                text = promql.filled_in(target["expr"], values)
                asked: dict[str, str | float] = {"query": text}
                if target.get("instant"):
                    answer = self._ask("query", {**asked, "time": end})
                else:
                    answer = self._ask("query_range", {**asked, "start": start, "end": end, "step": step})
                found[f"{panel['id']} {target['refId']}"] = answer
        return {"board": board, "results": found, "start": start, "end": end}

    def _ask(self, what: str, parameters: dict[str, str | float]) -> list[Json]:
        try:
            answer = requests.post(f"{self.url}/api/v1/{what}", data=parameters, timeout=60).json()
        except requests.RequestException as error:
            raise PreviewError(f"Prometheus at {self.url} does not answer: {error}") from error
        if answer["status"] != "success":
            raise PreviewError(f"Prometheus refuses {parameters['query']}: {answer.get('error')}")
        rows: list[Json] = answer["data"]["result"]
        return rows


def pictures(boards: dict[str, Json], source: Source, folder: Path, chromium: str | None) -> list[Path]:
    """A PNG for each board, named as its file. `chromium` None: an installed one. Raises PreviewError."""
    chromium = chromium or next(filter(None, map(shutil.which, BROWSERS)), None)
    script, styles = _bundle()
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        for name, board in boards.items():
            page = browser.new_page(viewport={"width": WIDTH, "height": 900})
            failures: list[str] = []
            _remember_errors(page, failures)
            data = json.dumps(source.results(board)).replace("<", "\\u003c")
            # A page of an address of its own may use the browser's storage, which Grafana's packages want.
            page.route("**/*", lambda route: route.fulfill(content_type="text/html", body=EMPTY))
            page.goto("http://127.0.0.1/board")
            page.add_style_tag(content=styles)
            page.add_script_tag(content=f"window.BOARD = {data};")
            page.add_script_tag(content=script)
            page.wait_for_timeout(SETTLE_MS)
            broken = [*failures, *page.locator("[data-failed]").all_inner_texts()]
            if broken:
                raise PreviewError(f"{name}: a panel could not be drawn: {'; '.join(broken)}")
            made.append(folder / f"{Path(name).stem}.png")
            page.screenshot(path=made[-1], full_page=True)
            page.close()
        browser.close()
    return made


def _remember_errors(page: Page, failures: list[str]) -> None:
    page.on("pageerror", lambda error: failures.append(str(error)))


def _bundle() -> tuple[str, str]:
    """The page's script with the packages in it, and their styles."""
    if shutil.which("npm") is None:
        raise PreviewError("npm is not installed: the preview draws with Grafana's own npm packages")
    if not (PACKAGES / "node_modules/@grafana/ui/package.json").exists():
        PACKAGES.mkdir(parents=True, exist_ok=True)
        (PACKAGES / "package.json").write_text('{"private": true}')
        _run("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--legacy-peer-deps", *WANTED)
    shutil.copy(PAGE, PACKAGES / PAGE.name)
    loaders = ("--loader:.svg=text", "--loader:.ttf=empty")
    constants = ('--define:process.env.NODE_ENV="production"', "--define:global=window")
    output = ("--bundle", "--minify", "--outfile=page.js", "--log-level=error")
    _run("node_modules/.bin/esbuild", PAGE.name, *output, *loaders, *constants)
    script, styles = ((PACKAGES / f"page.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
    return script, styles


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=PACKAGES, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise PreviewError(f"{command[0]} failed: {done.stderr.strip()[-400:]}")
