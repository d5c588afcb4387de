"""YAML whose values know their line, read so that a broken entry costs that entry and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from telemetry.scrape import Notice

MAX_NODES = 20_000
"""Aliases can make a short text as large as one likes; beyond this it is refused."""

_ITEM = re.compile(r"^( *)-(?:[ \t]|$)")
Plain = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Located:
    """One value and the 1-based line it begins on; one of `entries`, `items`, `scalar` says which it is.

    `entries` is a mapping, `items` a list, both None for a scalar. `key_lines` has each key's line.
    """

    line: int
    scalar: Plain = None
    entries: dict[str, Located] | None = None
    items: list[Located] | None = None
    key_lines: dict[str, int] = field(default_factory=dict)


def read_located(text: str, source: str) -> tuple[Located | None, tuple[Notice, ...]]:
    """The document (None if nothing of it can be read) and what was wrong, with line numbers.

    If the text as a whole is not YAML, it is read block by block: every top-level key, and every item of a
    top-level list, on its own. A block that cannot be read is left out whole: nothing of it may end up in
    its neighbour.
    """
    notices: list[Notice] = []
    try:
        return _read_block(text, 0, source, notices), tuple(notices)
    except yaml.YAMLError:
        notices.clear()
    entries: dict[str, Located] = {}
    lines: dict[str, int] = {}
    for block, offset in _top_blocks(text):
        read = _read_tolerantly(block, offset, source, notices)
        for key, value in (read.entries or {}).items() if read else ():
            if key in entries:
                notices.append(_twice(source, value.line, key, lines[key]))
                continue
            entries[key], lines[key] = value, value.line
    root = Located(1, entries=entries, key_lines=lines) if entries else None
    return root, tuple(sorted(notices, key=lambda notice: notice.line or 0))


def _read_tolerantly(block: str, offset: int, source: str, notices: list[Notice]) -> Located | None:
    """A top-level block; if it is broken and holds a list, item by item."""
    try:
        return _read_block(block, offset, source, notices)
    except yaml.YAMLError as error:
        key, items = _split_items(block)
        if key is None or len(items) < 2:
            notices.append(_syntax_notice(error, offset, source))
            return None
    found: list[Located] = []
    for text, start in items:
        try:
            read = _read_block(text, offset + start, source, notices)
        except yaml.YAMLError as error:
            notices.append(_syntax_notice(error, offset + start, source))
            continue
        found.extend((read.items or []) if read else [])
    line = offset + 1
    return Located(line, entries={key: Located(line, items=found)}, key_lines={key: line})


def _read_block(text: str, offset: int, source: str, notices: list[Notice]) -> Located | None:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        return None if node is None else _Converter(loader, offset, source, notices).convert(node, ())
    finally:
        loader.dispose()


def _top_blocks(text: str) -> Iterator[tuple[str, int]]:
    """(text, index of its first line) of each part that begins at the left margin."""
    block: list[str] = []
    start = 0
    for index, line in enumerate(text.split("\n")):
        begins = bool(line) and line[0] not in " \t#-\r" and not line.startswith("---")
        if begins and block:
            yield "\n".join(block), start
            block, start = [], index
        block.append(line)
    if block:
        yield "\n".join(block), start


def _split_items(block: str) -> tuple[str | None, list[tuple[str, int]]]:
    """Key of a block that holds a list, and (text, index of its first line) of every item."""
    lines = block.split("\n")
    head = next((index for index, line in enumerate(lines) if line and line[0] not in " \t#-\r"), None)
    if head is None or not re.fullmatch(r"[A-Za-z_][\w-]*:\s*(#.*)?", lines[head]):
        return None, []
    starts = [index for index, line in enumerate(lines) if index > head and _ITEM.match(line)]
    if not starts:
        return None, []
    depth = min(len(line) - len(line.lstrip(" ")) for line in (lines[index] for index in starts))
    starts = [index for index in starts if len(lines[index]) - len(lines[index].lstrip(" ")) == depth]
    ends = [*starts[1:], len(lines)]
    items = [("\n".join(lines[start:end]), start) for start, end in zip(starts, ends, strict=True)]
    return lines[head].split(":")[0], items


def _syntax_notice(error: yaml.YAMLError, offset: int, source: str) -> Notice:
    mark = getattr(error, "context_mark", None) or getattr(error, "problem_mark", None)
    line = offset + (mark.line if mark is not None else 0) + 1
    problem = getattr(error, "problem", None) or "this is not YAML"
    return Notice(source, line, f"not used: {problem}")


def _twice(source: str, line: int, key: str, first: int) -> Notice:
    return Notice(source, line, f"{key} is set on line {first} already: not used")


class _Converter:
    """Nodes of one loader to located values."""

    def __init__(self, loader: yaml.SafeLoader, offset: int, source: str, notices: list[Notice]) -> None:
        self._loader = loader
        self._offset = offset
        self._source = source
        self._notices = notices
        self._count = 0

    def convert(self, node: yaml.Node, above: tuple[int, ...]) -> Located:
        self._count += 1
        if self._count > MAX_NODES or id(node) in above:
            raise yaml.constructor.ConstructorError(
                None, None, "too many or circular aliases", node.start_mark
            )
        line, above = self._line(node), (*above, id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, line, above)
        if isinstance(node, yaml.SequenceNode):
            return Located(line, items=[self.convert(item, above) for item in node.value])
        value = self._loader.construct_object(node)
        plain = isinstance(value, str | int | float | bool) or value is None
        return Located(line, scalar=value if plain else node.value)

    def _mapping(self, node: yaml.MappingNode, line: int, above: tuple[int, ...]) -> Located:
        own = len(node.value) - sum(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value)
        self._loader.flatten_mapping(node)
        # Flattening puts what `<<` merges in before the mapping's own keys, which win.
        merged = node.value[: len(node.value) - own]
        entries: dict[str, Located] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value[len(merged) :] + merged:
            key, at = str(getattr(key_node, "value", "")), self._line(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self._notices.append(Notice(self._source, at, "this key is not a plain word: not used"))
            elif key not in entries:
                entries[key], lines[key] = self.convert(value_node, above), at
            elif (key_node, value_node) not in merged:
                self._notices.append(_twice(self._source, at, key, lines[key]))
        return Located(line, entries=entries, key_lines=lines)

    def _line(self, node: yaml.Node) -> int:
        return self._offset + int(node.start_mark.line) + 1
