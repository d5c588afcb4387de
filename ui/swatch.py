"""The small square that carries a model's colour wherever its name stands."""

from __future__ import annotations

from charts.palette import model_color, model_dash
from ui.html import Html, tag

_SHAPES = {"solid": "ts-swatch", "dash": "ts-swatch ring", "dot": "ts-swatch round"}
"""By line style: where two models share a colour, their squares differ as their lines do."""


def swatch(name: str) -> Html:
    """The square of a model; a ring or a disc where another model has the same colour."""
    return tag("i", class_=_SHAPES[model_dash(name)], style=f"--ts-swatch:{model_color(name)}")
