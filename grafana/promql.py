"""What a board's query says: its variables filled in, its selectors found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import promql_parser

VARIABLE = re.compile(r"\$\{(\w+)[^}]*\}|\$([A-Za-z_]\w*)")
WINDOW = re.compile(r"\[([^\]:]+)")
BUILT_IN = {"__rate_interval": "5m", "__range": "1h", "__interval": "1m", "top": "10"}
"""Values that make a query parse; the names are Grafana's, but for `top`."""

_VALUES_OF = re.compile(r"^label_values\((.*),\s*\w+\)$", re.DOTALL)
_RESULT_OF = re.compile(r"^query_result\((.*)\)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Selector:
    """One series selector of a query and where it stands.

    `families` by name or `__name__=~`; `matchers` label -> value; `window` of a range selector, seconds;
    `over_models` inside a sum that drops the model; `of_steps` among the steps of ensembles; `functions`
    around it, the innermost last.
    """

    families: tuple[str, ...]
    matchers: Mapping[str, str]
    window_seconds: float | None = None
    over_models: bool = False
    of_steps: bool = False
    functions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    over_models: bool = False
    of_steps: bool = False
    window_seconds: float | None = None
    functions: tuple[str, ...] = ()


def variables_in(text: str) -> set[str]:
    """Names of Grafana's variables in a text."""
    return {braced or plain for braced, plain in VARIABLE.findall(text)}


def filled_in(text: str, values: Mapping[str, str]) -> str:
    """The text with values in place of variables; unknown ones become ".*"."""
    return VARIABLE.sub(lambda found: values.get(found[1] or found[2], ".*"), text)


def query_of_variable(text: str) -> str:
    """The PromQL inside `label_values(..., label)` or `query_result(...)`; the text itself otherwise."""
    for pattern in (_VALUES_OF, _RESULT_OF):
        if found := pattern.match(text):
            return found[1]
    return text


def parse(text: str) -> Any:
    """The syntax tree of a board's query; ValueError with the parser's words."""
    return promql_parser.parse(filled_in(text, BUILT_IN))


def selectors(text: str) -> list[Selector]:
    """Every selector, with the variables still in its matchers. ValueError if the query does not parse."""
    # Variables survive the parser as text in matchers; windows and numbers must be real.
    kept = VARIABLE.sub(lambda found: BUILT_IN.get(found[1] or found[2], found[0]), text)
    return [*_selectors(promql_parser.parse(kept), _Place())]


def aggregations(text: str) -> set[str]:
    """Names of the aggregations a query uses: sum, max, topk."""
    return {str(node.op) for node in _nodes(parse(text)) if isinstance(node, promql_parser.AggregateExpr)}


def _children(node: Any) -> Iterator[Any]:
    for name in ("lhs", "rhs", "expr", "param"):
        child = getattr(node, name, None)
        if isinstance(child, promql_parser.Expr):
            yield child
    yield from getattr(node, "args", ())


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in _children(node):
        yield from _nodes(child)


def _selectors(node: Any, place: _Place) -> Iterator[Selector]:
    if isinstance(node, promql_parser.MatrixSelector):
        window = node.range.total_seconds()
        yield _selector(node.vector_selector, replace(place, window_seconds=window))
    elif isinstance(node, promql_parser.VectorSelector):
        yield _selector(node, place)
    for child in _children(node):
        yield from _selectors(child, _inside(node, place))


def _inside(node: Any, place: _Place) -> _Place:
    if isinstance(node, promql_parser.AggregateExpr) and _drops_model(node):
        return replace(place, over_models=True)
    if isinstance(node, promql_parser.Call):
        steps = node.func.name == "label_replace" and getattr(node.args[1], "val", "") == "step"
        functions = (*place.functions, node.func.name)
        return replace(place, of_steps=place.of_steps or steps, functions=functions)
    return place


def _drops_model(node: Any) -> bool:
    if str(node.op) in ("topk", "bottomk"):
        return False
    modifier = node.modifier
    if modifier is None:
        return True
    listed = any("model" in label for label in modifier.labels)
    return listed is (modifier.type == promql_parser.AggModifierType.Without)


def _selector(node: Any, place: _Place) -> Selector:
    matchers = {one.name: one.value for one in node.matchers.matchers}
    named = matchers.pop("__name__", "")
    families = (node.name,) if node.name else tuple(named.split("|"))
    return Selector(
        families, matchers, place.window_seconds, place.over_models, place.of_steps, place.functions
    )
