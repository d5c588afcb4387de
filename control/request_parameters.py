"""Parameters of one inference request: what they may be, and which names Triton keeps for itself."""

from __future__ import annotations

import math
from collections.abc import Mapping

from telemetry.errors import InvalidRequest

ParameterValue = str | int | bool | float

KINDS = ("string", "int", "bool", "double")
RESERVED_PREFIX = "triton_"

SET_BY_TRITONSCOPE: dict[str, str] = {
    "sequence_id": "the steps of a sequence are sent whole, with an id, start and end set here",
    "sequence_start": "the steps of a sequence are sent whole, with an id, start and end set here",
    "sequence_end": "the steps of a sequence are sent whole, with an id, start and end set here",
    "binary_data_output": "outputs always travel binary here, so that they are exact",
    "headers": "headers belong into the settings of the server",
}
"""Reserved names that cannot be given, and why."""

UNDERSTOOD_BY_TRITON: dict[str, str] = {
    "priority": "a whole number from 0; acts with priority_levels in dynamic_batching, others are ignored",
    "timeout": "microseconds in the queue; acts only where the queue policy has allow_timeout_override, "
    "and can only shorten its default_timeout_microseconds",
}
"""Reserved names that can be given: Triton acts on them itself, as these words say."""

_INT_LIMIT = 2**63
_WORDS = {"true": True, "false": False, "1": True, "0": False}


def typed_parameter(name: str, kind: str, text: str) -> ParameterValue:
    """A parameter's value as a person typed it; `kind` is one of KINDS. Raises InvalidRequest."""
    word = text.strip()
    try:
        if kind == "int":
            return int(word)
        if kind == "double":
            return float(word)
        if kind == "bool":
            return _WORDS[word.lower()]
    except (ValueError, KeyError):
        wanted = {"int": "a whole number", "double": "a number", "bool": "true or false"}[kind]
        raise InvalidRequest(f"The request parameter {name} must be {wanted}, not {text!r}") from None
    return text


def check_parameters(parameters: Mapping[str, ParameterValue]) -> None:
    """Raise InvalidRequest for a parameter that Triton refuses, or that is not the caller's to set."""
    for name, value in parameters.items():
        _check_name(name)
        if name in UNDERSTOOD_BY_TRITON and (isinstance(value, bool) or not isinstance(value, int)):
            raise InvalidRequest(f"The request parameter {name} must be a whole number: {explained(name)}")
        if name in UNDERSTOOD_BY_TRITON and not 0 <= int(value) < 2 * _INT_LIMIT:
            raise InvalidRequest(f"The request parameter {name} must be 0 or more: {explained(name)}")
        if isinstance(value, int) and not -_INT_LIMIT <= value < _INT_LIMIT:
            raise InvalidRequest(f"The request parameter {name} does not fit 64 bits: give it as a string")
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidRequest(f"The request parameter {name} is not a finite number")


def explained(name: str) -> str:
    """What Triton or Tritonscope does with a reserved name; "" for any other."""
    if name.startswith(RESERVED_PREFIX):
        return f"names that begin with {RESERVED_PREFIX} belong to Triton, which refuses them"
    return SET_BY_TRITONSCOPE.get(name) or UNDERSTOOD_BY_TRITON.get(name, "")


def _check_name(name: str) -> None:
    if not name.strip():
        raise InvalidRequest("A request parameter has no name")
    if name.startswith(RESERVED_PREFIX) or name in SET_BY_TRITONSCOPE:
        raise InvalidRequest(f"The request parameter {name} cannot be given: {explained(name)}")
