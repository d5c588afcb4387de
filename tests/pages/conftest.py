"""Pages are driven through app.py with a process made of saved answers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

import runtime
from runtime import Runtime
from ui import triage_changes

sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).resolve().parents[2]


class Shown:
    """What a page shows: the markup of its panels and its charts, as they would reach the browser."""

    def __init__(self, app: AppTest) -> None:
        self.app = app
        assert not app.exception, app.exception
        elements = [element.proto for element in app.get("bidi_component")]
        self.panels = {_key(one): json.loads(one.json)["html"] for one in elements if one.json}
        self.charts = {_key(one): one.bytes for one in elements if one.bytes}

    @property
    def markup(self) -> str:
        return "\n".join(self.panels.values())

    def place(self, key: str) -> tuple[int, ...]:
        """Where the element with this key stands: the number of its place in each block around it."""
        found = next(_places(self.app.main, key), None)
        assert found is not None, f"no element {key}"
        return found

    def words(self, panel: str | None = None) -> str:
        """The text without tags."""
        markup = self.markup if panel is None else self.panels[panel]
        return " ".join(re.sub(r"<[^>]*>", " ", markup).split())

    def rows(self, panel: str) -> list[list[str]]:
        """The cells of a panel's table rows, as text."""
        rows = re.findall(r"<tr[^>]*>(.*?)</tr>", self.panels[panel], re.DOTALL)
        cells = (re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows)
        return [[" ".join(re.sub(r"<[^>]*>", "", cell).split()) for cell in row] for row in cells]


def _places(block: Any, key: str) -> Iterator[tuple[int, ...]]:
    for number, child in block.children.items():
        if hasattr(child, "children"):
            yield from ((number, *rest) for rest in _places(child, key))
        elif getattr(child, "type", "") == "bidi_component" and _key(child.proto) == key:
            yield (number,)


def _key(proto: object) -> str:
    """The key a page gave: what follows the hash in the element's id."""
    return re.sub(r"^\$+ID-[0-9a-f]+-", "", str(proto.id))  # type: ignore[attr-defined]


def opened(process: Runtime, address: str = "overview", *, seconds: float = 30, **parameters: str) -> Shown:
    """A page of the app on this process, within so many seconds."""
    runtime.install(process)
    # A process keeps the changes of its models for all its viewers; here each is a process of its own.
    triage_changes._kept.clear()
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=seconds)
    app.query_params["refresh"] = "pause"
    for name, value in parameters.items():
        app.query_params[name] = value
    app.run()
    if address != "overview":
        app.switch_page(f"pages/{address}.py")
        for name, value in parameters.items():
            app.query_params[name] = value
        app.run()
    return Shown(app)


@pytest.fixture
def open_page() -> Iterator[Callable[..., Shown]]:
    """`open_page(process, "model", model="fast_add")` runs that page with these parameters."""
    yield opened
    runtime.shut_down()
