"""Tensors as files: read from .npy, JSON, text and raw bytes, and written as them, exactly.

Nothing is unpickled, and no size is believed that the file does not have: a damaged or hostile file is one
sentence. File names are never used.
"""

from __future__ import annotations

import base64
import io
import json
import math
import struct
import tokenize
from typing import Any

import numpy as np

from control.tensors import (
    BASE64,
    AnyArray,
    array_of_values,
    fitting_array,
    json_of,
    numpy_dtype,
    typed_array,
)
from telemetry.errors import InvalidRequest

MAX_FILE_BYTES = 64 * 2**20
"""Triton takes no larger request from 25.06 on; Streamlit's `server.maxUploadSize` is the same number."""
_DAMAGED = (
    ValueError, EOFError, OSError, MemoryError, OverflowError, SyntaxError, TypeError, RecursionError,
    tokenize.TokenError,
)  # fmt: skip
"""What numpy raises for a damaged header, which it reads as a Python literal."""
_LENGTH = struct.Struct("<I")


def check_file_size(name: str, size_bytes: int) -> None:
    """Raise InvalidRequest for a file that is larger than any request may be."""
    if size_bytes > MAX_FILE_BYTES:
        raise InvalidRequest(
            f"{name}: the file has {size_bytes / 2**20:.0f} MiB, and at most {MAX_FILE_BYTES >> 20} MiB are "
            "taken: Triton itself refuses larger requests"
        )


def npy_array(name: str, datatype: str, data: bytes) -> AnyArray:
    """The array of a .npy file; never unpickles."""
    check_file_size(name, len(data))
    try:
        _check_npy_header(data)
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except _DAMAGED as error:
        raise InvalidRequest(
            f"{name}: the file is not a readable .npy array without Python objects", detail=str(error)
        ) from error
    if not isinstance(array, np.ndarray):
        raise InvalidRequest(f"{name}: the file holds several arrays (.npz): give one .npy")
    return fitting_array(name, datatype, array)


def json_array(name: str, datatype: str, data: bytes) -> AnyArray:
    """Nested lists in JSON, which keep their shape, or `{"shape": [...], "data": [...]}` as Triton writes it.

    `datatype` is checked against one that stands in the file. BYTES are strings or `{"base64": "..."}`.
    """
    check_file_size(name, len(data))
    value = json_of(name, _text(name, data))
    shape: object = None
    if isinstance(value, dict) and "data" in value:
        said = value.get("datatype", datatype)
        if said != datatype:
            raise InvalidRequest(f"{name} wants {datatype} and the file says {said}")
        value, shape = value["data"], value.get("shape")
    if not isinstance(value, list):
        value = [value]
    array = array_of_values(name, datatype, value)
    return array if shape is None else _shaped(name, array, shape)


def text_array(name: str, datatype: str, data: bytes) -> AnyArray:
    """A text file: for BYTES the whole text as one element, else numbers as they are typed."""
    check_file_size(name, len(data))
    if datatype == "BYTES":
        _text(name, data)
        return _one_element(data)
    return typed_array(name, datatype, _text(name, data))


def raw_array(name: str, datatype: str, data: bytes) -> AnyArray:
    """The file's bytes as they are: one element for BYTES, else little-endian values in a flat list."""
    check_file_size(name, len(data))
    if datatype == "BYTES":
        return _one_element(data)
    dtype = numpy_dtype(datatype)
    if len(data) % dtype.itemsize:
        raise InvalidRequest(
            f"{name}: {len(data)} bytes are not a whole number of {datatype} values of {dtype.itemsize} bytes"
        )
    return raw_values(datatype, data, (-1,))


def raw_values(datatype: str, data: bytes, shape: tuple[int, ...]) -> AnyArray:
    """The reverse of `as_raw`; raises ValueError if the bytes do not fit the shape."""
    flat: AnyArray
    if datatype == "BYTES":
        elements = _elements(data)
        flat = np.empty(len(elements), dtype=object)
        flat[:] = elements
    elif datatype == "BOOL":
        flat = np.frombuffer(data, dtype=np.uint8) != 0
    else:
        flat = np.frombuffer(data, dtype=numpy_dtype(datatype)).copy()
    return flat.reshape(shape)


def _elements(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        begin = at + _LENGTH.size
        if begin > len(data):
            raise ValueError("a length is cut off")
        at = begin + _LENGTH.unpack_from(data, begin - _LENGTH.size)[0]
        if at > len(data):
            raise ValueError("an element is cut off")
        found.append(data[begin:at])
    return found


def as_raw(datatype: str, array: AnyArray) -> bytes:
    """The bytes as they travel: little-endian, row-major; BYTES elements after their 4-byte lengths."""
    if datatype != "BYTES":
        return np.ascontiguousarray(array).tobytes()
    return b"".join(_LENGTH.pack(len(value)) + value for value in array.reshape(-1).tolist())


def as_npy(array: AnyArray) -> bytes | None:
    """A .npy file, None for BYTES: numpy could write them only as Python objects."""
    if array.dtype.hasobject:
        return None
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def as_json(name: str, datatype: str, array: AnyArray) -> str:
    """`{"name", "datatype", "shape", "data"}` with every value exact: `json_array` reads it back.

    NaN and Infinity stand as these words, as Triton writes and reads them. Bytes that are no UTF-8 text are
    `{"base64": "..."}`.
    """
    return json.dumps(
        {"name": name, "datatype": datatype, "shape": list(array.shape), "data": json_values(array)}
    )


def json_values(array: AnyArray) -> list[Any]:
    """The elements in row-major order as JSON can hold them exactly."""
    flat = array.reshape(-1)
    if flat.dtype == object:
        return [_json_bytes(value) for value in flat.tolist()]
    # FP16 and BF16 are doubles too; their own scalars are not JSON's.
    return flat.tolist() if flat.dtype.kind in "biu" else [float(value) for value in flat]


def is_text(array: AnyArray) -> bool:
    """True if every element of a BYTES array is UTF-8."""
    return all(isinstance(value, str) for value in json_values(array))


def _json_bytes(value: bytes) -> object:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {BASE64: base64.b64encode(value).decode("ascii")}


def _one_element(data: bytes) -> AnyArray:
    array = np.empty(1, dtype=object)
    array[0] = data
    return array


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"{name}: the file is not UTF-8 text; send it as raw bytes", detail=str(error)
        ) from error


def _shaped(name: str, array: AnyArray, shape: object) -> AnyArray:
    if not isinstance(shape, list) or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise InvalidRequest(f"{name}: the shape in the file is not a list of whole numbers")
    if math.prod(shape) != array.size:
        raise InvalidRequest(f"{name}: the file has {array.size} values and says the shape is {shape}")
    return array.reshape(shape)


def _check_npy_header(data: bytes) -> None:
    """Raise ValueError if the header promises more than the file holds: numpy would allocate it first."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("the file holds Python objects")
    if math.prod(shape) * dtype.itemsize > len(data) - file.tell():
        raise ValueError(f"the file ends before the {math.prod(shape)} values its header promises")
