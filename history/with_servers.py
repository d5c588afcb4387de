"""Which servers a process looks at now, and which of them is its own sandbox."""

from __future__ import annotations

from collections.abc import Mapping

from collectors.exporter_families import instance_of
from collectors.roster import Roster
from history.remote import Remote
from history.ring import Ring
from telemetry.facts import ServerMetadata
from telemetry.identity import Server
from telemetry.scrape import Source


class WithServers:
    """A process that has a roster, a ring, and maybe a Prometheus; any thread may ask."""

    roster: Roster
    ring: Ring
    remote: Remote | None

    @property
    def servers(self) -> tuple[Server, ...]:
        """The servers that are listed now, and those that Prometheus alone knows."""
        return self.roster.servers + (self.remote.followed if self.remote is not None else ())

    @property
    def gone(self) -> Mapping[str, float]:
        """Unix time at which servers went that were listed within the last hour, by id."""
        return self.roster.gone

    def server(self, server_id: str) -> Server | None:
        """The server of that id among `servers`, None if there is none."""
        return next((server for server in self.servers if server.id == server_id), None)

    def server_called(self, name: str | None) -> str | None:
        """Id of the watched server of that id, `instance` or pod; None if there is none."""
        for server in self.servers:
            if name in (server.id, instance_of(server), dict(server.match).get("pod", server.id)):
                return server.id
        return None

    def is_sandbox(self, server_id: str) -> bool:
        """True if `GET /v2` last answered with the random id this run gave its own tritonserver."""
        server = self.server(server_id)
        if server is None or server.expected_server_name is None:
            return False
        scrape = self.ring.last(server_id, Source.METADATA)
        payload = scrape.payload if scrape is not None else None
        return isinstance(payload, ServerMetadata) and payload.name == server.expected_server_name

    def _may_write_unasked(self, server_id: str) -> bool:
        """As `is_sandbox`, and it still answers so: another server may listen there after an outage."""
        latest = self.ring.latest(server_id, Source.METADATA)
        return latest is not None and latest.ok and self.is_sandbox(server_id)
