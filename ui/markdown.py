"""The little Markdown that runbooks are written in, as markup: everything in it is escaped first."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ui.html import Child, Html, join, tag

_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\([^)]*\)")
_ITEM = re.compile(r"^(?:[-*]|(\d+)\.) +(.*)$")


def markdown(source: str) -> Html:
    """Paragraphs, lists, code, bold; of a link its text."""
    return join(*_blocks(source))


def _blocks(source: str) -> Iterator[Html]:
    for block in re.split(r"\n\s*\n", source.strip()):
        lines = block.splitlines()
        if lines and _ITEM.match(lines[0]):
            numbered = _ITEM.match(lines[0])[1] is not None
            yield tag("ol" if numbered else "ul", [tag("li", inline(item)) for item in _items(lines)])
        elif block:
            yield tag("p", inline(" ".join(line.strip() for line in lines)))


def _items(lines: list[str]) -> list[str]:
    """Items of a list; a line that begins none goes on with the one before."""
    found: list[str] = []
    for line in lines:
        item = _ITEM.match(line)
        if item is not None:
            found.append(item[2])
        else:
            found[-1] += f" {line.strip()}"
    return found


def inline(line: str) -> Html:
    """Code and bold of one line; of a link its text."""
    parts: list[Child] = []
    place = 0
    for found in _INLINE.finditer(line):
        code, bold, linked = found.groups()
        parts.append(line[place : found.start()])
        parts.append(tag("code", code) if code else tag("b", bold) if bold else linked)
        place = found.end()
    return join(*parts, line[place:])
