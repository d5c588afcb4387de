"""Screenshots of every page, light and dark, wide and narrow, on the real sandbox: docs/screenshots/*.png.

`make screenshots` runs it. It starts a sandbox of its own on free ports and ends it again.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import requests
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from sandbox.ports import free_ports
from sandbox.run_folder import living_run_folders

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "screenshots"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
START_SECONDS = 180.0
TRAFFIC_SECONDS = 90.0
"""How long traffic runs before the pictures: one live window and a bit, so that rates have settled."""
SETTLE_MS = 2500
MOST_PIXELS = 2600
COLOURS = 256
SIZES = {"1440": (1440, 900), "390": (390, 844)}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@dataclass(frozen=True, slots=True)
class Shot:
    """One page in one state: the name of its pictures and its address."""

    name: str
    address: str


CALM = (
    Shot("overview", "overview"),
    Shot("triage", "triage"),
    Shot("model", "model?model=batch_cost_model"),
    Shot("ensemble", "model?model=ensemble_pipeline"),
    Shot("gpu", "gpu"),
    Shot("capacity", "capacity"),
    Shot("repository", "repository"),
    Shot("test_request", "test_request?model=batch_add_model"),
    Shot("load_runs", "load_runs?model=batch_cost_model"),
    Shot("explore", "explore?family=nv_inference_request_success"),
)
OVERLOADED = (
    Shot("overview_overload", "overview"),
    Shot("triage_overload", "triage"),
    Shot("model_overload", "model?model=batch_cost_model"),
)


def main() -> int:
    """Take all pictures; exit status 0."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with _product() as (url, state_file), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_browser_path(), args=_BROWSER_ARGUMENTS)
        for profile, shots in (("healthy", CALM), ("overload", OVERLOADED)):
            _say(f"traffic {profile} for {TRAFFIC_SECONDS:g} s")
            (state_file.parent / "traffic.new").write_text(json.dumps({"profile": profile}), encoding="utf-8")
            (state_file.parent / "traffic.new").replace(state_file.parent / "traffic.json")
            time.sleep(TRAFFIC_SECONDS)
            for shot in shots:
                _take(browser, url, shot)
        browser.close()
    return 0


@contextmanager
def _product() -> Iterator[tuple[str, Path]]:
    """`python -m sandbox run` on free ports: the app's address and the sandbox's state file."""
    app_port, *triton_ports = free_ports(4)
    environment = os.environ | {
        "TRITONSCOPE_APP_PORT": str(app_port),
        "TRITONSCOPE_SANDBOX_PORTS": ",".join(map(str, triton_ports)),
    }
    _say("starting the sandbox and the app")
    process = subprocess.Popen([sys.executable, "-m", "sandbox", "run"], cwd=ROOT, env=environment)
    try:
        url = f"http://127.0.0.1:{app_port}"
        _wait_for(f"{url}/healthz", process)
        yield url, _state_file(process.pid)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if _answers(address):
            return
        time.sleep(0.5)
    raise SystemExit(f"{address} did not answer within {START_SECONDS:g} s")


def _answers(address: str) -> bool:
    try:
        return requests.get(address, timeout=2).status_code == 200
    except requests.RequestException:
        return False


def _state_file(launcher_pid: int) -> Path:
    for folder in living_run_folders():
        path = folder / "state.json"
        if path.is_file() and json.loads(path.read_text(encoding="utf-8"))["launcher_pid"] == launcher_pid:
            return path
    raise SystemExit("the sandbox has no state file")


def _take(browser: Browser, url: str, shot: Shot) -> None:
    for theme in THEMES:
        for size, (width, height) in SIZES.items():
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=theme, timezone_id="Europe/Berlin"
            )
            page.goto(f"{url}/{shot.address}")
            page.locator(".ts-verdict").first.wait_for(timeout=30_000)
            page.wait_for_timeout(SETTLE_MS)
            picture = _whole(page, width, height)
            target = FOLDER / f"{shot.name}-{theme}-{size}.png"
            target.write_bytes(_compressed(picture))
            page.close()
    _say(f"{shot.name}: {len(THEMES) * len(SIZES)} pictures")


def _whole(page: Page, width: int, height: int) -> bytes:
    """The page down to its end, as far as that is reasonable."""
    inner = page.evaluate("document.querySelector('[data-testid=stMainBlockContainer]')?.scrollHeight ?? 0")
    page.set_viewport_size({"width": width, "height": int(min(MOST_PIXELS, max(height, inner + 70)))})
    page.wait_for_timeout(SETTLE_MS)
    return page.screenshot()


def _compressed(png: bytes) -> bytes:
    """The picture with a palette: charts and text lose nothing to see, the file is a third."""
    reduced = (
        Image.open(io.BytesIO(png))
        .convert("RGB")
        .quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=4, dither=Image.Dither.NONE)
    )
    packed = io.BytesIO()
    reduced.save(packed, "PNG", optimize=True)
    return packed.getvalue()


_BROWSER_ARGUMENTS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
]


def _browser_path() -> str | None:
    """The machine's own Chromium where there is one; Playwright's otherwise."""
    return os.environ.get("TRITONSCOPE_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


def _say(words: str) -> None:
    print(f"screenshots: {words}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
