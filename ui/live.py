"""Parts of a page that refresh by themselves, without running the rest of the page again."""

from __future__ import annotations

import logging
from collections.abc import Callable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from telemetry.errors import TritonscopeError
from ui import filters
from ui.html import div, tag
from ui.panel import panel

_LOG = logging.getLogger(__name__)


def slot() -> DeltaGenerator:
    """A place for what is there at times only: `with slot(): if ...`.

    Without it all that follows would move by one place when it comes or goes, and until the drawing has ended
    the browser shows what moved twice.
    """
    return st.container()


def live(body: Callable[[], None], *, name: str, otherwise: Callable[[], None] | None = None) -> None:
    """Draw `body` now and again at every refresh the reader chose; once only while paused.

    `body` takes no arguments and reads the filters itself. `name` is unique on the page. An error in it
    becomes a sentence in its place, or what `otherwise` draws; the other parts of the page go on.
    """

    def guarded() -> None:
        drawn(body, name=name, otherwise=otherwise)

    # Streamlit tells fragments apart by their qualified names.
    guarded.__qualname__ = f"live.{name}"
    st.fragment(guarded, run_every=filters.current().refresh_seconds)()


def drawn(body: Callable[[], None], *, name: str, otherwise: Callable[[], None] | None = None) -> None:
    """Draw `body` once; an error in it becomes a sentence in its place, or what `otherwise` draws."""
    try:
        body()
    except TritonscopeError as error:
        _failed(name, error.sentence)
    except Exception:  # noqa: BLE001 - the last stop before a traceback would reach the reader
        _LOG.exception("drawing %s failed", name)
        if otherwise is not None:
            otherwise()
        else:
            _failed(name, "This part could not be drawn; the app's log has the details.")


def _failed(name: str, sentence: str) -> None:
    panel(div(tag("b", "Not available"), tag("p", sentence), class_="ts-empty"), key=f"failed_{name}")
