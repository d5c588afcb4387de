"""Values for a model's inputs: random, zeros, typed, from a file; always exact, or refused with a sentence.

Arrays have the numpy type of the datatype (BF16: ml_dtypes.bfloat16, BYTES: object array of bytes).
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.utils import triton_to_np_dtype

from telemetry.errors import InvalidRequest
from telemetry.facts import TensorSpec

AnyArray = NDArray[Any]

INTEGER_TYPES = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
FLOAT_TYPES = ("FP16", "BF16", "FP32", "FP64")
DATATYPES = ("BOOL", *INTEGER_TYPES, *FLOAT_TYPES, "BYTES")

BASE64 = "base64"
"""Key of the JSON object that stands for bytes which are no text."""

_RANDOM_INTEGERS_BELOW = 10
"""Small, so that indices into small tables and counts stay sensible."""
_RANDOM_WORDS = (b"triton", b"serves", b"models", b"from", b"a", b"repository", b"over", b"http")
_BLANKS = re.compile(r"[\s,;]+")
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


def numpy_dtype(datatype: str) -> np.dtype[Any]:
    """The numpy type of a wire datatype; raises InvalidRequest for one Triton does not have."""
    if datatype not in DATATYPES:
        raise InvalidRequest(f"{datatype} is not a datatype this form knows: {', '.join(DATATYPES)}")
    dtype: np.dtype[Any] = np.dtype(triton_to_np_dtype(datatype))
    return dtype


def integer_range(datatype: str) -> tuple[int, int]:
    """Smallest and largest value of an integer datatype."""
    limits = np.iinfo(numpy_dtype(datatype))
    return int(limits.min), int(limits.max)


def random_array(datatype: str, shape: tuple[int, ...], seed: int) -> AnyArray:
    """Seeded random values: floats in [0, 1), integers in [0, 10), words for BYTES."""
    generator = np.random.default_rng(seed)
    dtype = numpy_dtype(datatype)
    if datatype == "BYTES":
        words = np.empty(len(_RANDOM_WORDS), dtype=object)
        words[:] = _RANDOM_WORDS
        return np.asarray(generator.choice(words, size=shape), dtype=object)
    if datatype == "BOOL":
        return generator.integers(0, 2, size=shape).astype(bool)
    if datatype in INTEGER_TYPES:
        return generator.integers(0, _RANDOM_INTEGERS_BELOW, size=shape).astype(dtype)
    return generator.random(size=shape).astype(dtype)


def zeros_array(datatype: str, shape: tuple[int, ...]) -> AnyArray:
    """Zeros, False, or empty byte strings."""
    if datatype == "BYTES":
        return np.full(shape, b"", dtype=object)
    return np.zeros(shape, dtype=numpy_dtype(datatype))


def typed_array(name: str, datatype: str, text: str) -> AnyArray:
    """What a person typed: numbers with blanks or commas between, JSON (nested lists keep their shape).

    For BYTES one element a line, or JSON strings, where `{"base64": "/w=="}` is any bytes. Integers are exact
    over the whole 64-bit range. Raises InvalidRequest for a value that is not of the datatype or does not fit
    it: Triton would cut it silently.
    """
    stripped = text.strip()
    if not stripped:
        raise InvalidRequest(f"{name}: no value is typed")
    if stripped.startswith("["):
        return _from_nested(name, datatype, json_of(name, stripped))
    if datatype == "BYTES":
        values: Iterable[object] = text.strip("\n").splitlines()
    else:
        values = [part for part in _BLANKS.split(stripped) if part]
    return _fill(datatype, [_element(name, datatype, value) for value in values])


def array_of_values(name: str, datatype: str, values: list[object]) -> AnyArray:
    """A flat array of values as JSON holds them; InvalidRequest for one that is not of the datatype."""
    return _from_nested(name, datatype, values)


def fitting_array(name: str, datatype: str, array: AnyArray) -> AnyArray:
    """The same values in the numpy type of the datatype; InvalidRequest if any does not fit."""
    dtype = numpy_dtype(datatype)
    if datatype == "BYTES":
        return _bytes_array(name, array)
    if array.dtype == dtype:
        return array
    if array.dtype.type is np.void and array.dtype == np.dtype("V2") and datatype == "BF16":
        # A .npy file does not know BF16: numpy writes it as two bytes without a meaning.
        return array.view(dtype)
    if array.dtype.kind not in "biufV" or array.dtype.hasobject or array.dtype.type is np.void:
        raise InvalidRequest(f"{name} wants {datatype} and the file holds {array.dtype}")
    if datatype == "BOOL":
        if not np.isin(array, (0, 1)).all():
            raise InvalidRequest(f"{name} wants BOOL and the file has values other than 0 and 1")
        return array.astype(bool)
    if datatype in INTEGER_TYPES:
        return _integers(name, datatype, array)
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    lost = np.isfinite(array.astype(np.float64)) & ~np.isfinite(converted.astype(np.float64))
    if lost.any():
        raise InvalidRequest(f"{name}: {array[lost].flat[0]} does not fit {datatype}")
    return converted


def arranged(spec: TensorSpec, array: AnyArray, *, batching: bool, rows: int) -> AnyArray:
    """The array in the shape to send: the batch dimension is put in front where the model batches.

    `rows` repeats a single row. A flat list is folded into the input's dims. Raises InvalidRequest with both
    shapes if the values cannot be arranged so.
    """
    dims = spec.dims
    if not batching:
        shaped = _folded(array, dims)
        if shaped is None:
            hint = (
                ""
                if not _fits(array.shape[1:], dims)
                else ": this model does not batch, remove the first one"
            )
            raise InvalidRequest(
                f"{spec.name} wants the shape {show_shape(dims)} and got {show_shape(array.shape)}{hint}"
            )
        return shaped
    has_rows = array.ndim == len(dims) + 1 and _fits(array.shape[1:], dims)
    shaped = array if has_rows else _rows_of(array, dims)
    if shaped is None:
        wanted = show_shape((-1, *dims))
        raise InvalidRequest(f"{spec.name} wants the shape {wanted} and got {show_shape(array.shape)}")
    if len(shaped) == 1 and rows > 1:
        return np.repeat(shaped, rows, axis=0)
    return shaped


def show_shape(shape: Iterable[int]) -> str:
    """A shape as Triton prints it: `[1,1]`."""
    return f"[{','.join(str(size) for size in shape)}]"


def element_texts(array: AnyArray, limit: int) -> list[str]:
    """The first `limit` elements in row-major order as exact text: 64-bit integers lose nothing.

    An FP32 has the fewest digits that tell it from its neighbours: 0.1, not 0.10000000149011612. Bytes are
    read as UTF-8, with a replacement mark for what is not.
    """
    first = array.reshape(-1)[:limit]
    if first.dtype == np.float32:
        return [repr(float(str(value))) for value in first]
    return [_text(value) for value in first.tolist()]


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def json_of(name: str, text: str) -> object:
    """What a JSON text holds; InvalidRequest if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{name}: this is not valid JSON", detail=str(error)) from error


def _from_nested(name: str, datatype: str, value: object) -> AnyArray:
    flat: list[object] = []
    try:
        shape = _walk(name, value, flat)
    except RecursionError as error:
        raise InvalidRequest(f"{name}: the lists are nested too deeply") from error
    return _fill(datatype, [_element(name, datatype, item) for item in flat]).reshape(shape)


def _walk(name: str, value: object, flat: list[object]) -> tuple[int, ...]:
    """Collect the leaves of nested lists; their common shape."""
    if not isinstance(value, list):
        flat.append(value)
        return ()
    shapes = {_walk(name, item, flat) for item in value}
    if len(shapes) > 1:
        raise InvalidRequest(f"{name}: the lists have different lengths")
    return (len(value), *(shapes.pop() if shapes else ()))


def _fill(datatype: str, values: list[object]) -> AnyArray:
    array = np.empty(len(values), dtype=numpy_dtype(datatype))
    for index, value in enumerate(values):
        array[index] = value
    return array


def _element(name: str, datatype: str, value: object) -> object:
    if datatype == "BYTES":
        if isinstance(value, dict) and set(value) == {BASE64}:
            return _decoded(name, value[BASE64])
        if not isinstance(value, str):
            raise InvalidRequest(f"{name} wants text (BYTES): put {value!r} in quotation marks")
        return value.encode()
    if datatype == "BOOL":
        word = str(value).strip().lower()
        if word not in _BOOLEANS:
            raise InvalidRequest(f"{name} wants true or false (BOOL), not {value!r}")
        return _BOOLEANS[word]
    if isinstance(value, bool) or value is None or isinstance(value, dict):
        raise InvalidRequest(f"{name} wants numbers ({datatype}), not {json.dumps(value)}")
    return _integer(name, datatype, value) if datatype in INTEGER_TYPES else _float(name, datatype, value)


def _decoded(name: str, text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"{name}: {text!r} is not base64", detail=str(error)) from error


def _integer(name: str, datatype: str, value: object) -> int:
    try:
        # Through text: a float would lose digits of a 64-bit integer.
        number = int(str(value))
    except ValueError as error:
        raise InvalidRequest(f"{name} wants whole numbers ({datatype}), not {value!r}") from error
    low, high = integer_range(datatype)
    if not low <= number <= high:
        raise InvalidRequest(f"{name}: {number} does not fit {datatype} ({low} to {high})")
    return number


def _float(name: str, datatype: str, value: object) -> object:
    try:
        number = float(str(value))
    except ValueError as error:
        raise InvalidRequest(f"{name} wants numbers ({datatype}), not {value!r}") from error
    with np.errstate(over="ignore"):
        stored = numpy_dtype(datatype).type(number)
    if math.isfinite(number) and not math.isfinite(float(stored)):
        raise InvalidRequest(f"{name}: {value} does not fit {datatype}")
    return stored


def _integers(name: str, datatype: str, array: AnyArray) -> AnyArray:
    if array.dtype.kind not in "biu" and not (np.isfinite(array) & (array == np.trunc(array))).all():
        raise InvalidRequest(f"{name} wants whole numbers ({datatype}) and the file holds others")
    low, high = integer_range(datatype)
    for edge in (array.min(), array.max()) if array.size else ():
        if not low <= int(edge) <= high:
            raise InvalidRequest(f"{name}: {int(edge)} does not fit {datatype} ({low} to {high})")
    return array.astype(numpy_dtype(datatype))


def _bytes_array(name: str, array: AnyArray) -> AnyArray:
    if array.dtype.kind not in "SUO":
        raise InvalidRequest(f"{name} wants text (BYTES) and the file holds {array.dtype}")
    flat = [
        value if isinstance(value, bytes) else str(value).encode() for value in array.reshape(-1).tolist()
    ]
    return _fill("BYTES", list(flat)).reshape(array.shape)


def _fits(shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    return len(shape) == len(dims) and all(want in (-1, size) for size, want in zip(shape, dims, strict=True))


def _folded(array: AnyArray, dims: tuple[int, ...]) -> AnyArray | None:
    """The array in exactly these dims (-1: any), folding a flat list; None if that is not possible."""
    if _fits(array.shape, dims):
        return array
    if array.ndim > 1 or list(dims).count(-1) > 1:
        return None
    known = math.prod(size for size in dims if size != -1)
    if -1 in dims:
        return array.reshape(dims) if known and array.size % known == 0 and array.size else None
    return array.reshape(dims) if array.size == known else None


def _rows_of(array: AnyArray, dims: tuple[int, ...]) -> AnyArray | None:
    """One row, or as many as a flat list holds; None if it cannot be."""
    one = _folded(array, dims)
    if one is not None:
        return one[np.newaxis]
    size = math.prod(dims)
    if array.ndim == 1 and size > 0 and -1 not in dims and array.size and array.size % size == 0:
        return array.reshape((-1, *dims))
    return None
