"""Screenshots of every page, light and dark, wide and narrow, on the real sandbox: docs/screenshots/*.png.

`make screenshots` runs it. It starts a sandbox of its own on free ports and ends it again.
`python -m tools.screenshots --only gpu override --into FOLDER` takes some of them, to another place.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import requests
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from sandbox.ports import free_ports
from sandbox.run_folder import living_run_folders
from tools.browser import ARGUMENTS, browser_path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "screenshots"
START_SECONDS = 180.0
TRAFFIC_SECONDS = 90.0
"""How long traffic runs before the pictures: one live window and a bit, so that rates have settled."""
SETTLE_MS = 2500
MOST_PIXELS = 2600
COLOURS = 256
PAGE, DIALOG = "[data-testid=stMainBlockContainer]", "[role=dialog]"
SIZES = {"1440": (1440, 900), "390": (390, 844)}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@dataclass(frozen=True, slots=True)
class Shot:
    """One page in one state: the name of its pictures and its address.

    `fill` are fields of the dialog that the address opens, by label, and what is typed into them.
    """

    name: str
    address: str
    fill: tuple[tuple[str, str], ...] = ()


CALM = (
    Shot("overview", "overview"),
    Shot("triage", "triage"),
    Shot("model", "model?model=batch_cost_model"),
    Shot("ensemble", "model?model=ensemble_pipeline"),
    Shot("gpu", "gpu"),
    Shot("capacity", "capacity"),
    Shot("repository", "repository"),
    Shot(
        "override",
        "repository?do=override&on=sandbox&what=batch_cost_model",
        fill=(("Instances", "2"), ("Preferred batch sizes", "16")),
    ),
    Shot("test_request", "test_request?model=batch_add_model"),
    Shot("load_runs", "load_runs?model=batch_cost_model"),
    Shot("explore", "explore?family=nv_inference_request_success"),
)
OVERLOADED = (
    Shot("overview_overload", "overview"),
    Shot("triage_overload", "triage"),
    Shot("model_overload", "model?model=batch_cost_model"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Take all pictures, or those that are named; exit status 0."""
    names = [shot.name for shot in CALM + OVERLOADED]
    parser = argparse.ArgumentParser(prog="python -m tools.screenshots", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", default=names)
    parser.add_argument("--into", type=Path, default=FOLDER, metavar="FOLDER")
    parser.add_argument("--traffic-seconds", type=float, default=TRAFFIC_SECONDS, metavar="N")
    chosen = parser.parse_args(arguments)
    chosen.into.mkdir(parents=True, exist_ok=True)
    with _product() as (url, state_file), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=[*ARGUMENTS])
        for profile, all_shots in (("healthy", CALM), ("overload", OVERLOADED)):
            shots = [shot for shot in all_shots if shot.name in chosen.only]
            if not shots:
                continue
            _say(f"traffic {profile} for {chosen.traffic_seconds:g} s")
            (state_file.parent / "traffic.new").write_text(json.dumps({"profile": profile}), encoding="utf-8")
            (state_file.parent / "traffic.new").replace(state_file.parent / "traffic.json")
            time.sleep(chosen.traffic_seconds)
            for shot in shots:
                _take(browser, url, shot, chosen.into)
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


def _take(browser: Browser, url: str, shot: Shot, folder: Path) -> None:
    for theme in THEMES:
        for size, (width, height) in SIZES.items():
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=theme, timezone_id="Europe/Berlin"
            )
            page.goto(f"{url}/{shot.address}")
            page.locator(".ts-verdict").first.wait_for(timeout=30_000)
            page.wait_for_timeout(SETTLE_MS)
            _fill(page, shot)
            picture = _whole(page, width, height, DIALOG if shot.fill else PAGE)
            target = folder / f"{shot.name}-{theme}-{size}.png"
            target.write_bytes(_compressed(picture))
            page.close()
    _say(f"{shot.name}: {len(THEMES) * len(SIZES)} pictures")


def _fill(page: Page, shot: Shot) -> None:
    """Type into the dialog that the address opened; nothing where it opened none."""
    if not shot.fill:
        return
    dialog = page.get_by_role("dialog")
    dialog.wait_for(timeout=30_000)
    for label, text in shot.fill:
        field = dialog.get_by_label(label, exact=True)
        field.fill(text)
        field.press("Enter")
        page.wait_for_timeout(SETTLE_MS)


def _whole(page: Page, width: int, height: int, inside: str) -> bytes:
    """What is `inside` down to its end, as far as that is reasonable."""
    inner = page.evaluate("inside => document.querySelector(inside)?.scrollHeight ?? 0", inside)
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


def _say(words: str) -> None:
    print(f"screenshots: {words}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
