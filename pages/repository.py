"""What is loaded, what is not and why; load, unload and reload models."""

import streamlit as st

from ui import confirm, journal, repository, several, shell
from ui.empty import empty_state, nobody_answers, silent
from ui.golden_results import golden_list
from ui.header import header
from ui.html import link
from ui.live import live
from ui.panel import panel
from ui.security_notes import restricted_banners, security_notes
from ui.view import View

shell.guard()


def answer() -> None:
    view = View.take()
    header(view, *repository.answer(view))
    said = (repository.banners(view), restricted_banners(view), journal.banners(view), repository.told())
    panel(*said, key="banners")


def models() -> None:
    view = View.take()
    if not view.inventory.models:
        panel(no_models(view), key="models")
        return
    wanted = st.session_state.get("model") or ""
    found = repository.rows(view, wanted)
    if found:
        panel(repository.repository_table(found, view), key="models")
    else:
        todo = (link("Show all models", "repository", view.filters.params()),)
        panel(empty_state(f"There is no model whose name contains {wanted!r}.", todo=todo), key="models")
    panel(golden_list(view), key="golden")
    panel(several.progress(view), key="several")
    panel(repository.log_levels(view), key="log")
    panel(security_notes(view), key="security")


def no_models(view: View):
    if silent(view.coverage):
        return nobody_answers(view.coverage, "its repository cannot be read")
    return empty_state(
        "The repository has no model.",
        todo=("Put a model folder into the server's model repository; it appears here by itself.",),
    )


confirm.take_from_address()
live(answer, name="answer")
st.text_input(
    "Find a model", key="model", live=True, placeholder="Find a model", label_visibility="collapsed",
    icon=":material/search:", type="search",
)  # fmt: skip
live(models, name="models")
several.load_several()
journal.section()
confirm.ask()
