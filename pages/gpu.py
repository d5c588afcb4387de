"""What fills the GPUs, and how busy are they?"""

import streamlit as st

from ui import shell
from ui.gpu_charts import GpuCharts
from ui.gpu_panels import gpu_cards, gpu_level, gpu_sentence, host, memory_bar, model_memory, without_gpus
from ui.header import header
from ui.live import live
from ui.panel import panel
from ui.plot import figure
from ui.view import View

shell.guard()


def page() -> None:
    view = View.take()
    cards = gpu_cards(view)
    header(view, gpu_sentence(cards, view), gpu_level(cards))
    if not cards:
        panel(without_gpus(view), key="no_gpu")
    charts = GpuCharts(view, cards)
    for place, card in enumerate(cards):
        bar, course = st.columns([4, 5])
        with bar:
            panel(memory_bar(card, view), key=f"bar_{place}")
        with course:
            figure(charts.memory(card), key=f"memory_{place}", group="gpu")
    if cards:
        for column, spec in zip(st.columns(2), (charts.utilization(), charts.power()), strict=True):
            with column:
                figure(spec, key=spec.title, group="gpu")
    left, right = st.columns(2)
    with left:
        panel(model_memory(view), key="model_memory")
    with right:
        panel(host(view.report.host), key="host")


live(page, name="gpu")
