"""Which models there are: the union of repository index, statistics and metrics, because each alone lies.

The index does not list models injected by a file override, the statistics only list READY versions, and
on the metrics page failure series outlive their model and custom series prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from collectors.exposition import MetricsPage
from history.ring import Ring, Sighting
from telemetry.catalogue import MODEL_FAMILIES
from telemetry.facts import IndexEntry, ModelConfig, ModelState, ModelStatistics, ServerMetadata
from telemetry.identity import ModelKey, version_number
from telemetry.scrape import Source

GONE_SECONDS = 3600.0
"""How long a model that is in no answer any more stays in the list."""

NAMING_FAMILIES = tuple(name for name in MODEL_FAMILIES if name != "nv_inference_request_failure")
"""Families whose series prove that a model is there; failure series survive the unload of their model."""

_MODEL = ("model", "version")
_Row = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model version of one server and what is known about it besides numbers over time.

    `state` is None when no repository index was read. `since` is the unix time at which the state began,
    None if that was before the history; `state_at` the time of the answer that told the state.
    `instance_count` is None for an ensemble or without a configuration. `sources` are those whose last
    answer had the model.
    """

    key: ModelKey
    state: ModelState | None = None
    reason: str = ""
    since: float | None = None
    state_at: float | None = None
    config: ModelConfig | None = None
    statistics: ModelStatistics | None = None
    ensemble: bool = False
    instance_count: int | None = None
    sources: frozenset[Source] = frozenset()

    @property
    def failed(self) -> bool:
        """It could not be loaded: UNAVAILABLE for a reason other than a wanted unload."""
        return self.state is ModelState.UNAVAILABLE and self.reason not in ("", "unloaded")

    @property
    def gone(self) -> bool:
        """It was there within the last hour and is in no source's last answer."""
        return self.state is ModelState.GONE

    @property
    def queues_itself(self) -> bool:
        """Its backend queues and batches inside itself: decoupled models, vLLM, TensorRT-LLM."""
        return self.config is not None and self.config.queues_itself


@dataclass(frozen=True, slots=True)
class Inventory:
    """All models of some servers at one moment, sorted by server, name and version."""

    models: tuple[ModelFacts, ...]
    metadata: Mapping[str, ServerMetadata] = field(default_factory=dict)
    servers: tuple[str, ...] = ()
    index_read: frozenset[str] = frozenset()
    """Servers whose repository index was read at least once."""

    @classmethod
    def of(cls, ring: Ring, servers: Iterable[str], gone: Mapping[str, float] | None = None) -> Inventory:
        """The inventory of these server ids as far as the ring has seen them.

        `gone` are servers that nobody asks any more, with the unix time at which they went: their models went
        with them.
        """
        ids = tuple(servers)
        found = [facts for server in ids for facts in _Reading(ring, server).models()]
        for server, at in (gone or {}).items():
            found += (_went(facts, at) for facts in _Reading(ring, server).models())
        models = sorted(found, key=lambda one: one.key)
        return cls(
            tuple(models),
            {server: payload for server in ids if (payload := _metadata(ring, server)) is not None},
            ids,
            frozenset(server for server in ids if ring.last(server, Source.INDEX) is not None),
        )

    def get(self, key: ModelKey) -> ModelFacts | None:
        """One model's facts, None if it is not known."""
        return next((facts for facts in self.models if facts.key == key), None)

    def of_server(self, server: str) -> tuple[ModelFacts, ...]:
        """The models of one server."""
        return tuple(facts for facts in self.models if facts.key.server == server)


def _went(facts: ModelFacts, at: float) -> ModelFacts:
    since = facts.since if facts.gone else at
    return replace(facts, state=ModelState.GONE, reason="", since=since, state_at=since, sources=frozenset())


def _metadata(ring: Ring, server: str) -> ServerMetadata | None:
    scrape = ring.last(server, Source.METADATA)
    return scrape.payload if scrape is not None and isinstance(scrape.payload, ServerMetadata) else None


class _Reading:
    """What the last answers of one server say, before it is put together."""

    def __init__(self, ring: Ring, server: str) -> None:
        self._server = server
        self._index = _payload(ring, server, Source.INDEX)
        self._configs = _configs(ring, server)
        self._statistics = {(one.name, one.version): one for one in _statistics(ring, server)}
        self._metrics = {
            row: seen
            for row, seen in ring.sightings(server, Source.METRICS, NAMING_FAMILIES, _MODEL).items()
            # A series that lost its labels on the way names no model.
            if row[0]
        }
        page = ring.last(server, Source.METRICS)
        payload = page.payload if page is not None else None
        self._cut_off = isinstance(payload, MetricsPage) and payload.cut_off
        self._states = ring.sightings(server, Source.INDEX, ("tritonscope_model_state",), (*_MODEL, "state"))
        scrape = ring.last(server, Source.INDEX)
        self._index_at = None if scrape is None else scrape.at
        span = ring.span()
        self._now = span[1] if span else 0.0

    def models(self) -> Iterator[ModelFacts]:
        rows = self._present()
        self._join_ensembles(rows)
        named = {name for name, version in rows if version}
        for (name, _version), facts in rows.items():
            # An entry without version beside a version that serves says nothing of its own.
            if facts.key.version or name not in named:
                yield facts
        yield from self._gone(rows)

    def _present(self) -> dict[_Row, ModelFacts]:
        rows: dict[_Row, ModelFacts] = {}
        for entry in self._index:
            rows[entry.name, entry.version] = self._from_index(entry)
        for row in self._statistics:
            rows[row] = self._seen(rows.get(row), row, Source.STATISTICS)
        for name, version in (row for row, seen in self._metrics.items() if seen.present):
            rows[name, version] = self._seen(rows.get((name, version)), (name, version), Source.METRICS)
        return rows

    def _from_index(self, entry: IndexEntry) -> ModelFacts:
        sighting = self._states.get((entry.name, entry.version, str(entry.state)))
        since = sighting.since if sighting is not None and sighting.present else None
        facts = self._plain((entry.name, entry.version))
        return replace(
            facts,
            state=entry.state,
            reason=entry.reason,
            since=since,
            state_at=self._index_at,
            sources=frozenset((Source.INDEX,)),
        )

    def _seen(self, known: ModelFacts | None, row: _Row, source: Source) -> ModelFacts:
        facts = known if known is not None else self._unlisted(row, source)
        return replace(facts, sources=facts.sources | {source})

    def _unlisted(self, row: _Row, source: Source) -> ModelFacts:
        """A model the index does not list: statistics only have READY ones, metrics do not say."""
        facts = self._plain(row)
        if self._index_at is None:
            return facts
        state = ModelState.READY if source is Source.STATISTICS else ModelState.UNKNOWN
        return replace(facts, state=state, state_at=self._index_at)

    def _plain(self, row: _Row) -> ModelFacts:
        name, version = row
        config = self._configs.get(name)
        return ModelFacts(
            ModelKey(self._server, name, version),
            config=config,
            statistics=self._statistics.get(row),
            ensemble=config is not None and config.ensemble,
            instance_count=None if config is None else config.instance_count,
        )

    def _join_ensembles(self, rows: dict[_Row, ModelFacts]) -> None:
        """An ensemble's series are labelled version 1 whatever its version: that row is not another model."""
        for name in {name for (name, _), facts in rows.items() if facts.ensemble}:
            mine = {row: facts for row, facts in rows.items() if row[0] == name}
            listed = [row for row, facts in mine.items() if facts.sources & {Source.INDEX, Source.STATISTICS}]
            chosen = max(
                listed or mine, key=lambda row: (rows[row].state is ModelState.READY, version_number(row[1]))
            )
            for row, facts in mine.items():
                if facts.sources == {Source.METRICS} and row != chosen:
                    rows[chosen] = replace(rows[chosen], sources=rows[chosen].sources | {Source.METRICS})
                    del rows[row]

    def _gone(self, rows: dict[_Row, ModelFacts]) -> Iterator[ModelFacts]:
        names = {name for name, _ in rows}
        ensembles = {name for name, config in self._configs.items() if config.ensemble}
        last: dict[_Row, float] = {}
        for row, seen in self._all_sightings():
            joined = row[0] in names and (row[0] in ensembles or not row[1])
            if row not in rows and not joined and self._now - seen.last <= GONE_SECONDS:
                last[row] = max(seen.last, last.get(row, 0.0))
        named = {name for name, version in last if version}
        for (name, version), at in last.items():
            if version or name not in named:
                facts = self._plain((name, version))
                # On a page that was cut off a model may only have stood further down.
                gone = not self._cut_off or (name, version) not in self._metrics
                yield replace(facts, state=ModelState.GONE, since=at, state_at=at) if gone else facts

    def _all_sightings(self) -> Iterator[tuple[_Row, Sighting]]:
        for key, seen in self._metrics.items():
            yield (key[0], key[1]), seen
        for key, seen in self._states.items():
            yield (key[0], key[1]), seen


def _payload(ring: Ring, server: str, source: Source) -> Sequence[IndexEntry]:
    scrape = ring.last(server, source)
    payload = scrape.payload if scrape is not None else None
    return (
        [one for one in payload if isinstance(one, IndexEntry)] if isinstance(payload, list | tuple) else []
    )


def _statistics(ring: Ring, server: str) -> Sequence[ModelStatistics]:
    scrape = ring.last(server, Source.STATISTICS)
    payload = scrape.payload if scrape is not None else None
    if not isinstance(payload, list | tuple):
        return []
    return [one for one in payload if isinstance(one, ModelStatistics)]


def _configs(ring: Ring, server: str) -> dict[str, ModelConfig]:
    scrape = ring.last(server, Source.CONFIG)
    payload = scrape.payload if scrape is not None else None
    if not isinstance(payload, Mapping):
        return {}
    return {one.name: one for one in payload.values() if isinstance(one, ModelConfig)}
