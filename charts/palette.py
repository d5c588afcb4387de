"""Colours with one meaning each, told apart by colour-blind readers too, on light and on dark ground."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterable

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
# Any salt will do; with this one the example models get colours of their own.
_SALT = b"2849"
_DASHES = ("solid", "dash", "dot")


class ModelColors:
    """Who has which colour and line style: by the name, and for models known together never both alike.

    A name keeps what it got for as long as the process runs. Of two names that ask for the same colour the
    one known first has it (of those that become known together the first of the alphabet), the other takes
    the next free one; only when all colours are taken do models share one, told apart by their style.
    """

    MOST = 2000
    """Names remembered; further ones have the colour of their name alone."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def know(self, names: Iterable[str]) -> None:
        """These models exist now."""
        new = sorted(set(names) - self._places.keys())
        if not new:
            return
        with self._lock:
            taken = Counter(color for color, _ in self._places.values())
            for name in new[: max(0, self.MOST - len(self._places))]:
                own = _hash(name) % len(_MODELS)
                color = min(range(len(_MODELS)), key=lambda at: (taken[at], (at - own) % len(_MODELS)))
                self._places.setdefault(name, (color, taken[color] % len(_DASHES)))
                taken[color] += 1

    def color(self, name: str) -> str:
        """A model's colour, #RRGGBB."""
        return _MODELS[self._place(name)[0]]

    def dash(self, name: str) -> str:
        """A model's line style: "solid", "dash" or "dot"."""
        return _DASHES[self._place(name)[1]]

    def _place(self, name: str) -> tuple[int, int]:
        number = _hash(name)
        alone = number % len(_MODELS), number // len(_MODELS) % len(_DASHES)
        return self._places.get(name, alone)


_colors = ModelColors()
know_models = _colors.know


def model_color(name: str) -> str:
    """A model's colour, the same on every page and between visits: see `ModelColors`."""
    return _colors.color(name)


def model_dash(name: str) -> str:
    """A model's line style, so that two models of one colour still differ."""
    return _colors.dash(name)


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2s(name.encode(), digest_size=4, salt=_SALT).digest(), "big")
