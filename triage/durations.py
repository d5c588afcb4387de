"""Durations as rules and PromQL write them: `10s`, `5m`, `1h30m`, `7d`."""

from __future__ import annotations

import re

_DURATIONS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def parse_duration(text: str) -> float:
    """Seconds of `90s`, `5m`, `1h`, `1d` or a chain of them (`1h30m`); ValueError for anything else."""
    parts = _DURATION.findall(text.strip())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise ValueError(f"{text!r} is not a duration: write 10s, 5m, 1h or 1h30m")
    return sum(float(number) * _DURATIONS[unit] for number, unit in parts)


def duration_text(seconds: float) -> str:
    """A duration of whole milliseconds as PromQL writes it, the largest units first: `1h30m`."""
    left_ms = round(seconds * 1e3)
    if left_ms == 0:
        return "0s"
    parts = []
    for unit, size_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)):
        count, left_ms = divmod(left_ms, size_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)
