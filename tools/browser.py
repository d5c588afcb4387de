"""Which Chromium tests and screenshots drive, and how it starts on a machine without a display or a GPU."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking")


def browser_path() -> str | None:
    """The machine's own Chromium where there is one; None for Playwright's."""
    return os.environ.get("TRITONSCOPE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
