"""Sentence templates of rules: names in braces, parts in brackets that vanish when a name is not reported.

    {model} waits {queue_us_mean} in the queue[: batches are {batch_size_mean} of {max_batch_size}].

`{pending:waiting request}` counts a noun. Numbers are printed with their unit by `telemetry.units.human`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from telemetry.units import Unit, human, human_duration
from triage.conditions import Reference, parse_reference
from triage.vocabulary import Level

PLAIN_NAMES = ("model", "server", "held")
"""Names every template may use besides quantities: who it is about, and how long it has held."""

_TOKEN = re.compile(r"\{[^{}]*\}|\[|\]|[^\[\]{}]+|[{}]")

Lookup = Callable[[Reference], float | str | None]


@dataclass(frozen=True, slots=True)
class Field:
    """One name in braces: a quantity, or one of PLAIN_NAMES; `noun` is counted when it is not ""."""

    plain: str
    reference: Reference | None
    noun: str


Part = str | Field


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template; a tuple inside `parts` is a part that may vanish."""

    text: str
    parts: tuple[Part | tuple[Part, ...], ...]

    def fields(self) -> Iterator[Field]:
        """Every name in braces."""
        for part in self.parts:
            for inner in part if isinstance(part, tuple) else (part,):
                if isinstance(inner, Field):
                    yield inner

    def known(self, names: Mapping[str, str], lookup: Lookup) -> bool:
        """True if every name outside brackets is reported: a statement without its number is none."""
        outside = (part for part in self.parts if not isinstance(part, tuple))
        return all(_text(part, names, lookup) is not None for part in outside)

    def fill(self, names: Mapping[str, str], lookup: Lookup) -> str:
        """The sentence. A name that is not reported reads "–" outside brackets, and drops its brackets."""
        out: list[str] = []
        for part in self.parts:
            if isinstance(part, tuple):
                texts = [_text(inner, names, lookup) for inner in part]
                out.extend(text for text in texts if text is not None) if None not in texts else None
            else:
                out.append(_text(part, names, lookup) or "–")
        return "".join(out)


def parse_template(text: str, level: Level) -> Template:
    """Parse and check every name; ValueError with a sentence for an unknown name or an open bracket."""
    parts: list[Part | tuple[Part, ...]] = []
    optional: list[Part] | None = None
    for token in _TOKEN.findall(" ".join(text.split())):
        if token == "[" and optional is None:
            optional = []
        elif token == "]" and optional is not None:
            parts.append(tuple(optional))
            optional = None
        elif token in ("[", "]", "{", "}"):
            raise ValueError(f"the brackets of {text!r} do not match")
        else:
            part = _field(token[1:-1], level) if token.startswith("{") else token
            (parts if optional is None else optional).append(part)
    if optional is not None:
        raise ValueError(f"the brackets of {text!r} do not match")
    return Template(text, tuple(parts))


def _field(text: str, level: Level) -> Field:
    name, _, noun = text.partition(":")
    if name in PLAIN_NAMES:
        return Field(name, None, noun)
    return Field("", parse_reference(name, level), noun)


def _text(part: Part, names: Mapping[str, str], lookup: Lookup) -> str | None:
    if isinstance(part, str):
        return part
    if part.reference is None:
        return names.get(part.plain)
    value = lookup(part.reference)
    if value is None or isinstance(value, str):
        return value or None
    unit, value = part.reference.quantity.unit, part.reference.told(value)
    number = human_duration(value) if unit is Unit.SECONDS else human(value, unit)
    return counted(number, part.noun) if part.noun else number


def counted(number: str, noun: str) -> str:
    """`1 waiting request`, `3 waiting requests`."""
    return f"{number} {noun}" if number == "1" else f"{number} {noun}s"
