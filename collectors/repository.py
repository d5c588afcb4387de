"""Source INDEX: `POST /v2/repository/index`, the state of every model version the repository knows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from collectors.reading import OneCall, Reading, base_url, decode_json, mapping, words, wrong_shape
from telemetry.facts import IndexEntry, ModelState
from telemetry.identity import Server
from telemetry.scrape import Notice, Samples, Series, Source
from telemetry.transport import Transport, host_of

SOURCE_NAME = "repository index"
_STATES = {
    state.value: state
    for state in (ModelState.LOADING, ModelState.READY, ModelState.UNLOADING, ModelState.UNAVAILABLE)
}


class IndexCollector(OneCall):
    """Reads the repository index; the payload is a tuple of `IndexEntry`."""

    source = Source.INDEX

    def _read(self) -> Reading:
        text = _ask(self.server, self._transport, self._timeout_seconds)
        entries, notices = _parsed(self.server, text)
        return Reading(entries, index_samples(entries), notices, text)


def read_index(
    server: Server, transport: Transport, timeout_seconds: float
) -> tuple[tuple[IndexEntry, ...], tuple[Notice, ...]]:
    """The index now; raises SourceError."""
    return _parsed(server, _ask(server, transport, timeout_seconds))


def _ask(server: Server, transport: Transport, timeout_seconds: float) -> str:
    return transport.post(base_url(server) + "/v2/repository/index", timeout_seconds=timeout_seconds).text


def _parsed(server: Server, text: str) -> tuple[tuple[IndexEntry, ...], tuple[Notice, ...]]:
    who = host_of(base_url(server))
    return parse_index(decode_json(text, who), who=who)


def parse_index(
    data: object, *, who: str = "the file", source: str = SOURCE_NAME
) -> tuple[tuple[IndexEntry, ...], tuple[Notice, ...]]:
    """Entries and what was wrong; raises WrongContent if the answer is no list (gRPC: `{"models": [...]}`).

    An entry without state is NEVER_LOADED (or its configuration was rejected: Triton does not tell them
    apart); a state name that is new to us is UNKNOWN, with a notice.
    """
    data = mapping(data).get("models", data)
    if not isinstance(data, list):
        raise wrong_shape(who, "a repository index (a list)", data)
    entries: list[IndexEntry] = []
    notices: list[Notice] = []
    for position, row in enumerate(map(mapping, data), 1):
        name, printed = words(row.get("name")), words(row.get("state"))
        if not name:
            notices.append(Notice(source, None, f"entry {position} has no model name: not used"))
            continue
        state = _state(printed, words(row.get("reason")))
        if state is ModelState.UNKNOWN:
            notices.append(Notice(source, None, f"model {name}: state {printed!r} is not known here"))
        entries.append(IndexEntry(name, words(row.get("version")), state, words(row.get("reason"))))
    return tuple(entries), tuple(notices)


def _state(printed: str, reason: str) -> ModelState:
    if printed:
        return _STATES.get(printed.upper(), ModelState.UNKNOWN)
    # A name found in two repositories comes without a version but with a reason: it cannot be loaded.
    return ModelState.UNAVAILABLE if reason else ModelState.NEVER_LOADED


def index_samples(entries: Sequence[IndexEntry]) -> Samples:
    """`tritonscope_model_state{model,state,version}` = 1 for each entry."""
    series = tuple(
        dict.fromkeys(
            Series(
                "tritonscope_model_state",
                (("model", entry.name), ("state", entry.state.value), ("version", entry.version)),
            )
            for entry in entries
        )
    )
    return Samples(series, np.ones(len(series)))
