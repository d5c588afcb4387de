"""What fits: memory for another instance or model, and instances for a rate."""

import streamlit as st

from signals.advice import batcher_of
from signals.capacity import (
    PRECISION_BYTES,
    concurrency_for,
    instances_needed,
    requests_per_second,
    time_of_alone,
    weight_bytes,
)
from telemetry.units import Unit, human
from ui import capacity, shell
from ui.capacity_budget import budget_form
from ui.format import counted
from ui.header import header
from ui.html import div
from ui.live import live
from ui.memory_view import devices
from ui.model_panels import section
from ui.panel import panel
from ui.production import batch_time, observed
from ui.view import View

shell.guard()


def page() -> None:
    view = View.take()
    known = measured(view)
    names = [capacity.device_name(one, several=several(known)) for one in known]
    if names and st.session_state.get("device") not in names:
        st.session_state["device"] = names[capacity.best_device(known)]
    if len(names) > 1:
        which, _ = st.columns([3, 5])
        which.selectbox("Device", names, key="device", label_visibility="collapsed")
    live(answer, name="answer")
    if known:
        left, right = st.columns(2)
        with left:
            live(now, name="now")
        with right:
            memory_questions(chosen(known), view)
    rate_question(view)


def measured(view):
    return [one for one in devices(view) if one.total_bytes]


def several(known) -> bool:
    return len({one.server for one in known}) > 1


def chosen(known):
    wanted = st.session_state.get("device")
    named = {capacity.device_name(one, several=several(known)): one for one in known}
    return named.get(wanted) or (known[0] if known else None)


def answer() -> None:
    view = View.take()
    known = measured(view)
    device = chosen(known)
    stale = view.stale_seconds(device.server) if device is not None else None
    header(view, *capacity.sentence(device, several=several(known), stale_seconds=stale))


def now() -> None:
    view = View.take()
    panel(capacity.held(chosen(measured(view)), view), key="held")


def memory_questions(device, view) -> None:
    second, another, whole = st.tabs(["A second instance", "Another model", "The whole budget"])
    with second:
        options = capacity.instances(device, view)
        if not options:
            panel(div("No model's memory is known on this device.", class_="ts-faint"), key="second")
        else:
            model, more = st.columns([3, 1])
            label = model.selectbox("Model", [one.label for one in options], key="second_model")
            count = more.number_input("More", 1, 64, 1, key="second_count")
            one = next(one for one in options if one.label == label)
            panel(capacity.second_instance(one, int(count), device), key="second")
    with another:
        size, precision, count = st.columns(3)
        millions = size.number_input("Parameters, million", 0.0, 2e6, 110.0, key="another_parameters")
        kind = precision.selectbox("Precision", list(PRECISION_BYTES), index=2, key="another_precision")
        copies = count.number_input("Instances", 1, 64, 1, key="another_count")
        python = st.toggle(
            "A Python model: each instance is a process with a context of its own", key="another_own"
        )
        weights = weight_bytes(millions * 1e6, kind)
        panel(capacity.another_model(weights, int(copies), python, device), key="another")
    with whole:
        budget_form(device, view)


def rate_question(view) -> None:
    panel(section("Instances for a rate"), key="rate_title")
    models = capacity.batching_models(view)
    left, right = st.columns(2)
    with left:
        if not models:
            panel(div("No ready model has a queue that Triton forms.", class_="ts-faint"), key="needed")
        else:
            model_rate(view, models)
    with right:
        clients, answer = st.columns(2)
        at_once = clients.number_input("Requests at once", 1, 100_000, 16, key="qps_clients")
        millis = answer.number_input("Response time, ms", 0.01, 1e6, 20.0, key="qps_response")
        rate = requests_per_second(at_once, millis / 1e3)
        words = f"{at_once:,} at once, each {human(millis * 1e3, Unit.US)}: {human(rate, Unit.PER_SECOND)}."
        note = "QPS = concurrency / response time: the most that so many waiting clients can ask for."
        facts = models.get(st.session_state.get("rate_model")) or next(iter(models.values()), None)
        now = capacity.qps_now(facts, observed(view, facts.key)) if facts is not None else None
        panel(div(words), div(note, class_="ts-faint"), now, key="qps")


def model_rate(view, models) -> None:
    name, rate, queue = st.columns([3, 2, 2])
    facts = models[name.selectbox("Model", list(models), key="rate_model")]
    wanted = rate.number_input("Requests per second", 0.1, 1e6, 100.0, key="rate_wanted")
    millis = queue.number_input("Mean queue, ms", 0.01, 1e5, 5.0, key="rate_queue")
    time, sizes = batch_time(view, facts.key)
    config, seen = batcher_of(facts.config), observed(view, facts.key)
    rows = max(1, round(seen.rows)) if seen is not None else 1
    if time is None and not config.dynamic:
        time = time_of_alone(sizes, rows)
    if time is None:
        panel(div(capacity.untimed(config), class_="ts-faint"), key="needed")
        return
    found = instances_needed(time, config, wanted, millis * 1e3, rows=rows)
    request_us = time.us(rows) + (found.outcome.queue_us_mean if found.outcome is not None else 0.0)
    under_way = concurrency_for(wanted, request_us / 1e6)
    words = f"Under way at a time at this rate: about {counted(under_way, 'request')}."
    fits = capacity.memory_of_more(found, config, facts, measured(view), view)
    answered = capacity.needed(found, config, time, wanted, millis)
    panel(answered, fits, div(words, class_="ts-faint"), key="needed")


page()
