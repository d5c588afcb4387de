"""The request of the form as commands to copy: curl, Python, perf_analyzer."""

from __future__ import annotations

import streamlit as st

import runtime
from control.request_code import Code, curl, perf_analyzer
from control.request_script import python_script
from ui.html import div
from ui.panel import panel
from ui.test_request import Prepared

CURL, PYTHON, PERF = "curl", "Python", "perf_analyzer"
_LANGUAGES = {CURL: "bash", PYTHON: "python", PERF: "bash"}
_MAKERS = {CURL: curl, PYTHON: python_script, PERF: perf_analyzer}


def section(prepared: Prepared) -> None:
    """A fold with the request as code; a copy button stands in its corner."""
    with st.expander("As code"):
        server = None
        if prepared.request is not None:
            wanted = prepared.request.server
            server = next((one for one in runtime.current().servers if one.id == wanted), None)
        if prepared.request is None or server is None:
            panel(div("There is no request yet that could be sent.", class_="ts-faint"), key="code_words")
            return
        kinds = [PYTHON, PERF] if prepared.request.way.over_grpc else [CURL, PYTHON, PERF]
        kind = st.segmented_control(
            "As", kinds, default=kinds[0], required=True, key=f"code kind {prepared.request.way.over_grpc}",
            label_visibility="collapsed",
        )  # fmt: skip
        code = _MAKERS[kind](server, prepared.config, prepared.steps)
        st.code(
            code.text, language=_LANGUAGES[kind], wrap_lines=True, height=320 if _long(code) else "content"
        )
        _files(code)
        if server.headers_for("inference"):
            words = "Header values are read from the environment: they are not shown here."
            panel(div(words, class_="ts-more"), key="code_headers")


def _long(code: Code) -> bool:
    return len(code.text) > 1200 or code.text.count("\n") > 16


def _files(code: Code) -> None:
    if not code.files:
        return
    panel(div("It needs these files beside it:", class_="ts-more"), key="code_files")
    with st.container(horizontal=True):
        for name, data in code.files.items():
            st.download_button(
                name, data, name, "application/octet-stream", key=f"code file {name}", on_click="ignore"
            )
