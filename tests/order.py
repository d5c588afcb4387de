"""In which order files of tests begin, where several workers share them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest


def longest_first(items: list[pytest.Item], folder: Path, names: Sequence[str]) -> None:
    """Begins with these files of the folder, in this order: nothing long is left over at the end."""
    places = {folder / name: place for place, name in enumerate(names)}
    if missing := [path.name for path in places if not path.exists()]:
        raise pytest.UsageError(
            f"{folder.name}/conftest.py names files that are not there: {', '.join(missing)}"
        )
    items.sort(key=lambda item: places.get(item.path, len(places)) if item.path.parent == folder else -1)
