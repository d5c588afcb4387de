"""The only place where units are scaled: base units in, three significant digits and a unit out."""

from __future__ import annotations

import math
from enum import StrEnum

NOT_REPORTED = "–"
"""What a page shows for a value that was not reported; the tooltip says why."""

_SIGNIFICANT_DIGITS = 3


class Unit(StrEnum):
    """Base unit of a metric or signal."""

    US = "us"
    NS = "ns"
    MS = "ms"
    SECONDS = "seconds"
    BYTES = "bytes"
    RATIO = "ratio"
    WATTS = "watts"
    JOULES = "joules"
    REQUESTS = "requests"
    INFERENCES = "inferences"
    EXECUTIONS = "executions"
    PER_SECOND = "per second"
    BATCH = "inferences per execution"
    COUNT = "count"
    NONE = ""


_SCALES: dict[Unit, tuple[tuple[float, str], ...]] = {
    Unit.US: ((1e6, "s"), (1e3, "ms"), (1.0, "µs")),
    Unit.NS: ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")),
    Unit.MS: ((1e3, "s"), (1.0, "ms")),
    Unit.SECONDS: ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    Unit.BYTES: ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    Unit.JOULES: ((1e6, "MJ"), (1e3, "kJ"), (1.0, "J")),
}
_SUFFIX: dict[Unit, str] = {
    Unit.RATIO: "%",
    Unit.WATTS: "W",
    Unit.PER_SECOND: "/s",
}


def significant(value: float, digits: int = _SIGNIFICANT_DIGITS) -> str:
    """A number with `digits` significant digits, thousands grouped, never in exponent form below 1e15.

    Whole numbers are counts and stay whole: 4,501,500 requests are not 4,500,000.
    """
    if math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    if abs(value) >= 1e15 or abs(value) < 1e-6:
        return f"{value:.{digits - 1}e}"
    if float(value).is_integer():
        return f"{value:,.0f}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, decimals):,.{max(0, decimals)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def scale_for(value: float, unit: Unit) -> tuple[float, str]:
    """Divisor and unit name that make `value` readable; (1, name) for units that are not scaled."""
    if unit is Unit.RATIO:
        return 0.01, "%"
    scales = _SCALES.get(unit)
    if scales is None:
        return 1.0, _SUFFIX.get(unit, "")
    magnitude = abs(value) if math.isfinite(value) else 0.0
    for divisor, name in scales:
        if magnitude >= divisor * 0.9995:
            return divisor, name
    return scales[-1]


def human(value: float | None, unit: Unit) -> str:
    """A value as a person reads it: `1.9 s`, `18.2 GiB`, `62 %`, `1,240 /s`; an en dash for None.

    NaN (`n/a`) and infinity have no unit that could be scaled.
    """
    if value is None:
        return NOT_REPORTED
    if not math.isfinite(value):
        return significant(value)
    if value == 0 and unit in (Unit.US, Unit.NS, Unit.MS, Unit.SECONDS):
        return "0 s"
    divisor, name = scale_for(value, unit)
    number = significant(value / divisor)
    return f"{number} {name}".rstrip()


def us_from_ns(value_ns: float) -> float:
    """Microseconds from nanoseconds."""
    return value_ns / 1e3


def seconds_from_us(value_us: float) -> float:
    """Seconds from microseconds."""
    return value_us / 1e6


def us_from_seconds(value_seconds: float) -> float:
    """Microseconds from seconds."""
    return value_seconds * 1e6


def bytes_from_mib(value_mib: float) -> float:
    """Bytes from MiB (DCGM's frame-buffer families are in MiB)."""
    return value_mib * 2.0**20


def ratio_from_percent(value_percent: float) -> float:
    """0..1 from 0..100 (DCGM's utilization is in percent, Triton's is a ratio)."""
    return value_percent / 100.0


def joules_from_millijoules(value_mj: float) -> float:
    """Joules from millijoules (DCGM's energy family is in mJ)."""
    return value_mj / 1e3


def base_value(number: float, suffix: str, unit: Unit) -> float:
    """`number` with a suffix as `human` prints it ("10", "ms" -> 10000.0 us), in the base unit `unit`.

    Raises ValueError when the suffix does not belong to that unit.
    """
    if not suffix:
        return number
    if unit is Unit.RATIO and suffix == "%":
        return number / 100.0
    for divisor, name in _SCALES.get(unit, ()):
        if suffix in (name, name.replace("µ", "u")):
            return number * divisor
    raise ValueError(f"{suffix!r} is not a unit of {unit.value or 'a plain number'}")


def human_duration(seconds: float) -> str:
    """How long something has lasted: `40 s`, `6 min`, `2 h`, `3 d`, rounded down."""
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds / size)} {name}"
    return f"{max(0, int(seconds + 1e-6))} s"
