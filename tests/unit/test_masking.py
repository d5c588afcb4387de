"""What leaves the process: credentials masked, frozen data as plain data and back."""

from __future__ import annotations

import pytest

from telemetry.identity import ModelKey
from telemetry.masking import MASKED, Mask, parameter_values, without_parameter_values
from telemetry.plain import from_plain, to_plain
from telemetry.scrape import Series


def test_masking() -> None:
    raw = {"parameters": {"K": {"string_value": "topsecret9"}, "N": {"string_value": "12"}}, "name": "m"}
    assert without_parameter_values(raw) == {
        "parameters": {"K": {"string_value": MASKED}, "N": {"string_value": MASKED}},
        "name": "m",
    }
    assert parameter_values(raw) == {"topsecret9"}
    mask = Mask({"topsecret9", "resnet", "abc"}, names={"resnet"})
    assert mask.text("resnet topsecret9 abc") == f"resnet {MASKED} abc"
    assert mask.text("http://u:p@h:1/x") == "http://h:1/x"
    assert mask.text("Authorization: Bearer abc.def-ghi") == f"Authorization: Bearer {MASKED}"
    assert mask.data({"a": ["topsecret9", 1, None]}) == {"a": [MASKED, 1, None]}


def test_plain_data_that_does_not_fit_is_refused() -> None:
    series = Series("f", (("model", "m"),))
    assert from_plain(tuple[Series, ...], to_plain((series,))) == (series,)
    for hint, data in ((int, True), (str, 1), (float, "1"), (tuple[int, ...], {}), (ModelKey, []),
                       (tuple[str, int], ["a"]), (str | None, 3)):  # fmt: skip
        with pytest.raises(ValueError, match=r"expected|fit"):
            from_plain(hint, data)
    with pytest.raises(TypeError):
        to_plain(object())
