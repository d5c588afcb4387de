"""Tensors as files: exact in both directions, and every damaged or hostile file one sentence."""

from __future__ import annotations

import io
import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from control.image_input import image_array
from control.tensor_files import (
    MAX_FILE_BYTES,
    as_json,
    as_npy,
    as_raw,
    check_file_size,
    json_array,
    npy_array,
    raw_array,
    raw_values,
    text_array,
)
from control.tensors import DATATYPES, FLOAT_TYPES, INTEGER_TYPES, AnyArray, integer_range, numpy_dtype
from telemetry.errors import InvalidRequest
from telemetry.facts import TensorSpec


def objects(*values: bytes) -> AnyArray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def extremes(datatype: str) -> AnyArray:
    if datatype == "BYTES":
        return objects(b"", b"text", b"\xff\x00\xfe", "ünï \u2028".encode())
    if datatype == "BOOL":
        return np.array([True, False])
    if datatype in INTEGER_TYPES:
        low, high = integer_range(datatype)
        return np.array([low, high, 0], dtype=numpy_dtype(datatype))
    limits: Any = ml_dtypes.finfo(numpy_dtype(datatype))  # type: ignore[no-untyped-call]
    values = [limits.max, limits.min, limits.smallest_subnormal, -0.0, np.nan, np.inf, -np.inf]
    return np.array(values).astype(numpy_dtype(datatype))


def same(datatype: str, one: AnyArray, other: AnyArray) -> bool:
    assert one.dtype == other.dtype and one.shape == other.shape
    return as_raw(datatype, one) == as_raw(datatype, other)


@pytest.mark.parametrize("datatype", DATATYPES)
def test_extreme_values_survive_json_raw_and_npy_bit_for_bit(datatype: str) -> None:
    array = extremes(datatype)
    assert same(datatype, json_array("IN", datatype, as_json("OUT", datatype, array).encode()), array)
    assert same(datatype, raw_values(datatype, as_raw(datatype, array), array.shape), array)
    if datatype == "BYTES":
        assert as_npy(array) is None
        return
    assert same(datatype, raw_array("IN", datatype, as_raw(datatype, array)), array)
    written = as_npy(array)
    assert written is not None
    assert same(datatype, npy_array("IN", datatype, written), array)


@pytest.mark.parametrize("datatype", DATATYPES)
def test_an_empty_tensor_keeps_its_shape_in_json(datatype: str) -> None:
    array = np.empty((2, 0), dtype=numpy_dtype(datatype))
    assert json_array("IN", datatype, as_json("OUT", datatype, array).encode()).shape == (2, 0)


def test_json_is_nested_lists_or_what_triton_writes() -> None:
    assert json_array("IN", "INT64", b"[[9007199254740993], [2]]").tolist() == [[9007199254740993], [2]]
    assert json_array("IN", "FP32", b'{"shape": [1, 2], "data": [1.5, NaN]}').shape == (1, 2)
    assert json_array("IN", "BYTES", b'["a", {"base64": "/w=="}]').tolist() == [b"a", b"\xff"]
    assert json_array("IN", "FP32", b"\xef\xbb\xbf 2.5").tolist() == [2.5]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "IN: this is not valid JSON"),
        (b"{", "IN: this is not valid JSON"),
        (b"[" * 100_000, "IN: this is not valid JSON"),
        (b"\xff\xfe", "IN: the file is not UTF-8 text; send it as raw bytes"),
        (b'{"datatype": "FP32", "data": [1]}', "IN wants INT8 and the file says FP32"),
        (b'{"shape": [3], "data": [1]}', "IN: the file has 1 values and says the shape is [3]"),
        (b'{"shape": "x", "data": [1]}', "IN: the shape in the file is not a list of whole numbers"),
        (b'{"other": 1}', 'IN wants numbers (INT8), not {"other": 1}'),
        (b"[1, [2]]", "IN: the lists have different lengths"),
        (b"[300]", "IN: 300 does not fit INT8 (-128 to 127)"),
        (b"[" + b"9" * 5000 + b"]", "IN: this is not valid JSON"),
    ],
)
def test_json_that_cannot_be_used_is_one_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        json_array("IN", "INT8", data)
    assert caught.value.sentence == sentence


def npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not an array",
        b"\x93NUMPY",
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (10**12,)}"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}", b"1234"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-5,)}", b"1234"),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"cos\nsystem\n"),
        npy("__import__('os').system('true')"),
        npy("{'descr': '<f4'"),
        b"PK\x03\x04 a zip, perhaps",
    ],
)
def test_a_damaged_or_hostile_npy_is_one_sentence_and_allocates_nothing(data: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        npy_array("IN", "FP32", data)
    assert caught.value.sentence in (
        "IN: the file is not a readable .npy array without Python objects",
        "IN: the file holds several arrays (.npz): give one .npy",
    )


@settings(deadline=None)
@given(some.binary(max_size=300))
def test_any_bytes_are_an_array_or_a_sentence(data: bytes) -> None:
    for read in (npy_array, json_array, text_array, raw_array):
        for datatype in ("FP32", "INT64", "BF16", "BOOL", "BYTES"):
            try:
                assert isinstance(read("IN", datatype, data), np.ndarray)
            except InvalidRequest as error:
                assert error.sentence.startswith("IN")


@settings(deadline=None)
@given(some.binary(max_size=300))
def test_any_bytes_as_a_picture_are_pixels_or_a_sentence(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match="the file is not a readable picture"):
        image_array(TensorSpec("IN", "UINT8", (8, 8, 3)), data)


def test_an_npz_and_an_array_of_another_kind_are_refused() -> None:
    buffer = io.BytesIO()
    np.savez(buffer, a=np.zeros(1))
    with pytest.raises(InvalidRequest):
        npy_array("IN", "FP32", buffer.getvalue())
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(2, dtype="V2"))
    with pytest.raises(InvalidRequest, match=r"IN wants FP32 and the file holds \|V2"):
        npy_array("IN", "FP32", buffer.getvalue())


def test_a_file_of_100_megabytes_is_refused_with_a_sentence_by_every_reader() -> None:
    data = bytes(100 * 2**20)
    for read in (npy_array, json_array, text_array, raw_array):
        with pytest.raises(InvalidRequest) as caught:
            read("IN", "BYTES", data)
        assert caught.value.sentence == (
            "IN: the file has 100 MiB, and at most 64 MiB are taken: Triton itself refuses larger requests"
        )
    check_file_size("IN", MAX_FILE_BYTES)


def test_text_is_one_element_for_bytes_and_numbers_for_the_rest() -> None:
    assert text_array("IN", "BYTES", "two\nlines ü".encode()).tolist() == ["two\nlines ü".encode()]
    assert text_array("IN", "INT16", b"1 2\n3").tolist() == [1, 2, 3]
    assert raw_array("IN", "BYTES", b"\xff\x00").tolist() == [b"\xff\x00"]
    with pytest.raises(InvalidRequest, match="3 bytes are not a whole number of FP32 values of 4 bytes"):
        raw_array("IN", "FP32", b"123")


@pytest.mark.parametrize("data", [b"\x01", b"\x05\x00\x00\x00abc"])
def test_bytes_elements_that_are_cut_off_are_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="cut off"):
        raw_values("BYTES", data, (-1,))


def test_written_json_says_name_datatype_and_shape() -> None:
    assert json.loads(as_json("OUT", "INT8", np.array([[1, 2]], np.int8))) == {
        "name": "OUT", "datatype": "INT8", "shape": [1, 2], "data": [1, 2],
    }  # fmt: skip
    assert set(FLOAT_TYPES) <= set(DATATYPES)
