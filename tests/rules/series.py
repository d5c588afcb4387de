"""Scenario files: the notation of promtool's test series, so that promtool can read the same series.

`100+2x10` is 100, 102, ... 120 (eleven values), `3x10` the value 3 eleven times, `_` a missing value and
`_x5` five of them. A series not mentioned at a tick is absent from that tick's answer. The series `up` is 1
where the server answered and 0 where it did not (then nothing else of that tick exists), and missing where
service discovery does not list the server; `http` says the
same of its HTTP API alone.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from telemetry.facts import IndexEntry, ModelState
from telemetry.located_yaml import read_located
from telemetry.objective import Objective, objectives_of
from telemetry.rule_choice import RuleChoice
from telemetry.scrape import Series
from triage.durations import parse_duration

_SERIES = re.compile(r"^(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)(?:\{(?P<labels>.*)\})?$")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
_STEP = re.compile(r"^(?P<start>-?\d+(?:\.\d+)?)(?:(?P<step>[+-]\d+(?:\.\d+)?))?(?:x(?P<count>\d+))?$")
_GAP = re.compile(r"^_(?:x(?P<count>\d+))?$")

UP = Series("up", ())
"""1 where the server answered, 0 where it did not."""
HTTP = Series("http", ())
"""1 where its HTTP API answered, 0 where only its metrics page did."""

START = 1_800_000_000.0
"""Unix time of tick 0 of every scenario."""


def values_of(text: str) -> list[float | None]:
    """The values of one promtool series text, None where there is none."""
    values: list[float | None] = []
    for word in text.split():
        if gap := _GAP.match(word):
            values += [None] * int(gap["count"] or 1)
        elif step := _STEP.match(word):
            start, slope = float(step["start"]), float(step["step"] or 0)
            values += [start + slope * tick for tick in range(int(step["count"] or 0) + 1)]
        else:
            raise ValueError(f"{word!r} is not promtool's series notation")
    return values


def series_of(text: str) -> Series:
    """`name{label="value"}` as a series."""
    match = _SERIES.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a series")
    return Series(match["name"], tuple(sorted(_LABEL.findall(match["labels"] or ""))))


@dataclass(frozen=True)
class Expectation:
    """What must be said at `at_seconds`; findings as `Rule severity subject`, in order of harm.

    `sentences` are those of the first findings, `follows` what is folded under the first one. `alerts` is
    what fires in Prometheus a reading or two later, or at `alerts_at_seconds`.
    """

    at_seconds: float
    findings: tuple[str, ...]
    sentences: tuple[str, ...] | None
    follows: tuple[str, ...] | None
    since_seconds: float | None
    verdict: str | None
    unjudged: tuple[str, ...] | None
    alerts: tuple[str, ...]
    alerts_at_seconds: float | None


@dataclass(frozen=True)
class Scenario:
    """One situation: series by tick, the index and configs beside them, and what must be found.

    `indexes` are the states by server. `app_only` says why Prometheus cannot be asked, "" where it can.
    """

    name: str
    interval_seconds: float
    series: Mapping[str, Mapping[Series, Sequence[float | None]]]
    indexes: Mapping[str, Mapping[str, Sequence[tuple[str, str]]]]
    configs: Mapping[str, Mapping[str, Any]]
    workload: str
    window_seconds: float
    expect: tuple[Expectation, ...]
    quiet: bool
    app_only: str
    records: tuple[Mapping[str, Any], ...] = ()
    """What was done through the app: `at`, `kind`, `model`, `outcome`, `sentence`."""
    probes: tuple[Mapping[str, Any], ...] = ()
    """Test requests: `at`, `model`, `cause` ("" if it went well), `sentence`."""
    stubs: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Living processes by `model/version`, by tick."""
    choices: Mapping[str, RuleChoice] = field(default_factory=dict)
    objectives: tuple[Objective, ...] = ()

    @property
    def config_ticks(self) -> set[int]:
        """Readings at which a configuration is another one than before."""
        return {change["tick"] for raw in self.configs.values() for change in raw.get("later", ())}

    def config_at(self, server: str, name: str, tick: int) -> dict[str, Any]:
        """A model's configuration then and there: `later` lists changes, `servers` what differs on one."""
        raw = dict(self.configs[name])
        later, on = raw.pop("later", ()), raw.pop("servers", {})
        raw |= on.get(server, {})
        for change in later:
            if change["tick"] <= tick:
                raw |= {key: value for key, value in change.items() if key != "tick"}
        return raw

    @property
    def has_exporter(self) -> bool:
        """True if there is anything that only the exporter tells Prometheus."""
        names = (series for rows in self.series.values() for series in rows)
        ours = any(series.name.startswith("tritonscope_") or series == HTTP for series in names)
        return ours or bool(self.indexes or self.configs)

    @property
    def ticks(self) -> int:
        """Number of readings."""
        lengths = [len(values) for rows in self.series.values() for values in rows.values()]
        states = [len(column) for index in self.indexes.values() for column in index.values()]
        return max([*lengths, *states])

    def listed(self, server: str, tick: int) -> bool:
        """True if there is such a server at the time: where `up` is missing it is not listed (any more)."""
        up = self.series[server].get(UP)
        return up is None or (tick < len(up) and up[tick] is not None)

    def index_at(self, server: str, tick: int) -> tuple[IndexEntry, ...] | None:
        """The repository index as the server tells it, None if it is not asked."""
        if server not in self.indexes:
            return None
        return tuple(
            IndexEntry(*_named(key), ModelState(states[tick][0]), states[tick][1])
            for key, states in self.indexes[server].items()
            if tick < len(states) and states[tick][0] != "_"
        )


@functools.cache
def load_scenarios(path: Path) -> tuple[Scenario, ...]:
    """Every scenario of one file."""
    text = path.read_text(encoding="utf-8")
    data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    choices = {name: RuleChoice(name, True) for name in data.get("enable", ())}
    located = read_located(text, path.name)[0] if "slo" in data else None
    objectives, wrong = objectives_of(path.name, ((located.entries if located else None) or {}).get("slo"))
    assert not wrong, wrong
    return tuple(
        replace(_scenario(row, parse_duration(data["interval"])), choices=choices, objectives=objectives)
        for row in data["scenarios"]
    )


def _scenario(row: Mapping[str, Any], interval_seconds: float) -> Scenario:
    servers: dict[str, dict[Series, Sequence[float | None]]] = {}
    for item in row.get("series", ()):
        series = series_of(item["series"])
        server = series.label("instance") or "saved"
        bare = Series(series.name, tuple(pair for pair in series.labels if pair[0] != "instance"))
        servers.setdefault(server, {})[bare] = values_of(str(item["values"]))
    return Scenario(
        name=row["name"],
        interval_seconds=parse_duration(row["interval"]) if "interval" in row else interval_seconds,
        series=servers or {"saved": {}},
        indexes=_indexes(row.get("index", {}), list(servers) or ["saved"]),
        configs=row.get("configs", {}),
        workload=row.get("workload", ""),
        window_seconds=parse_duration(row.get("window", "1m")),
        expect=tuple(_expectation(one) for one in row.get("expect", ())),
        quiet=bool(row.get("quiet", False)),
        app_only=row.get("app_only", ""),
        records=tuple(row.get("records", ())),
        probes=tuple(row.get("probes", ())),
        stubs={
            name: [count for count, times in rows for _ in range(times)]
            for name, rows in row.get("stubs", {}).items()
        },
    )


def _indexes(
    rows: Mapping[str, Any], servers: Sequence[str]
) -> dict[str, dict[str, Sequence[tuple[str, str]]]]:
    """States by server; a key is `model/version`, or `server@model/version` for one server only."""
    found: dict[str, dict[str, Sequence[tuple[str, str]]]] = {}
    for key, states in rows.items():
        server, at, name = key.rpartition("@")
        for one in [server] if at else servers:
            found.setdefault(one, {})[name] = _states(states)
    return found


def _named(key: str) -> tuple[str, str]:
    name, _, version = key.partition("/")
    return name, version


def _states(rows: Sequence[Sequence[Any]]) -> list[tuple[str, str]]:
    return [(row[0], row[2] if len(row) > 2 else "") for row in rows for _ in range(int(row[1]))]


def _one(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else (text,)


def _expectation(row: Mapping[str, Any]) -> Expectation:
    return Expectation(
        parse_duration(row["at"]),
        tuple(row["findings"]),
        tuple(row["sentences"]) if "sentences" in row else _one(row.get("sentence")),
        tuple(row["follows"]) if "follows" in row else None,
        parse_duration(row["since"]) if "since" in row else None,
        row.get("verdict"),
        tuple(row["unjudged"]) if "unjudged" in row else None,
        # Alerts are not folded: what follows from a finding fires as well.
        tuple(row.get("alerts", (*row["findings"], *row.get("follows", ())))),
        parse_duration(row["alerts_at"]) if "alerts_at" in row else None,
    )
