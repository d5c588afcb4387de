"""The chart of any one family, as the page Explore shows it."""

from __future__ import annotations

import hashlib

from charts.frames import ranked
from charts.palette import model_color, model_dash
from charts.spec import Mark, Spec
from history.protocol import Frame, GroupKey
from telemetry.units import Unit


def family(frame: Frame, label_names: tuple[str, ...], *, title: str, unit: Unit, rate: bool,
           range_: tuple[float, float], marks: tuple[Mark, ...] = ()) -> Spec:  # fmt: skip
    """Each series of one family over time: a counter as its rate per second, anything else as it is."""
    models = [key[label_names.index("model")] for key in frame.keys] if "model" in label_names else []
    by_model = len(set(models)) == len(models)
    per_second = rate and unit is not Unit.PER_SECOND
    return Spec(
        title=title,
        unit=unit,
        unit_text="{} per second" if per_second else "{}" if not rate else "per second",
        x=frame.times,
        traces=ranked(
            frame,
            lambda key: series_name(label_names, key),
            lambda key: _color(label_names, key, by_model),
            dash=lambda key: _dash(label_names, key, by_model),
            additive=rate,
        ),
        range=range_,
        marks=marks,
        height=280,
    ).or_empty("No value of this family was recorded in this time.")


def _color(label_names: tuple[str, ...], key: GroupKey, by_model: bool) -> str:
    """The model's own colour where each model has one series, else a colour of the series itself."""
    if by_model and "model" in label_names:
        return model_color(key[label_names.index("model")])
    return model_color(hashlib.blake2s(repr(key).encode(), digest_size=8).hexdigest())


def _dash(label_names: tuple[str, ...], key: GroupKey, by_model: bool) -> str:
    """The model's own line style where each model has one series."""
    return model_dash(key[label_names.index("model")]) if by_model and "model" in label_names else "solid"


def series_name(label_names: tuple[str, ...], key: GroupKey) -> str:
    """The labels that are set, as on the page: `model=resnet18, version=1`."""
    shown = ", ".join(f"{name}={value}" for name, value in zip(label_names, key, strict=True) if value)
    return shown or "value"
