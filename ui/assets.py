"""The scripts and the style sheet of the pages, sent once per visit of a page, never with a refresh.

Components that refresh carry only a few lines that wait for this code: Streamlit sends a component's script
again with every change of its data.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

_FOLDER = Path(__file__).parent / "assets"

WAIT = """
export default function (component) {
  window.tritonscope ??= Promise.withResolvers()
  let dispose = () => {}
  window.tritonscope.promise.then((parts) => (dispose = parts.%s(component) ?? dispose))
  return () => dispose()
}
"""
"""Script of a refreshing component: hands over to the function of this name below."""

_PROVIDE = """
export default function () {
  window.tritonscope ??= Promise.withResolvers()
  window.tritonscope.resolve({ panel, plot })
}
"""


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


_code = st.components.v2.component(
    "tritonscope_code", js=_read("panel.js") + _read("plot.js") + _PROVIDE, isolate_styles=False
)
_STYLE = f"<style>{_read('theme.css')}</style>"


def load() -> None:
    """Put the code and the style sheet into the page. Called once per full run, by the shell."""
    st.html(_STYLE)
    _code(key="tritonscope_code")


def icon() -> str:
    """The browser tab's icon: a picture of ours. Streamlit would fetch a named icon from elsewhere."""
    return str(_FOLDER / "icon.png")
