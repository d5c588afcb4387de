"""Series of Prometheus as Triton printed them: the labels that scraping added taken off again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from history.promapi import PromSeries
from history.promapi_targets import Targets
from telemetry.catalogue import CATALOGUE, Metric
from telemetry.scrape import Series

OURS = "tritonscope_"
"""Families of the exporter: scraped with honor_labels, so that nothing of them is renamed."""
_SUFFIXES = ("_count", "_sum", "_bucket")
_PREFIX = "exported_"


def catalogued(family: str) -> Metric | None:
    """The catalogue's row of a family, also of a summary's or histogram's parts; None for an unknown one."""
    row = CATALOGUE.get(family)
    if row is not None:
        return row
    return next(
        (CATALOGUE.get(family.removesuffix(suffix)) for suffix in _SUFFIXES if family.endswith(suffix)), None
    )


def label_there(targets: Targets, family: str, name: str) -> str:
    """How a label of ours is called in that Prometheus."""
    if family.startswith(OURS):
        return name
    return {"model": targets.model_label, "version": targets.version_label}.get(name, name)


def own_series(family: str, labels: Mapping[str, str], targets: Targets) -> Series:
    """The series as its server printed it."""
    row = catalogued(family)
    if row is not None:
        names: Iterable[str] = dict.fromkeys((*row.labels, "gpu_uuid", "quantile", "le"))
        own = {name: labels.get(label_there(targets, family, name), "") for name in names}
    else:
        foreign = foreign_labels(targets)
        own = {
            (name.removeprefix(_PREFIX) if name.removeprefix(_PREFIX) in foreign else name): value
            for name, value in labels.items()
            if name not in foreign
        }
    return Series(family, tuple(sorted((name, value) for name, value in own.items() if value)))


def foreign_labels(targets: Targets) -> frozenset[str]:
    """Names of labels that scraping adds there."""
    names = {name for target in targets.targets for copy in target.copies for name in copy}
    return frozenset(names | set(targets.group) | {"__name__", "job"})


def first_copies(rows: Sequence[PromSeries], targets: Targets) -> list[PromSeries]:
    """Of series that are there twice those of the first copy: raw samples of two scrapers do not mix."""
    if not targets.duplicates or not rows:
        return list(rows)

    def copy_of(one: PromSeries) -> tuple[str, ...]:
        return tuple(one.labels.get(name, "") for name in targets.duplicates)

    chosen = min(map(copy_of, rows))
    return [one for one in rows if copy_of(one) == chosen]
