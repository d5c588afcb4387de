"""An incident: everything a process knew of its servers over a range of time, taken at one moment.

`take` gathers it, `triage.incident_file` writes and reads it, `triage.incident_replay` lets it be looked at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata

from history.alerts import AlertsSeen
from history.config_book import ConfigBook, KnownConfig
from history.drift import Drift
from history.events import EventLog, EventState
from history.memory_changes import MemoryChange
from history.memory_ledger import MemoryLedger
from history.protocol import History
from history.ring import Ring, RingState
from history.tape import Taped
from signals.advice_book import AdviceBook, Given
from telemetry.actions import Record
from telemetry.errors import SettingsError
from telemetry.facts import ModelConfig
from telemetry.identity import ModelKey, Server
from telemetry.masking import Mask, parameter_values, without_parameter_values
from telemetry.objective import Objective
from telemetry.rule_choice import RuleChoice
from telemetry.scrape import Scrape, Source
from triage.context import ServerCoverage
from triage.figures import Watch
from triage.happenings import ProbeResult, Probes
from triage.rulebook import RULES

FORMAT = 1
"""Number of the file format; a file with a higher one is not read."""
_STEADY_TRIES = 5


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a process keeps what an incident is made of. `secrets` are texts that must not leave it."""

    watch: Watch
    ring: Ring
    events: EventLog
    configs: ConfigBook
    memory: MemoryLedger
    drifts: Callable[[], Mapping[ModelKey, Drift]]
    probes: Probes
    records: Callable[[], Sequence[Record]]
    coverage: Callable[[], Sequence[ServerCoverage]]
    choices: Mapping[str, RuleChoice] = field(default_factory=dict)
    objectives: tuple[Objective, ...] = ()
    distant: History | None = None
    secrets: tuple[str, ...] = ()
    alerts: Callable[[], AlertsSeen] = AlertsSeen
    advice: AdviceBook = field(default_factory=AdviceBook)


@dataclass(frozen=True, slots=True)
class ServerRow:
    """One server as the file names it: no headers, no certificates, no user info in addresses."""

    id: str
    http_url: str | None
    metrics_url: str | None
    workload: str = ""
    match: tuple[tuple[str, str], ...] = ()
    expected_server_name: str | None = None
    grpc_url: str | None = None

    def server(self) -> Server:
        """The server; nothing may be written to it."""
        return Server(
            self.id,
            self.http_url,
            self.metrics_url,
            workload=self.workload,
            match=self.match,
            expected_server_name=self.expected_server_name,
            grpc_url=self.grpc_url,
        )


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the file is. Times are unix seconds: the numbers cover `start` to `captured_at`.

    `interval_seconds` lies between two readings, `intervals` by server; `window_seconds` is that of rates.
    `triton` are versions by server, `rules` a digest of the rules that judged, `notes` what was left out.
    """

    format: int
    tritonscope: str
    rules: str
    captured_at: float
    start: float
    window_seconds: float
    interval_seconds: float
    fresh_seconds: float
    intervals: Mapping[str, float]
    servers: tuple[ServerRow, ...]
    triton: Mapping[str, str] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
    objectives: tuple[Objective, ...] = ()
    choices: Mapping[str, RuleChoice] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """What was known besides numbers; configurations by (server, model).

    `drifts` as they were judged: whoever opens the file has neither the models' files nor masked values.
    """

    events: EventState
    configs: Mapping[tuple[str, str], KnownConfig]
    memory: tuple[MemoryChange, ...]
    records: tuple[Record, ...]
    probes: tuple[ProbeResult, ...]
    coverage: tuple[ServerCoverage, ...]
    alerts: AlertsSeen = field(default_factory=AlertsSeen)
    advice: tuple[Given, ...] = ()
    drifts: Mapping[ModelKey, Drift] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident. `taped` are answers of Prometheus that findings rest on."""

    manifest: Manifest
    ring: RingState
    facts: Facts
    taped: tuple[Taped, ...] = ()


@dataclass(frozen=True, slots=True)
class Taken:
    """An incident as it was taken, what to mask in it, and whom to ask for what lies before the ring."""

    incident: Incident
    mask: Mask
    distant: History | None


def take(
    sources: Sources,
    at: float,
    *,
    minutes: float | None = None,
    sees: Callable[[str], bool] = lambda _server: True,
    details: Callable[[str], bool] = lambda _server: True,
) -> Taken:
    """Everything of the last `minutes` before `at` (unix seconds), None = all that is held.

    Only servers that `sees` has; who did something and why only for those that `details` has.
    Raises SettingsError if there is no such server, or nothing was read of one.
    """
    servers = [one for one in sources.watch.servers if sees(one.id)]
    ids = [one.id for one in servers]
    since = float("-inf") if minutes is None else at - minutes * 60.0
    since = max(since, 0.0)
    ring, facts = _steady(sources, ids, since, details)
    if not ring.banks:
        raise SettingsError("there is nothing to capture: no server was read yet")
    everything = len(ids) == len(sources.watch.servers)
    manifest = _manifest(sources, servers, at, _start(ring, at), facts, everything)
    return Taken(
        Incident(manifest, ring, facts), _mask(sources, ring, facts), sources.distant if everything else None
    )


def rules_digest() -> str:
    """A short name of the rules as they are: equal rules judge equally."""
    digest = hashlib.sha256()
    for path in sorted(RULES.glob("*.md")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def product_version() -> str:
    """The installed version, "checkout" where it runs from its source."""
    try:
        return metadata.version("tritonscope")
    except metadata.PackageNotFoundError:
        return "checkout"


def _steady(
    sources: Sources, ids: Collection[str], since: float, details: Callable[[str], bool]
) -> tuple[RingState, Facts]:
    """Numbers and facts of one moment: taken again if a reading came in between."""
    for _ in range(_STEADY_TRIES):
        revision = sources.ring.revision
        ring, facts = sources.ring.state(ids, since), _facts(sources, ids, since, details)
        if sources.ring.revision == revision:
            break
    return ring, facts


def _facts(sources: Sources, ids: Collection[str], since: float, details: Callable[[str], bool]) -> Facts:
    records = [
        _told(one, details(one.action.server))
        for one in sources.records()
        if one.action.server in ids and (one.ended_at or one.started_at) >= since
    ]
    return Facts(
        sources.events.state(ids, since),
        {key: _config_masked(one) for key, one in sources.configs.everything().items() if key[0] in ids},
        tuple(one for one in sources.memory.changes() if one.mark.server in ids and one.mark.ended >= since),
        tuple(records),
        tuple(one for one in sources.probes.results().values() if one.server in ids),
        tuple(one for one in sources.coverage() if one.server in ids),
        sources.alerts() if len(ids) == len(sources.watch.servers) else AlertsSeen(),
        tuple(one for one in sources.advice.rows() if one.key.server in ids),
        drifts={
            key: _drift_masked(one, details(key.server))
            for key, one in sources.drifts().items()
            if key.server in ids
        },
    )


def _told(record: Record, details: bool) -> Record:
    """What a file may tell of an action: never the whole configuration of an override."""
    action = replace(record.action, config=None, token="")
    if not details:
        action = replace(action, who="", how="", why="", parameters={})
        return replace(record, action=action, detail=None)
    return replace(record, action=replace(action, parameters=without_parameter_values(action.parameters)))


def _config_masked(known: KnownConfig) -> KnownConfig:
    changes = tuple(
        replace(one, before=config_without_secrets(one.before), after=config_without_secrets(one.after))
        for one in known.changes
    )
    first, now = config_without_secrets(known.first), config_without_secrets(known.now)
    return replace(known, first=first, now=now, changes=changes)


def _drift_masked(drift: Drift, details: bool) -> Drift:
    """Without values of fields that may be secret, and without who brought it for whom that is not."""
    changes = tuple(one if one.public else replace(one, before=None, after=None) for one in drift.changes)
    return replace(drift, changes=changes, who=drift.who if details else "")


def config_without_secrets(config: ModelConfig) -> ModelConfig:
    """The configuration with the values of its parameters masked."""
    return replace(config, raw=without_parameter_values(config.raw))


def _start(ring: RingState, at: float) -> float:
    firsts = [float(state.times_ms[0]) / 1e3 for _, _, state in ring.banks if len(state.times_ms)]
    return min(firsts, default=at)


def _manifest(
    sources: Sources,
    servers: Sequence[Server],
    at: float,
    start: float,
    facts: Facts,
    everything: bool,
) -> Manifest:
    watch = sources.watch
    notes = ["values of configuration parameters, headers and user info of addresses are masked"]
    if not everything:
        notes.append("servers that the person who captured it may not view are left out")
    return Manifest(
        format=FORMAT,
        tritonscope=product_version(),
        rules=rules_digest(),
        captured_at=at,
        start=start,
        window_seconds=watch.window_seconds,
        interval_seconds=watch.interval_seconds(),
        fresh_seconds=watch.fresh_seconds,
        intervals={one.id: watch.interval_seconds(one.id) for one in servers},
        servers=tuple(
            ServerRow(
                one.id,
                one.http_url,
                one.metrics_url,
                one.workload,
                one.match,
                one.expected_server_name,
                one.grpc_url,
            )
            for one in servers
        ),
        triton={one.server: one.version for one in facts.coverage if one.version},
        gone=dict(watch.gone) if everything else {},
        objectives=sources.objectives,
        choices=dict(sources.choices),
        notes=tuple(notes),
    )


def _mask(sources: Sources, ring: RingState, facts: Facts) -> Mask:
    """Credentials, and values of parameters that some text may repeat."""
    secrets = {*sources.secrets, *(value for one in sources.watch.servers for value in one.header_values)}
    names = {one.id for one in sources.watch.servers} | {server for server, _ in facts.configs}
    for config in _configs(ring.last, sources.configs.everything().values()):
        secrets |= parameter_values(config.raw)
        names |= {config.name, config.backend, config.platform}
        names |= {step.model_name for step in config.ensemble_steps}
    for _, _, state in ring.banks:
        for series in state.series:
            names |= {value for label, value in series.labels if label in ("model", "gpu_uuid", "version")}
    return Mask(secrets, names)


def _configs(scrapes: Iterable[Scrape], known: Iterable[KnownConfig]) -> Iterable[ModelConfig]:
    for scrape in scrapes:
        if scrape.source is Source.CONFIG and isinstance(scrape.payload, Mapping):
            yield from (one for one in scrape.payload.values() if isinstance(one, ModelConfig))
    for one in known:
        yield from (one.first, one.now)
