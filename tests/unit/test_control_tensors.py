"""Values for inputs: exact, or refused with a sentence; never cut silently as Triton would."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from control.image_input import image_array, takes_images
from control.tensor_files import npy_array
from control.tensors import (
    DATATYPES,
    FLOAT_TYPES,
    INTEGER_TYPES,
    arranged,
    element_texts,
    fitting_array,
    integer_range,
    numpy_dtype,
    random_array,
    typed_array,
    zeros_array,
)
from telemetry.errors import InvalidRequest
from telemetry.facts import TensorSpec


def spec(*dims: int, datatype: str = "FP32") -> TensorSpec:
    return TensorSpec("IN", datatype, dims)


def refusal(datatype: str, text: str) -> str:
    with pytest.raises(InvalidRequest) as caught:
        typed_array("IN", datatype, text)
    return caught.value.sentence


@pytest.mark.parametrize("datatype", INTEGER_TYPES)
def test_integers_are_exact_over_their_whole_range_and_refused_beyond(datatype: str) -> None:
    low, high = integer_range(datatype)
    for text in (f"{low} {high}", f"[{low}, {high}]"):
        array = typed_array("IN", datatype, text)
        assert array.dtype == numpy_dtype(datatype)
        assert element_texts(array, 9) == [str(low), str(high)]
    assert refusal(datatype, str(high + 1)) == f"IN: {high + 1} does not fit {datatype} ({low} to {high})"
    assert refusal(datatype, f"[{low - 1}]") == f"IN: {low - 1} does not fit {datatype} ({low} to {high})"


def test_uint8_300_is_refused_and_2_to_the_53_plus_1_is_exact() -> None:
    assert refusal("UINT8", "300") == "IN: 300 does not fit UINT8 (0 to 255)"
    assert element_texts(typed_array("IN", "INT64", "9007199254740993"), 1) == ["9007199254740993"]


@pytest.mark.parametrize(
    ("datatype", "text", "sentence"),
    [
        ("INT32", "1.5", "IN wants whole numbers (INT32), not '1.5'"),
        ("INT32", "[true]", "IN wants numbers (INT32), not true"),
        ("FP32", "abc", "IN wants numbers (FP32), not 'abc'"),
        ("FP32", "[null]", "IN wants numbers (FP32), not null"),
        ("FP32", "1e39", "IN: 1e39 does not fit FP32"),
        ("FP16", "70000", "IN: 70000 does not fit FP16"),
        ("BOOL", "maybe", "IN wants true or false (BOOL), not 'maybe'"),
        ("BYTES", "[1]", "IN wants text (BYTES): put 1 in quotation marks"),
        ("FP32", "  ", "IN: no value is typed"),
        ("FP32", "[1, 2", "IN: this is not valid JSON"),
        ("FP32", "[[1, 2], [3]]", "IN: the lists have different lengths"),
        ("FP99", "1", f"FP99 is not a datatype this form knows: {', '.join(DATATYPES)}"),
    ],
)
def test_a_value_that_cannot_be_sent_is_named(datatype: str, text: str, sentence: str) -> None:
    assert refusal(datatype, text) == sentence


@pytest.mark.parametrize("datatype", FLOAT_TYPES)
def test_floats_keep_their_value_and_take_nan_and_infinity(datatype: str) -> None:
    array = typed_array("IN", datatype, "1.5, -2.0 NaN Infinity")
    assert array.dtype == numpy_dtype(datatype)
    values = array.astype(np.float64)
    assert values[:2].tolist() == [1.5, -2.0]
    assert np.isnan(values[2]) and np.isposinf(values[3])


def test_booleans_and_texts() -> None:
    assert typed_array("IN", "BOOL", "true false 1 0").tolist() == [True, False, True, False]
    assert typed_array("IN", "BYTES", "one line\nänother").tolist() == [b"one line", "änother".encode()]
    assert typed_array("IN", "BYTES", '[["a", "b"]]').tolist() == [[b"a", b"b"]]
    assert element_texts(np.array([b"\xff", b"ok"], dtype=object), 2) == ["\ufffd", "ok"]
    assert element_texts(np.array([True, False]), 2) == ["true", "false"]


def test_the_batch_dimension_is_added_where_the_model_batches_and_only_there() -> None:
    value = typed_array("IN", "FP32", "1.5")
    assert arranged(spec(1), value, batching=True, rows=1).tolist() == [[1.5]]
    assert arranged(spec(1), value, batching=False, rows=1).tolist() == [1.5]


@pytest.mark.parametrize(
    ("dims", "text", "rows", "expected"),
    [
        ((1,), "1.5", 3, [[1.5], [1.5], [1.5]]),
        ((1,), "1 2 3", 1, [[1], [2], [3]]),
        ((1,), "[[1], [2]]", 1, [[1], [2]]),
        ((2,), "1 2", 1, [[1, 2]]),
        ((2, 2), "1 2 3 4", 1, [[[1, 2], [3, 4]]]),
        ((-1,), "1 2 3", 1, [[1, 2, 3]]),
        ((-1, 2), "1 2 3 4", 1, [[[1, 2], [3, 4]]]),
        ((-1,), "[[1, 2], [3, 4]]", 1, [[1, 2], [3, 4]]),
    ],
)
def test_typed_values_become_rows(
    dims: tuple[int, ...], text: str, rows: int, expected: list[object]
) -> None:
    array = arranged(spec(*dims), typed_array("IN", "FP32", text), batching=True, rows=rows)
    assert array.tolist() == expected


def test_values_that_do_not_fit_name_both_shapes() -> None:
    with pytest.raises(InvalidRequest, match=r"^IN wants the shape \[-1,4\] and got \[3\]$"):
        arranged(spec(4), np.zeros(3), batching=True, rows=1)
    with pytest.raises(
        InvalidRequest, match=r"wants the shape \[4\] and got \[1,4\]: this model does not batch"
    ):
        arranged(spec(4), np.zeros((1, 4)), batching=False, rows=1)
    with pytest.raises(InvalidRequest, match=r"^IN wants the shape \[-1,-1,3\] and got \[5\]$"):
        arranged(spec(-1, 3), np.zeros(5), batching=True, rows=1)


@pytest.mark.parametrize("datatype", DATATYPES)
def test_random_values_repeat_with_their_seed_and_zeros_are_zeros(datatype: str) -> None:
    first, again = (random_array(datatype, (2, 50), 7) for _ in range(2))
    assert first.dtype == numpy_dtype(datatype)
    assert first.shape == (2, 50)
    assert first.tolist() == again.tolist()
    assert first.tolist() != random_array(datatype, (2, 50), 8).tolist()
    assert {bool(value) for value in zeros_array(datatype, (2, 3)).reshape(-1).tolist()} == {False}


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_npy_files_are_taken_if_every_value_fits() -> None:
    assert npy_array("IN", "FP32", npy(np.array([[0.5]]))).dtype == np.float32
    assert npy_array("IN", "UINT8", npy(np.array([0, 255]))).tolist() == [0, 255]
    assert npy_array("IN", "INT8", npy(np.array([1.0, -2.0]))).tolist() == [1, -2]
    assert npy_array("IN", "BYTES", npy(np.array(["a", "ü"]))).tolist() == [b"a", "ü".encode()]


@pytest.mark.parametrize(
    ("datatype", "array", "sentence"),
    [
        ("UINT8", np.array([300]), "IN: 300 does not fit UINT8 (0 to 255)"),
        ("INT8", np.array([0.5]), "IN wants whole numbers (INT8) and the file holds others"),
        ("FP16", np.array([1e6]), "IN: 1000000.0 does not fit FP16"),
        ("FP32", np.array(["x"]), "IN wants FP32 and the file holds <U1"),
        ("BYTES", np.array([1]), "IN wants text (BYTES) and the file holds int64"),
        ("BOOL", np.array([2]), "IN wants BOOL and the file has values other than 0 and 1"),
    ],
)
def test_npy_values_that_do_not_fit_are_named(datatype: str, array: np.ndarray, sentence: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        npy_array("IN", datatype, npy(array))
    assert caught.value.sentence == sentence


def test_a_pickle_or_garbage_is_refused() -> None:
    evil = io.BytesIO()
    np.save(evil, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    for data in (evil.getvalue(), b"garbage", b""):
        with pytest.raises(InvalidRequest, match=r"not a readable \.npy array"):
            npy_array("IN", "FP32", data)


def test_an_infinite_value_stays_infinite() -> None:
    assert np.isposinf(fitting_array("IN", "FP16", np.array([np.inf])).astype(np.float64)).all()


def picture(width: int, height: int, colour: tuple[int, int, int]) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(file, "PNG")
    return file.getvalue()


def test_a_picture_becomes_pixels_in_the_layout_of_the_input() -> None:
    data = picture(6, 4, (255, 0, 51))
    channels_first = image_array(spec(3, 2, 3), data)
    assert channels_first.shape == (3, 2, 3)
    assert [float(channels_first[channel, 0, 0]) for channel in range(3)] == pytest.approx([1.0, 0.0, 0.2])
    channels_last = image_array(spec(-1, -1, 3, datatype="UINT8"), data)
    assert channels_last.shape == (4, 6, 3)
    assert channels_last[0, 0].tolist() == [255, 0, 51]
    assert image_array(spec(5, 7), data).shape == (5, 7)
    assert image_array(spec(1, datatype="BYTES"), data).tolist() == [data]


def test_what_is_no_picture_or_no_input_for_one_is_named() -> None:
    with pytest.raises(InvalidRequest, match="the file is not a readable picture"):
        image_array(spec(3, 2, 2), b"garbage")
    with pytest.raises(InvalidRequest, match=r"IN has the dims \[7\]: a picture does not fit"):
        image_array(spec(7), picture(2, 2, (0, 0, 0)))
    fits = {dims: takes_images(spec(*dims)) for dims in ((3, 224, 224), (224, 224, 3), (1,), (7,))}
    assert fits == {(3, 224, 224): True, (224, 224, 3): True, (1,): False, (7,): False}
    assert takes_images(spec(1, datatype="BYTES"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"), (16777216, "16777216.0"), (3.4028235e38, "3.4028235e+38"), (1e-45, "1e-45"),
        (-0.0, "-0.0"), (float("nan"), "nan"), (float("-inf"), "-inf"),
    ],
)  # fmt: skip
def test_an_fp32_is_written_with_the_digits_that_tell_it_from_its_neighbours(value: float, text: str) -> None:
    array = np.array([value], dtype=np.float32)
    assert element_texts(array, 1) == [text]
    assert typed_array("IN", "FP32", text).tobytes() == array.tobytes()
    assert element_texts(np.array([65504], np.float16), 1) == ["65504.0"]
