"""What an answer should be, and whether it is: exact, within a tolerance, or by shape and finiteness."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from control.inference import Reply, Tensor
from control.tensors import FLOAT_TYPES, AnyArray, element_texts, show_shape
from telemetry.units import Unit, human

_LETTERS = 40
FIRST_DIFFERENCE = "; the first, at "
"""What follows it in a difference are values of the answer."""


class Mode(StrEnum):
    """How an output is compared."""

    EXACT = "exact"
    """Equal bit for bit, but that every NaN is a NaN."""
    TOLERANCE = "tolerance"
    """|answer - expected| <= absolute + relative * |expected|; what is not a float must be equal."""
    SHAPE = "shape and finiteness"
    """The shape, and no NaN or infinity."""


@dataclass(frozen=True, slots=True)
class ExpectedOutput:
    """One output. `shape` -1 is any size; `array` is None in the mode SHAPE."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    array: AnyArray | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What every reply of a request should be, in their order: a tuple of outputs for each.

    `latency_bound_us` is for the slowest reply, None for no bound. `relative` and `absolute` are of the mode
    TOLERANCE.
    """

    mode: Mode
    replies: tuple[tuple[ExpectedOutput, ...], ...]
    relative: float = 1e-5
    absolute: float = 1e-6
    latency_bound_us: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison: `differences` are sentences, none if all is as expected."""

    differences: tuple[str, ...]
    too_slow: str = ""

    @property
    def as_expected(self) -> bool:
        """True if the outputs are right and the answer was quick enough."""
        return not self.differences and not self.too_slow


def expected_of(
    replies: tuple[Reply, ...],
    mode: Mode,
    *,
    relative: float = 1e-5,
    absolute: float = 1e-6,
    latency_bound_us: float | None = None,
) -> Expected:
    """An answer that was good, as what is expected from now on."""
    outputs = tuple(
        tuple(
            ExpectedOutput(
                tensor.name, tensor.datatype, tensor.shape, None if mode is Mode.SHAPE else tensor.array
            )
            for tensor in reply.outputs
        )
        for reply in replies
    )
    return Expected(mode, outputs, relative, absolute, latency_bound_us)


def compare(replies: tuple[Reply, ...], expected: Expected) -> Verdict:
    """How the answer differs from what is expected; outputs that are not expected are no difference."""
    differences = []
    errors = [reply.error for reply in replies if reply.error]
    if errors:
        differences.append(f"{len(errors)} of {len(replies)} responses are errors")
    if len(replies) != len(expected.replies):
        differences.append(f"{len(expected.replies)} replies were expected and {len(replies)} came")
    for place, (reply, wanted) in enumerate(zip(replies, expected.replies, strict=False)):
        where = f"reply {place + 1}: " if len(expected.replies) > 1 else ""
        given = {tensor.name: tensor for tensor in reply.outputs}
        for output in wanted:
            why = _difference(given.get(output.name), output, expected)
            if why:
                differences.append(f"{where}{output.name} {why}")
    return Verdict(tuple(differences), _too_slow(replies, expected.latency_bound_us))


def _too_slow(replies: tuple[Reply, ...], bound_us: float | None) -> str:
    slowest = max((reply.latency_us for reply in replies), default=0.0)
    if bound_us is None or slowest <= bound_us:
        return ""
    return f"{human(slowest, Unit.US)} is longer than the bound of {human(bound_us, Unit.US)}"


def _difference(given: Tensor | None, wanted: ExpectedOutput, expected: Expected) -> str:
    """Why one output is not as expected; "" if it is."""
    if given is None:
        return "is missing"
    if given.datatype != wanted.datatype:
        return f"is {given.datatype} and {wanted.datatype} was expected"
    fits = len(given.shape) == len(wanted.shape) and all(
        want in (-1, size) for size, want in zip(given.shape, wanted.shape, strict=True)
    )
    if not fits:
        return f"has the shape {show_shape(given.shape)} and {show_shape(wanted.shape)} was expected"
    if expected.mode is Mode.SHAPE or wanted.array is None:
        return _not_finite(given)
    return _unequal(given, wanted.array, expected)


def _not_finite(given: Tensor) -> str:
    if given.datatype not in FLOAT_TYPES:
        return ""
    odd = int((~np.isfinite(given.array.astype(np.float64))).sum())
    return f"has {odd} values that are not finite" if odd else ""


def _unequal(given: Tensor, wanted: AnyArray, expected: Expected) -> str:
    if given.array.shape != wanted.shape:
        return f"has the shape {show_shape(given.shape)} and {show_shape(wanted.shape)} was expected"
    different = _differing(given, wanted, expected)
    if not different.any():
        return ""
    first = int(np.argmax(different.reshape(-1)))
    got, want = (element_texts(array.reshape(-1)[first:], 1)[0] for array in (given.array, wanted))
    return (
        f"differs in {int(different.sum()):,} of {different.size:,} values{FIRST_DIFFERENCE}{first}: "
        f"{_short(got)} instead of {_short(want)}"
    )


def _differing(given: Tensor, wanted: AnyArray, expected: Expected) -> AnyArray:
    """Which elements differ, as booleans in the shape of the output."""
    if given.datatype not in FLOAT_TYPES:
        return np.asarray(given.array != wanted, dtype=bool)
    got, want = given.array.astype(np.float64), wanted.astype(np.float64)
    if expected.mode is Mode.TOLERANCE:
        near = np.isclose(got, want, rtol=expected.relative, atol=expected.absolute, equal_nan=True)
        return ~np.asarray(near, dtype=bool)
    same = (got == want) & (np.signbit(got) == np.signbit(want))
    return np.asarray(~(same | (np.isnan(got) & np.isnan(want))), dtype=bool)


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…"
