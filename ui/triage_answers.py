"""The questions of the night about one model, each answered in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import runtime
from signals.capacity import answer
from telemetry.actions import ActionKind, new_token
from telemetry.facts import ModelState
from telemetry.identity import ModelKey
from telemetry.memory import CPU
from telemetry.units import Unit, human, human_duration
from triage.change_points import LEAD_SECONDS
from triage.origin import origin
from ui.capacity import device_name, instances
from ui.confirm_facts import Asked, last_request, stop_too
from ui.findings import began
from ui.format import counted, moment, since
from ui.html import Child, Html, join, link, tag
from ui.memory_view import devices
from ui.model_answer import answer_of
from ui.model_panels import section
from ui.own_requests import others_per_second, own_share, share_words
from ui.triage_changes import changes_of, step_words, why_words
from ui.triage_happened import happened
from ui.view import View

SOMEBODY = 3
"""So many failures within a window are not our own golden requests: there is one a minute at most."""


@dataclass(frozen=True, slots=True)
class _Answer:
    question: str
    words: Child


def answers(view: View, key: ModelKey) -> Html:
    """The section: a question and its answer a line."""
    told = [
        _what(view, key),
        _whose(view, key),
        _before(view, key),
        _unload(view, key),
        *_fits(view, key),
    ]
    rows = [(tag("dt", one.question), tag("dd", one.words)) for one in told]
    return section(f"About {key.label()}", tag("dl", rows, class_="ts-questions"), note=f"on {key.server}")


def _what(view: View, key: ModelKey) -> _Answer:
    found = view.findings_about(key)
    sentence, _ = answer_of(view, key)
    if not found:
        return _Answer("What is wrong with it, since when?", f"Nothing by the rules: {sentence}")
    when = join(" It is so ", began(found[0], view.now), ".")
    return _Answer("What is wrong with it, since when?", join(sentence, when))


def _whose(view: View, key: ModelKey) -> _Answer:
    facts = view.facts(key)
    config = facts.config if facts is not None else None
    told = origin(key.name, view.figures(key), config, view.findings_about(key))
    return _Answer("Is it the server or the clients?", told.sentence)


def _before(view: View, key: ModelKey) -> _Answer:
    """The newest change of its figures, and what was done just before."""
    question = "What changed before?"
    found = changes_of(view, key)
    start, end = view.range
    done = happened(view, start - LEAD_SECONDS, end)
    if found:
        newest = found[-1]
        steps = "; ".join(step_words(signal, point) for signal, point in newest.points.items())
        return _Answer(
            question, join(steps, " ", since(newest.after, view.now), ". ", why_words(newest, done))
        )
    mine = [one for one in done if one.done.server == key.server and one.done.model in ("", key.name)]
    if not mine:
        return _Answer(
            question, "Nothing: no lasting step in its figures, and nothing was done to it or its server."
        )
    newest_done = mine[0]
    return _Answer(
        question,
        join(
            "No lasting step in its figures. The last thing that was done: ",
            newest_done.done.text,
            f" ({human_duration(view.now - newest_done.at)} ago, at ",
            moment(newest_done.at),
            ").",
        ),
    )


# ---- may I unload it?


def _unload(view: View, key: ModelKey) -> _Answer:
    return _Answer("May I unload it?", join(*_unload_words(view, key)))


def _unload_words(view: View, key: ModelKey) -> Iterator[Child]:
    asked = Asked(ActionKind.UNLOAD, key.server, key.name, new_token())
    versions = [one for one in view.inventory.models if (one.key.server, one.key.name) == key_of(key)]
    if versions and all(one.state not in (ModelState.READY, None) for one in versions):
        yield f"It is not loaded on {key.server}: there is nothing to unload."
        return
    if (age := view.stale_seconds(key.server)) is not None:
        yield f"That cannot be told: {key.server} is silent, its figures are {human_duration(age)} old."
        return
    rows = [row for row in view.report.models if (row.key.server, row.key.name) == key_of(key)]
    rates = [rate for row in rows if (rate := row.signals.number("requests_per_second")) is not None]
    failed = sum(row.signals.number("failures_total") or 0.0 for row in rows)
    window = view.report.window_seconds
    stopping = stop_too(view, asked)
    asked_last = last_request(versions, view.now)
    share = own_share(view, key.server, key.name)
    nobody, busy = "nobody asks for it", sum(rates)
    if share is not None:
        asked_last += f"; {share_words(share, view.now)}"
        nobody, busy = "nobody but Tritonscope asks for it", others_per_second(view, key, share, busy)
    if not rates:
        yield f"That cannot be told: its requests are not reported ({asked_last})."
    elif busy > 0:
        ours = f" ({share_words(share, view.now)})" if share is not None else ""
        yield (
            f"No, it is in use: {human(busy, Unit.NONE)} requests/s now on {key.server}{ours}. They would be "
            "answered with an error (404)."
        )
    elif window and failed >= SOMEBODY:
        rate = human(failed / window, Unit.NONE)
        yield f"No: {rate} requests/s for it fail now on {key.server}, so somebody asks for it."
    elif stopping:
        itself = nobody.replace(" for it", " for it itself")
        yield f"Not alone: {itself} now ({asked_last}), but ensembles use it."
    else:
        yield f"Yes: {nobody} now on {key.server} ({asked_last}), and no ensemble uses it."
    yield from (f" {one}" for one in stopping)
    if not stopping and busy > 0:
        yield " No ensemble uses it."
    yield from _elsewhere(view, key)
    yield " "
    yield link("Its actions", "repository", view.filters.params(model=key.name))


def key_of(key: ModelKey) -> tuple[str, str]:
    """Server and name: an unload means all versions."""
    return key.server, key.name


def _elsewhere(view: View, key: ModelKey) -> Iterator[str]:
    """Replicas that go on serving it."""
    process = runtime.current()
    mine = process.server(key.server)
    if mine is None or not mine.workload:
        return
    mates = {one.id for one in process.servers if one.workload == mine.workload and one.id != key.server}
    others = {
        one.key.server
        for one in view.inventory.models
        if one.key.name == key.name and one.key.server in mates and one.state is ModelState.READY
    }
    if others:
        yield f" {counted(len(others), 'replica')} of {mine.workload} would go on serving it."
    else:
        yield f" No other replica of {mine.workload} has it."


# ---- what fits?


def _fits(view: View, key: ModelKey) -> Iterator[_Answer]:
    """What is free on the devices of its server, and whether one more instance of it goes in."""
    question = "What fits in the memory that is left?"
    known = [device for device in devices(view) if device.server == key.server]
    gpus = [device for device in known if device.device != CPU]
    holding = [device for device in known if any(one.key == key for one in device.models)]
    shown = [*gpus, *(device for device in holding if device not in gpus)]
    if not shown:
        yield _Answer(question, join("No memory of a device of this server is reported. ", _capacity(view)))
        return
    words: list[Child] = []
    for device in shown[:4]:
        name = device_name(device, several=False)
        free = human(device.free_bytes, Unit.BYTES) if device.free_bytes is not None else ""
        total = human(device.total_bytes, Unit.BYTES)
        words.append(
            f"{name[:1].upper()}{name[1:]}: {free} of {total} are free"
            if free
            else f"{name[:1].upper()}{name[1:]}: what is free is not reported"
        )
        mine = [one for one in instances(device, view) if one.holding.key == key]
        if mine and device.free_bytes is not None:
            told = answer(mine[0].need, device.free_bytes)
            words.append(f"; one more instance of {key.label()} {told.fit.value} (it {told.sentence})")
        words.append(". ")
    yield _Answer(question, join(*words, _capacity(view)))


def _capacity(view: View) -> Html:
    return link("What else fits?", "capacity", view.filters.params())
