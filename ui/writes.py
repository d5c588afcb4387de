"""Pages that send something: without a server that may be written to, they say so and load nothing of it."""

from __future__ import annotations

from importlib import import_module

import runtime
from ui.empty import empty_state
from ui.header import header
from ui.panel import panel
from ui.view import View

OFF = "Control is off: no server of the settings may be written to."
REPLAYED = "This is a replay of an incident: nothing is sent from here."
HOW = (
    "Write control: true at a server in tritonscope.yml to allow loads, unloads and requests to it.",
    "make run starts a server with example models that needs no permission.",
)


def draw(module: str) -> None:
    """Run `draw()` of the module of `ui` that makes the page: imported here, since it can write."""
    if runtime.current().replayed is not None:
        header(View.take(), REPLAYED, "unknown")
        panel(empty_state("Open the app itself to send requests.", todo=()), key="off")
        return
    if runtime.current().control is None:
        header(View.take(), OFF, "unknown")
        panel(empty_state("Nothing is sent from here.", todo=HOW), key="off")
        return
    import_module(f"ui.{module}").draw()
