"""config.pbtxt, protocol buffers' text format: read into plain values, and blocks written in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from telemetry.errors import InvalidRequest

_TOKEN = re.compile(
    r"""\s*+(?:\#[^\n]*+\n?\s*+)*+(?:
        (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
        |(?P<word>[A-Za-z_][\w.]*)
        |(?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)f?)
        |(?P<mark>[{}\[\]<>:,;])
    )""",
    re.VERBOSE,
)
_BARE = frozenset(("kind", "timeout_action"))
"""Fields whose values are names of an enumeration, which stand without quotes."""
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\"}
MAX_DEPTH = 50


def block_text(name: str, value: Any, indent: str = "") -> str:
    """One field in text format: `max_batch_size: 8`, `dynamic_batching { ... }`."""
    if isinstance(value, Mapping):
        inner = [block_text(key, one, indent + "  ") for key, one in value.items()]
        return f"{indent}{name} {{{_lines(inner, indent)}}}"
    if isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        rows = [f"{indent}  {{ {' '.join(block_text(k, v) for k, v in one.items())} }}" for one in value]
        return f"{indent}{name} [\n" + ",\n".join(rows) + f"\n{indent}]"
    return f"{indent}{name}: {_scalar(name, value)}"


def _lines(inner: list[str], indent: str) -> str:
    return "\n" + "\n".join(inner) + f"\n{indent}" if inner else " "


def _scalar(name: str, value: Any) -> str:
    if isinstance(value, list):
        return f"[ {', '.join(_scalar(name, one) for one in value)} ]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and name not in _BARE:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return str(value)


def parse_pbtxt(text: str) -> dict[str, Any]:
    """A message in text format as plain values; a field given several times becomes a list.

    Enumerations stay words. A list of one is indistinguishable from a single value unless it was written in
    brackets. Raises InvalidRequest with the line for text that is none.
    """
    tokens = _Tokens(text)
    return _message(tokens, "", 0)


class _Tokens:
    """The words of a text, one ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found = self._read()
        self._place = 0
        self.next = next(self._found)

    def take(self) -> tuple[str, str]:
        """The word at hand; then the next one is."""
        taken, self.next = self.next, ("end", "")
        if taken[0] != "end":
            self.next = next(self._found)
        return taken

    def wrong(self) -> InvalidRequest:
        """The error for what stands here."""
        what = self.next[1] or "the end of the file"
        return InvalidRequest(f"config.pbtxt cannot be read: line {self._line()} has {what!r} out of place.")

    def _line(self) -> int:
        return self._text.count("\n", 0, self._place) + 1

    def _read(self) -> Iterator[tuple[str, str]]:
        place = 0
        while match := _TOKEN.match(self._text, place):
            place = match.end()
            self._place = match.start(match.lastgroup or 0)
            yield str(match.lastgroup), match[match.lastgroup or 0]
        rest = re.sub(r"\#[^\n]*", "", self._text[place:]).strip()
        if rest:
            self._place = place
            raise InvalidRequest(f"config.pbtxt cannot be read: line {self._line()} has {rest[:20]!r}.")
        yield "end", ""


def _message(tokens: _Tokens, closing: str, depth: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    while tokens.next[1] != closing or tokens.next[0] == "string":
        if tokens.next[0] != "word":
            raise tokens.wrong()
        name = tokens.take()[1]
        if tokens.next == ("mark", ":"):
            tokens.take()
        _add(fields, name, _value(tokens, depth))
        while tokens.next in (("mark", ","), ("mark", ";")):
            tokens.take()
        if tokens.next[0] == "end" and closing:
            raise tokens.wrong()
    tokens.take()
    return fields


def _value(tokens: _Tokens, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise InvalidRequest("config.pbtxt cannot be read: its blocks are nested too deeply.")
    kind, word = tokens.next
    if (kind, word) == ("mark", "["):
        return _list(tokens, depth)
    if kind == "mark" and word in "{<":
        tokens.take()
        return _message(tokens, "}" if word == "{" else ">", depth + 1)
    if kind == "string":
        return _strings(tokens)
    if kind == "number":
        return _number(tokens.take()[1])
    if kind == "word":
        tokens.take()
        return {"true": True, "false": False}.get(word, word)
    raise tokens.wrong()


def _list(tokens: _Tokens, depth: int) -> list[Any]:
    tokens.take()
    values: list[Any] = []
    while tokens.next != ("mark", "]"):
        values.append(_value(tokens, depth + 1))
        if tokens.next == ("mark", ","):
            tokens.take()
        elif tokens.next != ("mark", "]"):
            raise tokens.wrong()
    tokens.take()
    return values


def _strings(tokens: _Tokens) -> str:
    """Strings side by side are one."""
    parts = []
    while tokens.next[0] == "string":
        parts.append(re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), tokens.take()[1][1:-1]))
    return "".join(parts)


def _number(word: str) -> int | float:
    try:
        return int(word, 0)
    except ValueError:
        return int(word) if word.lstrip("+-").isdecimal() else float(word.rstrip("f"))


def _add(fields: dict[str, Any], name: str, value: Any) -> None:
    if name not in fields:
        fields[name] = value
        return
    known = fields[name]
    fields[name] = [
        *(known if isinstance(known, list) else [known]),
        *(value if isinstance(value, list) else [value]),
    ]
