"""All boards, and the functions that give the text of their files."""

from __future__ import annotations

from collections.abc import Callable

from grafana.board import Board
from grafana.board_fleet import fleet
from grafana.board_gpu import gpu
from grafana.board_llm import llm
from grafana.board_model import model
from grafana.parameters import Parameters

BOARDS: dict[str, Callable[[Parameters], Board]] = {
    "fleet.json": fleet,
    "model.json": model,
    "gpu.json": gpu,
    "llm.json": llm,
}
"""File below grafana/dashboards -> its board."""


def fleet_text() -> str:
    """The committed dashboards/fleet.json."""
    return fleet(Parameters()).text()


def model_text() -> str:
    """The committed dashboards/model.json."""
    return model(Parameters()).text()


def gpu_text() -> str:
    """The committed dashboards/gpu.json."""
    return gpu(Parameters()).text()


def llm_text() -> str:
    """The committed dashboards/llm.json."""
    return llm(Parameters()).text()
