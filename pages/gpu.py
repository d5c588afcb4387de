"""What fills the GPUs, and how busy are they?"""

import streamlit as st

from telemetry.memory import CPU
from ui import shell
from ui.gpu_charts import GpuCharts
from ui.gpu_panels import (
    gpu_cards,
    gpu_level,
    gpu_sentence,
    growth,
    host,
    machine_memory,
    memory_bar,
    other_gpus,
    untold,
    without_gpus,
)
from ui.header import header
from ui.live import live, slot
from ui.memory_view import devices, growths
from ui.panel import panel
from ui.plot import figure
from ui.view import View

shell.guard()


def page() -> None:
    view = View.take()
    known = devices(view)
    machines = [one for one in known if one.device == CPU]
    cards = gpu_cards(view, known)
    header(view, gpu_sentence(cards, view), gpu_level(cards))
    with slot():
        if not cards:
            panel(without_gpus(view), key="no_gpu")
    with slot():
        grown = growth(growths(view), view)
        if grown is not None:
            panel(grown, key="growth")
    charts = GpuCharts(view, cards)
    for place, card in enumerate(cards):
        bar, course = st.columns(2)
        with bar:
            panel(memory_bar(card, view), key=f"bar_{place}")
        with course:
            figure(charts.memory(card), key=f"memory_{place}", group="gpu")
    if cards:
        for column, spec in zip(st.columns(2), (charts.utilization(), charts.power()), strict=True):
            with column:
                figure(spec, key=spec.title, group="gpu")
    shown = {card.figures.key.uuid for card in cards}
    others = [one for one in known if one.device != CPU and one.device not in shown]
    left, right = st.columns(2)
    with left:
        panel(
            other_gpus(view, others), machine_memory(view, machines), untold(view, known), key="model_memory"
        )
    with right:
        for place, one in enumerate(one for one in machines if one.models):
            figure(charts.machine(one), key=f"machine_{place}", group="gpu")
        panel(host(view.report.host), key="host")


live(page, name="gpu")
