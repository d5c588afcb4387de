"""Empty states: why there is nothing to see, and what to do about it."""

from __future__ import annotations

from ui.html import Child, Html, div, tag


def empty_state(what: str, *lines: Child, todo: tuple[Child, ...] = ()) -> Html:
    """`what` is missing, `lines` say why, `todo` lists what can be done."""
    steps = tag("ul", [tag("li", step) for step in todo]) if todo else None
    return div(tag("b", what), [tag("p", line) for line in lines], steps, class_="ts-empty")
