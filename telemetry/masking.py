"""What leaves the process for somebody else's eyes: credentials and parameter values made unreadable."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

MASKED = "(masked)"
_LEAST_LETTERS = 4
"""Shorter secrets would blank out half of every text; where they stand, they are masked all the same."""
_USER_INFO = re.compile(r"(?<=://)[^\s/?#@\"'<>]+@")
_CREDENTIAL = re.compile(r"\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE)
_PLAIN_WORDS = frozenset({"true", "false", "none", "null", "auto"})


class Mask:
    """Replaces the given secrets, user info of addresses and Authorization values wherever they stand.

    `names` are words that must stay, such as models that happen to be called like a parameter's value.
    """

    def __init__(self, secrets: Iterable[str], names: Iterable[str] = ()) -> None:
        kept = {*names, *_PLAIN_WORDS}
        wanted = {one.strip() for one in secrets} - kept
        usable = sorted((one for one in wanted if len(one) >= _LEAST_LETTERS), key=len, reverse=True)
        self._secrets = re.compile("|".join(map(re.escape, usable))) if usable else None

    def text(self, text: str) -> str:
        """The text without what nobody else may read."""
        if self._secrets is not None:
            text = self._secrets.sub(MASKED, text)
        if "://" in text:
            text = _USER_INFO.sub("", text)
        return _CREDENTIAL.sub(rf"\1\2{MASKED}", text)

    def data(self, value: Any) -> Any:
        """The same for every text in plain data (mappings, lists, texts, numbers)."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.data(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(item) for item in value]
        return value


def without_parameter_values(config: Any) -> Any:
    """A model's configuration as JSON data with the values of its `parameters` masked; their names stay."""
    if isinstance(config, Mapping):
        return {
            key: _masked(item) if key == "parameters" else without_parameter_values(item)
            for key, item in config.items()
        }
    if isinstance(config, list | tuple):
        return [without_parameter_values(item) for item in config]
    return config


def parameter_values(config: Any) -> set[str]:
    """Values of all `parameters` of a configuration that are texts, numbers left out."""
    if isinstance(config, Mapping):
        found: set[str] = set()
        for key, item in config.items():
            found |= _texts(item) if key == "parameters" else parameter_values(item)
        return found
    if isinstance(config, list | tuple):
        return set().union(*map(parameter_values, config))
    return set()


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _masked(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item) for item in value]
    return MASKED


def _texts(value: Any) -> set[str]:
    if isinstance(value, Mapping):
        return set().union(*map(_texts, value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(_texts, value))
    return {value} if isinstance(value, str) and not _is_number(value) else set()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
