"""The signal reference (docs/signals.md), written from the definitions: `python -m signals.reference`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from signals.definition import Definition, Level
from signals.definitions import of_level
from signals.evaluation import Dialect
from signals.facts import FactFamily

_HEADINGS = {
    Level.MODEL: ("Of a model version", "One row per server, model and version."),
    Level.SERVER: (
        "Of a server",
        "Sums over sums of its models; a quantile is the largest of its models. Requests to an ensemble and "
        "to its steps count once: what a client sent.",
    ),
    Level.GPU: ("Of a GPU", "One row per server and GPU uuid; Triton's own families, else those of DCGM."),
    Level.HOST: ("Of the host", "As the server sees it: the whole machine, not the container."),
}
_INTRODUCTION = """# Signals

Every number that pages, charts, rules and boards show is defined once in `signals/`. This file is
written from the definitions by `make generate`; do not edit it.

A signal that was not reported is null (an en dash on a page), never 0: its family is absent, nothing
finished in the window, the model is gone, or the reading cannot be (a negative counter, more in use than
there is, a ratio above 1); a notice says which. A total is the plain increase from the first to the last
sample of the window; its PromQL is `increase()`, which extends that to the window's edges as rates do.
With one reading only, totals and means are since the server's start and figures per second are null.

`$__rate_interval` stands for the window. In PromQL an ensemble, its steps, a model's instances and
backends that queue by themselves are known by the families {facts} of the exporter.
"""


def render() -> str:
    """The whole text of docs/signals.md."""
    facts = ", ".join(f"`{family}`" for family in FactFamily)
    return _INTRODUCTION.format(facts=facts) + "".join(_level(level) for level in Level)


def _level(level: Level) -> str:
    title, text = _HEADINGS[level]
    return f"\n## {title}\n\n{text}\n" + "".join(_signal(row) for row in of_level(level))


def _signal(row: Definition) -> str:
    return "\n" + "\n".join(_lines(row)) + "\n"


def _lines(row: Definition) -> Iterator[str]:
    unit = row.unit.value or "no unit"
    yield f"### `{row.name}`"
    yield ""
    by = f", by {' and '.join(row.keys)}".replace("_", " ") if row.keys else ""
    where = "" if row.printed else " For charts only."
    yield f"{row.title}{by}, in {unit}. {row.formula[0].upper()}{row.formula[1:]}.{where}"
    if row.self_queueing:
        yield "Null for backends that queue by themselves."
    yield ""
    yield "```promql"
    yield row.promql(Dialect())
    yield "```"


if __name__ == "__main__":
    sys.stdout.write(render())
