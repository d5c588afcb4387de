"""Request parameters: typed as wanted; reserved names explained, and refused before sending."""

from __future__ import annotations

import pytest

from control.request_parameters import (
    SET_BY_TRITONSCOPE,
    UNDERSTOOD_BY_TRITON,
    ParameterValue,
    check_parameters,
    explained,
    typed_parameter,
)
from telemetry.errors import InvalidRequest


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", " as it is ", " as it is "),
        ("int", " -5 ", -5),
        ("bool", "True", True),
        ("bool", "0", False),
        ("double", "1e-3", 0.001),
    ],
)
def test_a_parameter_has_the_type_that_was_chosen(kind: str, text: str, value: ParameterValue) -> None:
    found = typed_parameter("x", kind, text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [("int", "1.5", "a whole number"), ("double", "", "a number"), ("bool", "yes", "true or false")],
)
def test_what_is_not_of_the_type_is_refused(kind: str, text: str, wanted: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        typed_parameter("x", kind, text)
    assert caught.value.sentence == f"The request parameter x must be {wanted}, not {text!r}"


@pytest.mark.parametrize("name", ["triton_enable_empty_final_response", "triton_", *SET_BY_TRITONSCOPE])
def test_reserved_names_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_parameters({name: "x"})
    assert caught.value.sentence == f"The request parameter {name} cannot be given: {explained(name)}"
    assert len(explained(name)) > 20


@pytest.mark.parametrize("name", UNDERSTOOD_BY_TRITON)
def test_names_triton_acts_on_must_be_whole_numbers(name: str) -> None:
    check_parameters({name: 5})
    for value in ("5", True, 1.0):
        with pytest.raises(InvalidRequest, match=f"The request parameter {name} must be a whole number: "):
            check_parameters({name: value})
    with pytest.raises(InvalidRequest, match="must be 0 or more"):
        check_parameters({name: -1})


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"": 1}, "has no name"),
        ({"x": 2**63}, "does not fit 64 bits"),
        ({"x": float("nan")}, "is not a finite number"),
    ],
)
def test_values_that_cannot_travel_are_refused(parameters: dict[str, ParameterValue], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        check_parameters(parameters)


def test_ordinary_parameters_pass() -> None:
    check_parameters({"temperature": 0.5, "n": -(2**63), "flag": True, "text": "", "headers_x": "y"})
    assert explained("temperature") == ""
