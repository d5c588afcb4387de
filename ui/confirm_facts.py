"""What a person must know before saying yes: the traffic now, and what follows."""

from __future__ import annotations

from dataclasses import dataclass

import runtime
from history.inventory import ModelFacts
from telemetry.actions import ActionKind
from telemetry.ensembles import dependents, missing_steps, steps
from telemetry.facts import ModelConfig, ModelState
from telemetry.identity import ModelKey
from telemetry.units import Unit, human, human_duration
from ui.drift import drift_of_model
from ui.format import clock, counted
from ui.html import Html, tag
from ui.own_requests import others_per_second, own_share, share_words
from ui.person import me
from ui.view import View


@dataclass(frozen=True, slots=True)
class Asked:
    """One question on the screen. Its token makes the click that follows be sent once."""

    kind: ActionKind
    server: str
    model: str
    token: str


def facts(view: View, asked: Asked) -> list[Html]:
    """What a person must know before saying yes: traffic now, and what follows."""
    lines = [traffic(view, asked), *_consequences(view, asked)]
    return [tag("p", line, style="margin:.15rem 0 .5rem") for line in lines if line]


def traffic(view: View, asked: Asked) -> str:
    """How much the model is used now: requests/s, waiting ones and the last one."""
    if asked.kind is ActionKind.LOAD and asked.model not in _ready(view, asked.server):
        return f"{asked.model} is not loaded on {asked.server}: it gets no traffic now."
    rows = [row for row in view.report.models if _same(row.key, asked)]
    rates = [rate for row in rows if (rate := row.signals.number("requests_per_second")) is not None]
    waiting = [count for row in rows if (count := row.signals.number("pending")) is not None]
    parts = [
        f"{human(sum(rates), Unit.NONE)} requests/s" if rates else "requests/s not reported",
        f"{human(sum(waiting), Unit.NONE)} waiting" if waiting else "waiting requests not reported",
        last_request(_of(view, asked), view.now),
    ]
    return f"Traffic now on {asked.server}: {', '.join(parts)}.{_golden(view, asked)}"


def _golden(view: View, asked: Asked) -> str:
    """How many requests of our own are among those counted: Triton does not tell whose they are."""
    process = runtime.current()
    share = own_share(view, asked.server, asked.model)
    if share is not None:
        words = share_words(share, view.now)
        return f" {words[:1].upper()}{words[1:]}."
    if process.golden is None or (asked.server, asked.model) not in process.probes.results():
        return ""
    minutes = process.golden.every_minutes(asked.server)
    often = "minute" if minutes == 1 else f"{minutes or 0:g} min"
    return f" Its golden request is among them, one every {often}." if minutes else ""


def last_request(models: list[ModelFacts], now: float) -> str:
    """When the last request was executed, over all versions: `last request 40 s ago`."""
    times = [one.statistics.last_inference_ms for one in models if one.statistics is not None]
    known = [at for at in times if at]
    if known:
        return f"last request {human_duration(now - max(known) / 1e3)} ago"
    return "no request since it was loaded" if any(at == 0 for at in times) else "last request not reported"


def _consequences(view: View, asked: Asked) -> list[str]:
    if asked.kind is ActionKind.UNLOAD:
        return [*stop_too(view, asked), _AFTER_UNLOAD, *_lost_override(asked)]
    if asked.kind is ActionKind.RELOAD:
        return [_RELOAD, *_kept_override(asked)]
    if asked.kind is ActionKind.REVERT:
        return [*_what_comes_back(asked), _REVERT, *stop_too(view, asked, back=True)]
    missing = missing_steps(_config(view, asked), _ready(view, asked.server))
    with_it = f" Its steps {', '.join(missing)} are loaded with it." if missing else ""
    return [f"The server reads it from its repository and serves it when the load has ended well.{with_it}"]


_AFTER_UNLOAD = (
    "Requests under way and in the queue are finished; new ones are answered with an error (404) until it is "
    "loaded again. A restart of the server may load it again: what it loads at its start is its own setting."
)
_RELOAD = (
    "It is loaded again: changed files and settings are taken up while the running version serves on. "
    "If nothing changed on disk, the server does nothing; if the new files do not load, the old one stays."
)
_REVERT = (
    "It is unloaded and loaded again: a plain load would keep the override, since no file has changed. "
    "Requests under way and in the queue are finished; new ones are answered with an error (404) until it is "
    "back. If its files do not load, it stays unloaded."
)


def _what_comes_back(asked: Asked) -> list[str]:
    drift = drift_of_model(asked.server, asked.model)
    if drift is None:
        return ["No difference from its files is known: it may come back as it is."]
    return [f"{drift.words(clock)}."]


def _lost_override(asked: Asked) -> list[str]:
    drift = drift_of_model(asked.server, asked.model)
    return [] if drift is None else ["It runs with an override, which is lost: see its mark in the table."]


def _kept_override(asked: Asked) -> list[str]:
    if drift_of_model(asked.server, asked.model) is None:
        return []
    return [
        "It runs with an override, which a reload keeps while no file changes: revert it to get its files."
    ]


def stop_too(view: View, asked: Asked, *, back: bool = False) -> list[str]:
    """The ensembles that stop with the model, with the requests they get now."""
    configs = {
        one.key.name: one.config
        for one in view.inventory.models
        if one.key.server == asked.server and one.config is not None
    }
    using = dependents(asked.model, configs, _ready(view, asked.server))
    after = " and come back with it" if back else ""
    return [
        f"{name} uses this model and will stop too{after}{_rate(view, asked.server, name)}." for name in using
    ]


def _rate(view: View, server: str, model: str) -> str:
    rows = [row for row in view.report.models if (row.key.server, row.key.name) == (server, model)]
    rates = [rate for row in rows if (rate := row.signals.number("requests_per_second")) is not None]
    share = own_share(view, server, model)
    if share is not None and others_per_second(view, ModelKey(server, model, ""), share, sum(rates)) == 0:
        return " (asked by nobody but Tritonscope now)"
    return f" ({human(sum(rates), Unit.NONE)} requests/s now)" if rates else ""


def brought_steps(view: View, asked: Asked) -> tuple[str, ...]:
    """The steps an ensemble to be unloaded may take with it."""
    return steps(_config(view, asked)) if asked.kind is ActionKind.UNLOAD else ()


def replicas(asked: Asked) -> tuple[str, list[str]]:
    """The workload of the question's server and its replicas that have the model, the asked one first."""
    process, person = runtime.current(), me()
    mine = next((one for one in process.servers if one.id == asked.server), None)
    if mine is None or not mine.workload:
        return "", [asked.server]
    having = {
        one.key.server
        for one in process.inventory().models
        if one.key.name == asked.model and (asked.kind is ActionKind.LOAD or one.state is ModelState.READY)
    }
    others = [
        one.id
        for one in process.servers
        if one.workload == mine.workload
        and one.id != asked.server
        and one.id in having
        and one.http_url is not None
        and person.sees(one.id)
    ]
    return mine.workload, [asked.server, *sorted(others)]


def _ready(view: View, server: str) -> set[str]:
    return {
        one.key.name
        for one in view.inventory.models
        if one.key.server == server and one.state is ModelState.READY
    }


def _of(view: View, asked: Asked) -> list[ModelFacts]:
    return [one for one in view.inventory.models if _same(one.key, asked)]


def _config(view: View, asked: Asked) -> ModelConfig | None:
    return next((one.config for one in _of(view, asked) if one.config is not None), None)


def _same(key: ModelKey, asked: Asked) -> bool:
    return key.server == asked.server and key.name == asked.model


def ready_words(ready: int, known: int) -> str:
    """`7 of 8 models are loaded`, `All 8 models are loaded`."""
    if ready == known:
        return f"All {counted(known, 'model')} are loaded" if known > 1 else "The only model is loaded"
    return f"{ready} of {counted(known, 'model')} {'is' if known == 1 else 'are'} loaded"
