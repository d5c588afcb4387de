"""An output tensor as a person looks at it: statistics, a table, a picture, text, hex."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass

import numpy as np
from PIL import Image, UnidentifiedImageError

from control.tensors import FLOAT_TYPES, INTEGER_TYPES, AnyArray

MAX_PICTURE_PIXELS = 16_000_000
_CHANNELS = (1, 3, 4)
_NO_PICTURE = (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError)
_HEX_BYTES = 16


@dataclass(frozen=True, slots=True)
class OutputStatistics:
    """Figures of one tensor of numbers. Of what is not finite only the counts tell.

    `minimum` and `maximum` are exact (whole numbers stay whole); `mean` and `std` (of the population) are
    doubles. All four are None without a finite value.
    """

    count: int
    minimum: int | float | None
    maximum: int | float | None
    mean: float | None
    std: float | None
    nan: int
    positive_infinity: int
    negative_infinity: int

    @property
    def not_finite(self) -> int:
        """Values that are NaN or infinite."""
        return self.nan + self.positive_infinity + self.negative_infinity


def statistics_of(datatype: str, array: AnyArray) -> OutputStatistics | None:
    """The figures, None for BYTES and BOOL."""
    if datatype not in (*FLOAT_TYPES, *INTEGER_TYPES):
        return None
    flat = array.reshape(-1)
    if datatype in INTEGER_TYPES:
        if not flat.size:
            return OutputStatistics(0, None, None, None, None, 0, 0, 0)
        numbers = flat.astype(np.float64)
        return OutputStatistics(
            flat.size, int(flat.min()), int(flat.max()), float(numbers.mean()), float(numbers.std()), 0, 0, 0
        )
    numbers = flat.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    nan, up, down = (int(mask.sum()) for mask in (np.isnan(numbers), numbers == np.inf, numbers == -np.inf))
    if not finite.size:
        return OutputStatistics(flat.size, None, None, None, None, nan, up, down)
    with np.errstate(over="ignore", invalid="ignore"):
        # The square of a large double is none: then there is no standard deviation to tell.
        mean, std = float(finite.mean()), float(finite.std())
    return OutputStatistics(
        flat.size, float(finite.min()), float(finite.max()), _known(mean), _known(std), nan, up, down
    )


def table_of(array: AnyArray) -> tuple[AnyArray, tuple[int, ...]]:
    """The tensor as two dimensions, and the dims that its rows run over: the last dim are the columns."""
    if array.ndim == 0:
        return array.reshape(1, 1), ()
    if array.ndim == 1:
        # A long list reads better downwards.
        return array.reshape(-1, 1), array.shape
    rows = math.prod(array.shape[:-1])
    return array.reshape(rows, array.shape[-1]), array.shape[:-1]


def is_picture(array: AnyArray) -> bool:
    """True if `picture_of` most likely finds one; looks at the shape, or at the head of a file."""
    if array.dtype != object:
        return _pixels(array) is not None
    try:
        with Image.open(io.BytesIO(array.reshape(-1)[0] if array.size else b"")) as picture:
            return bool(picture.width * picture.height <= MAX_PICTURE_PIXELS)
    except _NO_PICTURE:
        return False


def picture_of(array: AnyArray) -> tuple[bytes, str] | None:
    """The first row as a PNG, and how values became grey or colour; None if it does not look like a picture.

    A BYTES element that is a picture file is drawn anew. Numbers in [C,H,W], [H,W,C] or [H,W] with 1, 3 or 4
    channels: 0 to 255 as they are, floats of 0 to 1 times 255, anything else stretched from its least to its
    greatest value.
    """
    if array.dtype == object:
        return _picture_file(array)
    pixels = _pixels(array)
    if pixels is None:
        return None
    shown, words = _grey(pixels)
    buffer = io.BytesIO()
    Image.fromarray(shown[..., 0] if shown.shape[-1] == 1 else shown).save(buffer, "PNG")
    return buffer.getvalue(), words


def hex_lines(data: bytes, limit_bytes: int) -> list[str]:
    """`00000010  48 65 6c 6c 6f  |Hello|` for the first bytes."""
    lines = []
    for at in range(0, min(len(data), limit_bytes), _HEX_BYTES):
        part = data[at : min(at + _HEX_BYTES, limit_bytes)]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<{_HEX_BYTES * 3 - 1}}  |{letters}|")
    return lines


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _picture_file(array: AnyArray) -> tuple[bytes, str] | None:
    data = array.reshape(-1)[0] if array.size else b""
    try:
        picture = Image.open(io.BytesIO(data))
        if picture.width * picture.height > MAX_PICTURE_PIXELS:
            return None
        buffer = io.BytesIO()
        picture.convert("RGBA").save(buffer, "PNG")
    except _NO_PICTURE:
        return None
    return buffer.getvalue(), f"a {picture.format} file, {picture.width} × {picture.height}"


def _pixels(array: AnyArray) -> AnyArray | None:
    """[H,W,C] of the first picture in the tensor."""
    if array.dtype == bool or not array.size:
        return None
    shape = array.shape
    while len(shape) > 3 or (len(shape) == 3 and shape[0] not in _CHANNELS and shape[2] not in _CHANNELS):
        array, shape = array[0], shape[1:]
    if len(shape) == 2:
        array = array[..., np.newaxis]
    elif len(shape) == 3 and shape[0] in _CHANNELS and shape[2] not in _CHANNELS:
        array = np.moveaxis(array, 0, -1)
    elif len(shape) != 3:
        return None
    height, width = array.shape[:2]
    return array if height > 1 and width > 1 and height * width <= MAX_PICTURE_PIXELS else None


def _grey(pixels: AnyArray) -> tuple[AnyArray, str]:
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels), "values 0 to 255"
    numbers = np.nan_to_num(pixels.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(numbers.min()), float(numbers.max())
    if low >= 0 and high <= 1 and pixels.dtype.kind not in "iu":
        scaled, words = numbers * 255, "values 0 to 1"
    elif low >= 0 and high <= 255 and high > 1:
        scaled, words = numbers, "values 0 to 255"
    else:
        scaled = (numbers - low) / (high - low) * 255 if high > low else np.zeros_like(numbers)
        words = f"stretched from {low:g} to {high:g}"
    return np.ascontiguousarray(scaled.round().astype(np.uint8)), words
