"""What is judged: one report, the history behind it, the facts about models and servers, and the time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from history.inventory import Inventory, ModelFacts
from history.protocol import History
from signals.evaluate import frozen_models
from signals.facts import SignalFacts
from signals.report import ModelSignals, Report, ServerSignals
from telemetry.facts import ModelState
from telemetry.identity import ModelKey
from telemetry.objective import Objective
from telemetry.reasons import reason_class, reason_line
from telemetry.rule_choice import RuleChoice
from telemetry.scrape import Source
from triage.happenings import Happenings

Subject = ModelKey | str
"""Who a rule speaks about: a model, or a server by its id."""
Fact = float | str | None
"""A number in the unit the vocabulary gives, a word, or not reported."""
INTERVALS_PER_WINDOW = 4
"""A window never spans fewer readings than this, as far as the history reaches back: one may be late or
missing. Where none is, two readings are enough."""


@dataclass(frozen=True, slots=True)
class ServerCoverage:
    """How well one server can be seen.

    `answering`: at least one source answered its last reading. `age_seconds` since any source answered,
    None = never; `silent_seconds` from that answer (or the first attempt) to the newest attempt, None
    while it answers. `sentence` why it does not answer, "" while it does. `failed_sources`: the sources whose
    last reading failed, with the sentence, among `asked_sources`.
    `http_age_seconds` since its HTTP API last answered, None = never. `workload` "" = the server alone.
    """

    server: str
    answering: bool
    age_seconds: float | None
    sentence: str = ""
    workload: str = ""
    version: str = ""
    failed_sources: Mapping[Source, str] = field(default_factory=dict)
    asked_sources: frozenset[Source] = frozenset()
    http_age_seconds: float | None = None
    silent_seconds: float | None = None


@dataclass(frozen=True)
class Context:
    """Everything `triage.engine.judge` looks at; nothing in it changes while it is judged.

    `now` unix seconds of the judgement (ages count to it), `report.at` the time of the figures.
    `interval_seconds` between two readings. `history_from` unix seconds of the oldest reading, None if
    there is none. `choices` is what the settings say about rules, by name, `objectives`
    the service level objectives they name, `happenings` what happened besides numbers.
    `distant` reaches further back than `history` and answers at once; None where there is nothing but it.
    `evenly_read`: readings lie exactly `interval_seconds` apart and none is missing, as saved answers do.
    `ended`: no further reading will come, so what was recorded for too short a time is told as that.
    """

    report: Report
    history: History
    inventory: Inventory
    coverage: Sequence[ServerCoverage]
    now: float
    interval_seconds: float
    history_from: float | None
    choices: Mapping[str, RuleChoice] = field(default_factory=dict)
    objectives: tuple[Objective, ...] = ()
    happenings: Happenings = field(default_factory=Happenings)
    distant: History | None = None
    evenly_read: bool = False
    ended: bool = False

    @cached_property
    def facts_of(self) -> Mapping[ModelKey, ModelFacts]:
        """Facts by model."""
        return {facts.key: facts for facts in self.inventory.models}

    @cached_property
    def signal_facts(self) -> SignalFacts:
        """What expressions must know about models."""
        frozen = frozen_models(self.history, self.inventory, self.report.at)
        return SignalFacts.of(self.inventory, frozenset(frozen))

    @cached_property
    def coverage_of(self) -> Mapping[str, ServerCoverage]:
        """Coverage by server id."""
        return {one.server: one for one in self.coverage}

    @cached_property
    def model_signals(self) -> Mapping[ModelKey, ModelSignals]:
        """Figures by model."""
        return {row.key: row for row in self.report.models}

    @cached_property
    def server_signals(self) -> Mapping[str, ServerSignals]:
        """Figures by server id."""
        return {row.server: row for row in self.report.servers}

    @cached_property
    def model_keys(self) -> tuple[ModelKey, ...]:
        """Every model that is in the report or in the inventory, without those that are gone."""
        keys = dict.fromkeys((*self.model_signals, *self.facts_of))
        return tuple(key for key in keys if self.state(key) is not ModelState.GONE)

    @cached_property
    def versions(self) -> Mapping[tuple[str, str], int]:
        """Number of versions by (server, model name)."""
        counts: dict[tuple[str, str], int] = {}
        for key in self.model_keys:
            counts[key.server, key.name] = counts.get((key.server, key.name), 0) + 1
        return counts

    @cached_property
    def ready_versions(self) -> Mapping[tuple[str, str], int]:
        """READY versions by (workload, model name), over all replicas."""
        counts: dict[tuple[str, str], int] = {}
        for key in self.model_keys:
            if self.state(key) is ModelState.READY:
                where = (self.workload(key.server), key.name)
                counts[where] = counts.get(where, 0) + 1
        return counts

    @cached_property
    def replicas(self) -> Mapping[tuple[str, str, str], tuple[ModelKey, ...]]:
        """The same model version on all servers of a workload, by (workload, model, version)."""
        found: dict[tuple[str, str, str], list[ModelKey]] = {}
        for key in self.model_keys:
            found.setdefault((self.workload(key.server), key.name, key.version), []).append(key)
        return {where: tuple(keys) for where, keys in found.items()}

    @cached_property
    def ready_on_server(self) -> Mapping[tuple[str, str], int]:
        """READY versions by (server, model name)."""
        counts: dict[tuple[str, str], int] = {}
        for key in self.model_keys:
            if self.state(key) is ModelState.READY:
                counts[key.server, key.name] = counts.get((key.server, key.name), 0) + 1
        return counts

    def state(self, key: ModelKey) -> ModelState | None:
        """State by the repository index, None when no index was read."""
        facts = self.facts_of.get(key)
        if facts is not None and facts.state is not None:
            return facts.state
        row = self.model_signals.get(key)
        return row.state if row else None

    def workload(self, server: str) -> str:
        """The set of replicas the server belongs to; without one, the server itself."""
        one = self.coverage_of.get(server)
        return (one.workload if one else "") or server

    def label(self, key: ModelKey) -> str:
        """Name of a model in sentences; with its version only where there are several."""
        return key.label() if self.versions.get((key.server, key.name), 1) > 1 else key.name


_PARENTHESES = re.compile(r"\s*\([^)]*\)")


def short_error(sentence: str) -> str:
    """The reason alone: `host:port is not reachable: connection refused` -> `connection refused`."""
    plain = _PARENTHESES.sub("", sentence).strip().removesuffix(".")
    if (mark := "is not reachable: ") in plain:
        return plain.rsplit(mark, 1)[1]
    first, _, rest = plain.partition(" ")
    return rest if ":" in first and rest else plain


def failure_reason(row: ModelSignals | None) -> str | None:
    """The reason most of the window's failures have, CANCELED left out; None without reasons."""
    by_reason = row.signals.mapping("failures_by_reason") if row else None
    counted = {
        reason: count for reason, count in (by_reason or {}).items() if reason and reason != "CANCELED"
    }
    top = max(counted, key=lambda reason: counted[reason], default=None)
    return top if top is not None and counted[top] > 0 else None


def reason_text(facts: ModelFacts) -> str | None:
    """The readable line of a load failure, None without a reason."""
    return reason_line(facts.reason) or None if facts.reason else None


def reason_kind(facts: ModelFacts) -> str | None:
    """The class of a load failure, None without a reason."""
    return reason_class(facts.reason).value if facts.reason else None
