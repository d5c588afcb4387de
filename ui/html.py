"""HTML built by escaping: the only way text from a server reaches a page.

Strings given as children or attributes are escaped; only `Html`, which these functions alone make, is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from urllib.parse import urlencode


class Html(str):
    """Markup that is safe to show as it is."""

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]

_VOID = frozenset({"path", "rect", "line", "circle", "br", "img", "input", "polyline"})


def text(value: object) -> Html:
    """Any text, shown literally."""
    return Html(escape(str(value), quote=True))


def join(*children: Child, between: str = "") -> Html:
    """Children one after the other; None is left out, iterables are flattened."""
    return Html(text(between).join(_flat(children)))


def tag(name: str, *children: Child, **attributes: object) -> Html:
    """One element. `class_` is `class`, `data_tip` is `data-tip`; None and False leave an attribute out."""
    shown = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{shown}/>")
    return Html(f"<{name}{shown}>{''.join(_flat(children))}</{name}>")


def div(*children: Child, **attributes: object) -> Html:
    """A block."""
    return tag("div", *children, **attributes)


def span(*children: Child, **attributes: object) -> Html:
    """A run of text."""
    return tag("span", *children, **attributes)


def link(label: Child, page: str, params: dict[str, str], **attributes: object) -> Html:
    """A link to one of the app's pages that keeps the running session when it is clicked.

    The address works by itself too: copied, opened in a new tab, or without the script.
    """
    query = urlencode(params)
    return tag("a", label, href=f"{page}?{query}" if query else page, data_page=page, **attributes)


def copy_button(what: str, label: str = "copy") -> Html:
    """A small button that copies `what` to the clipboard."""
    return tag("button", label, class_="ts-copy", type="button", data_copy=what, aria_label=f"copy {what}")


def _flat(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, str):
            yield child if isinstance(child, Html) else text(child)
        elif isinstance(child, int | float):
            yield text(child)
        else:
            yield from _flat(child)


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{text(value)}"'
