"""Colours with one meaning each, told apart by colour-blind readers too, on light and on dark ground."""

from __future__ import annotations

import hashlib

QUEUE, INPUT, INFER, OUTPUT = "#E8871E", "#7CC4EE", "#2F7FD1", "#12A594"
"""Parts of latency; the same on every chart, board and table."""

FAILED = "@red"
NEUTRAL = "@grey"
"""Names with @ are colours of the reader's theme."""

OTHERS = "#8B948A"

# None of the colours of latency or of trouble.
_MODELS = (
    "#7B61D1", "#C2559D", "#B59A12", "#5C9E31", "#9A6A45", "#6E87B0",
    "#DB9BC8", "#5560C8", "#A9B842", "#8E4A83", "#C4A574", "#4E7F86",
)  # fmt: skip
# Any salt will do; with this one the example models get colours that are far apart.
_SALT = b"2849"
_DASHES = ("solid", "dash", "dot")


def model_color(name: str) -> str:
    """A model's colour: from its name alone, so that it stays between visits and on every page."""
    return _MODELS[_hash(name) % len(_MODELS)]


def model_dash(name: str) -> str:
    """A model's line style, so that two models of one colour still differ."""
    return _DASHES[_hash(name) // len(_MODELS) % len(_DASHES)]


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2s(name.encode(), digest_size=4, salt=_SALT).digest(), "big")
