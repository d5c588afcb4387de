"""Frozen data to JSON data and back, by the types of its fields: no pickle, nothing that can run code."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

_SCALARS = (str, int, float, bool, type(None))


def to_plain(value: Any) -> Any:
    """Dataclasses and mappings as objects, other mappings than of names as lists of pairs, tuples and sets as
    lists, enums as their values.

    Raises TypeError for anything else: such a field has no place in a file.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, _SCALARS):
        return value
    if is_dataclass(value):
        return {one.name: to_plain(getattr(value, one.name)) for one in fields(value) if one.init}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {str(key): to_plain(item) for key, item in value.items()}
        return [[to_plain(key), to_plain(item)] for key, item in value.items()]
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, frozenset | set):
        return sorted(to_plain(item) for item in value)
    raise TypeError(f"{type(value).__name__} cannot be written as plain data")


def from_plain(hint: Any, data: Any) -> Any:
    """Plain data as the type `hint` says. Raises ValueError where it does not fit.

    `Any` and `object` take the data as they are.
    """
    if hint in (Any, object):
        return data
    if is_dataclass(hint) and isinstance(hint, type):
        return _dataclass(hint, data)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(data)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _union(arguments, data)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {from_plain(arguments[0], key): from_plain(arguments[1], item) for key, item in _pairs(data)}
    if origin is tuple and arguments[-1:] != (Ellipsis,):
        return _fixed(arguments, data)
    if isinstance(origin, type):
        return _many(origin, arguments[0], data)
    if isinstance(hint, type) and issubclass(hint, tuple):
        return hint(*_fixed(tuple(_hints(hint).values()), data))
    return _scalar(hint, data)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _dataclass(kind: Any, data: Any) -> Any:
    if not isinstance(data, dict):
        raise ValueError(f"{kind.__name__}: an object was expected")
    hints = _hints(kind)
    known = {one.name for one in fields(kind) if one.init}
    try:
        return kind(**{name: from_plain(hints[name], item) for name, item in data.items() if name in known})
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from error


def _union(arguments: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in arguments:
        return None
    for one in arguments:
        if one is type(None):
            continue
        try:
            return from_plain(one, data)
        except ValueError:
            continue
    raise ValueError(f"{type(data).__name__} does not fit")


def _pairs(data: Any) -> list[tuple[Any, Any]]:
    if isinstance(data, dict):
        return list(data.items())
    if not isinstance(data, list) or not all(isinstance(one, list) and len(one) == 2 for one in data):
        raise ValueError("a list of pairs was expected")
    return [(key, item) for key, item in data]


def _fixed(arguments: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list) or len(data) != len(arguments):
        raise ValueError(f"a list of {len(arguments)} was expected")
    return tuple(from_plain(one, item) for one, item in zip(arguments, data, strict=True))


def _many(origin: type, item: Any, data: Any) -> Any:
    if not isinstance(data, list):
        raise ValueError("a list was expected")
    values = (from_plain(item, one) for one in data)
    return frozenset(values) if issubclass(origin, frozenset) else tuple(values)


def _scalar(hint: Any, data: Any) -> Any:
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if hint is type(None) and data is None:
        return None
    if not isinstance(hint, type) or not isinstance(data, hint) or (hint is not bool and data is True):
        raise ValueError(f"{getattr(hint, '__name__', hint)} was expected, not {type(data).__name__}")
    if hint is int and isinstance(data, bool):
        raise ValueError("int was expected, not bool")
    return data
