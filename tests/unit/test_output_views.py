"""Outputs as a person looks at them: statistics, tables, pictures, hex."""

from __future__ import annotations

import io

import ml_dtypes
import numpy as np
import pytest
from PIL import Image

from control.output_views import OutputStatistics, hex_lines, is_picture, picture_of, statistics_of, table_of


def test_statistics_count_what_is_not_finite_and_leave_it_out() -> None:
    array = np.array([1.0, 3.0, np.nan, np.inf, -np.inf, -np.inf], dtype=np.float32)
    assert statistics_of("FP32", array) == OutputStatistics(6, 1.0, 3.0, 2.0, 1.0, 1, 1, 2)
    found = statistics_of("FP16", np.array([np.nan], dtype=np.float16))
    assert found is not None and (found.minimum, found.mean, found.not_finite) == (None, None, 1)


def test_least_and_greatest_of_64_bit_integers_are_exact() -> None:
    found = statistics_of("INT64", np.array([-(2**63), 2**63 - 1], dtype=np.int64))
    assert found is not None
    assert (found.minimum, found.maximum) == (-9223372036854775808, 9223372036854775807)
    top = statistics_of("UINT64", np.array([2**64 - 1], dtype=np.uint64))
    assert top is not None and top.maximum == 18446744073709551615


def test_there_are_no_statistics_of_text_and_truth_and_none_of_nothing() -> None:
    assert statistics_of("BYTES", np.array([b"a"], dtype=object)) is None
    assert statistics_of("BOOL", np.array([True])) is None
    assert statistics_of("INT8", np.empty((1, 0), np.int8)) == OutputStatistics(
        0, None, None, None, None, 0, 0, 0
    )


def test_a_deviation_beyond_doubles_is_not_told() -> None:
    found = statistics_of("FP64", np.array([1e308, -1e308]))
    assert found is not None and found.mean == 0.0 and found.std is None


def test_bf16_is_counted_like_any_float() -> None:
    found = statistics_of("BF16", np.array([1.5, 2.5], dtype=ml_dtypes.bfloat16))
    assert found is not None and (found.minimum, found.maximum, found.mean) == (1.5, 2.5, 2.0)


@pytest.mark.parametrize(
    ("shape", "table", "rows"),
    [
        ((), (1, 1), ()),
        ((3,), (3, 1), (3,)),
        ((2, 3), (2, 3), (2,)),
        ((2, 3, 4), (6, 4), (2, 3)),
        ((0,), (0, 1), (0,)),
    ],
)
def test_a_table_has_the_last_dimension_as_columns(
    shape: tuple[int, ...], table: tuple[int, int], rows: tuple[int, ...]
) -> None:
    found, over = table_of(np.zeros(shape))
    assert (found.shape, over) == (table, rows)


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


def test_pictures_in_every_layout_show_their_pixels() -> None:
    colour = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    for array in (
        colour,
        colour[np.newaxis],
        np.moveaxis(colour, -1, 0),
        np.moveaxis(colour, -1, 0)[np.newaxis],
    ):
        found = picture_of(array)
        assert found is not None and found[1] == "values 0 to 255" and is_picture(array)
        assert (pixels(found[0]) == colour).all()
    grey = picture_of(np.array([[0.0, 1.0], [0.5, np.nan]], dtype=np.float32))
    assert grey is not None and grey[1] == "values 0 to 1"
    assert pixels(grey[0]).tolist() == [[0, 255], [128, 0]]
    wide = picture_of(np.array([[-10.0, 10.0], [0.0, 0.0]]))
    assert wide is not None and wide[1] == "stretched from -10 to 10"
    assert pixels(wide[0]).tolist() == [[0, 255], [128, 128]]


def test_a_picture_file_in_bytes_is_drawn_anew_and_anything_else_is_no_picture() -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (3, 2), (10, 20, 30)).save(buffer, "PNG")
    array = np.empty((1, 1), dtype=object)
    array[0, 0] = buffer.getvalue()
    found = picture_of(array)
    assert found is not None and found[1] == "a PNG file, 3 × 2"
    assert pixels(found[0])[0, 0].tolist() == [10, 20, 30, 255]
    array[0, 0] = buffer.getvalue()[:40]
    assert picture_of(array) is None and not is_picture(np.array([b"text"], dtype=object))
    for no_picture in (np.zeros((1, 10)), np.zeros(5), np.zeros((0, 3, 3)), np.array([[True, False]] * 2)):
        assert picture_of(no_picture) is None and not is_picture(no_picture)


def test_hex_shows_offset_bytes_and_letters() -> None:
    assert hex_lines(b"Hello\x00\xff", 100) == ["00000000  48 65 6c 6c 6f 00 ff" + " " * 27 + "  |Hello..|"]
    assert len(hex_lines(bytes(100), 40)) == 3
    assert hex_lines(b"", 40) == []
