"""Colours with one meaning each, told apart by colour-blind readers too, on light and on dark ground."""

from __future__ import annotations

import hashlib

QUEUE, INPUT, INFER, OUTPUT = "#E8871E", "#7CC4EE", "#2F7FD1", "#12A594"
"""Parts of latency; the same on every chart, board and table."""

FAILED = "@red"
NEUTRAL = "@grey"
"""Names with @ are colours of the reader's theme."""

OTHERS = "#8B948A"

_MODELS = (
    "#3B8FD9", "#E07B39", "#1FA187", "#C95FA0", "#8A6FD1", "#B8A21B",
    "#5FA83C", "#D05353", "#4FB3C6", "#A9744F", "#7A8CA8", "#D69BC4",
)  # fmt: skip
_DASHES = ("solid", "dash", "dot")


def model_color(name: str) -> str:
    """A model's colour: from its name alone, so that it stays between visits and on every page."""
    return _MODELS[_hash(name) % len(_MODELS)]


def model_dash(name: str) -> str:
    """A model's line style, so that two models of one colour still differ."""
    return _DASHES[_hash(name) // len(_MODELS) % len(_DASHES)]


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2s(name.encode(), digest_size=4).digest(), "big")
