"""All boards: each `board_<name>.py` beside this file, whose `board(parameters)` makes it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from grafana.board import Board
from grafana.parameters import Parameters

BOARDS: dict[str, Callable[[Parameters], Board]] = {
    f"{path.stem.removeprefix('board_')}.json": import_module(f"grafana.{path.stem}").board
    for path in sorted(Path(__file__).parent.glob("board_*.py"))
}
"""File below grafana/dashboards -> its board."""
