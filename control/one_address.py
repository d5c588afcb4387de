"""Is one server behind an address? Asked over connections of their own just before anything is changed.

The app's other connections stay open and so always lead to the same server, also where a load balancer sends
every new connection, and with it every action, to another one.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from typing import Any

from telemetry.errors import NotAllowed, SourceError
from telemetry.identity import Server
from telemetry.transport import Transport

PROBES = 6
CALL_SECONDS = 2.0
REMEMBER_SECONDS = 600.0

Counts = dict[tuple[str, str], int]


class OneAddress:
    """Refuses what would reach one of several servers by chance, and remembers it for ten minutes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str | None, tuple[float, str]] = {}

    def doubt(self, server: Server | None) -> str:
        """Why nothing is sent to its address now, "" if nothing speaks against it."""
        if server is None:
            return ""
        with self._lock:
            at, sentence = self._found.get(server.http_url, (0.0, ""))
        return sentence if sentence and time.monotonic() - at < REMEMBER_SECONDS else ""

    def check(self, server: Server) -> None:
        """Ask the address several times; raises NotAllowed if two servers answered."""
        why = difference(*_answers(server))
        if why:
            sentence = (
                f"Refused: two servers answer at the address of {server.id} in turn ({why}), so that nobody "
                "can say which one an action would reach. Give each replica its own address in the settings."
            )
            with self._lock:
                self._found[server.http_url] = (time.monotonic(), sentence)
            raise NotAllowed(f"{sentence} Nothing was sent.")


def difference(names: Sequence[str], counts: Sequence[Counts]) -> str:
    """Why these answers, in their order, come from two servers; "" if they can come from one.

    A counter that falls and is back where it was was another server's in between: a reload leaves it low.
    """
    known = sorted(set(names))
    if len(known) > 1:
        return f"it calls itself {' and '.join(known)}"
    for key in sorted({key for one in counts for key in one}):
        values = [one[key] for one in counts if key in one]
        highest = -1
        fell = False
        for value in values:
            if fell and value >= highest:
                return f"the requests it counted for {key[0]} fall and rise"
            fell = fell or value < highest
            highest = max(highest, value)
    return ""


def _answers(server: Server) -> tuple[list[str], list[Counts]]:
    """Names and counts as so many new connections tell them; a server that does not answer tells nothing."""
    names: list[str] = []
    counts: list[Counts] = []
    for _ in range(PROBES):
        # A connection of its own each time: that is what a load balancer decides about. Both questions go
        # over it, so that a balancer that takes turns cannot send one kind always to the same server.
        transport = Transport(server, timeout_seconds=CALL_SECONDS)
        try:
            names.append(_name(_json(transport.get(f"{server.http_url}/v2").text)))
            counts.append(_counts(_json(transport.get(f"{server.http_url}/v2/models/stats").text)))
        except SourceError:
            break
        finally:
            transport.close()
    return [name for name in names if name], counts


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _name(metadata: Any) -> str:
    if not isinstance(metadata, dict):
        return ""
    return " ".join(str(metadata[key]) for key in ("name", "version") if metadata.get(key))


def _counts(statistics: Any) -> Counts:
    rows = statistics.get("model_stats") if isinstance(statistics, dict) else None
    found: Counts = {}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("execution_count"), int):
            found[str(row.get("name")), str(row.get("version"))] = row["execution_count"]
    return found
