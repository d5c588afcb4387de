"""The page Repository: values on the page, what is switched off and why, and one sending per click."""

from __future__ import annotations

import re
import threading
import time

import pytest
import streamlit as st

import runtime
from collectors.config import parse_config
from collectors.repository import index_samples
from control.performer import Course
from control.policy import CONTROL_REFUSED, NONE_OR_POLL
from telemetry.access import LOCAL, Identity
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.errors import AlreadyRunning
from telemetry.facts import IndexEntry, ModelState
from telemetry.identity import Server
from telemetry.scrape import Scrape, Source
from tests.pages.write_side import ConfigsOnly, NotingControl, install, open_page, panel, recorded
from ui import confirm, repository
from ui.view import View


def row(html: str, model: str) -> str:
    """One row of the table; the cards follow the table."""
    found: str = re.findall(rf'<tr[^>]*data-key="lab\n{model}\n[^"]*".*?</tr>', html, flags=re.DOTALL)[0]
    return found


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()


def test_every_model_is_there_with_state_reason_and_traffic() -> None:
    install()
    page = open_page("repository")
    assert not page.exception
    assert "4 of 8 models are loaded; broken_init, needs_onnx could not be loaded." in words(
        panel(page, "header")
    )
    html = panel(page, "models")
    assert words(row(html, "fast_add")).startswith("fast_add v1 ready 196 ")
    assert "before the recording" not in html, "said in every row it is no news"
    assert 'data-tip="It was so when this app began to look."' in row(html, "fast_add")
    assert "RuntimeError: cannot find weights at /models/broken_init/1/weights.pt" in row(html, "broken_init")
    assert "initialize" not in re.sub(r"<details>.*?</details>", "", html, flags=re.DOTALL)
    assert "The model&#x27;s own code raised this" in row(html, "broken_init")
    assert "<summary>the server&#x27;s text</summary>" in row(html, "broken_init")
    assert "the server has no backend &#x27;onnxruntime&#x27;" in row(html, "needs_onnx")
    assert "never loaded, or its config was refused" in words(row(html, "never_loaded"))
    # 11,735 requests in the 10 s between both readings.
    assert "requests_per_second" in row(html, "fast_add")
    rate = float(re.findall(r">([\d,.]+)</span></td>", row(html, "fast_add"))[0].replace(",", ""))
    assert rate > 100
    assert "–" in row(html, "broken_init")
    for failed in ("broken_init", "needs_onnx"):
        assert 'class="ts-state ticket"' in row(html, failed) and "ts-state page" not in row(html, failed)
    # The same rows again as cards for a phone.
    assert len(re.findall(r'class="ts-card( page| ticket)?"', html)) == 8


def test_the_buttons_offer_what_makes_sense() -> None:
    install()
    html = panel(open_page("repository"), "models")
    assert re.findall(r'aria-label="(\w+) fast_add"', row(html, "fast_add")) == [
        "unload", "reload", "configure", "test",
    ]  # fmt: skip
    assert re.findall(r'aria-label="(\w+) broken_init"', row(html, "broken_init")) == ["load"]
    assert "do=unload&amp;on=lab&amp;what=fast_add" in row(html, "fast_add")
    assert "aria-disabled" not in html


def test_the_address_finds_a_model() -> None:
    install()
    html = panel(open_page("repository", model="fast"), "models")
    assert re.findall(r'data-key="lab\n(\w+)', html) == ["fast_add", "fast_add"]
    nothing = panel(open_page("repository", model="zzz"), "models")
    assert words(nothing) == "There is no model whose name contains &#x27;zzz&#x27;. Show all models"


def test_read_only_says_why_and_every_button_is_off() -> None:
    install(control=False)
    page = open_page("repository")
    assert "Read-only: control of lab is not switched on." in words(panel(page, "banners"))
    html = panel(page, "models")
    assert not re.findall(r"do=\w+", html)
    assert 'aria-disabled="true"' in row(html, "fast_add")
    assert "write control: true at this server" in row(html, "fast_add")


def test_a_wrong_control_mode_turns_the_buttons_off_with_the_reason_and_can_be_asked_again() -> None:
    control = install()
    control.policy.note_control_mode("lab", NONE_OR_POLL)
    page = open_page("repository")
    assert CONTROL_REFUSED in words(panel(page, "banners"))
    assert "--model-control-mode=explicit" in row(panel(page, "models"), "fast_add")
    assert 'href="test_request' in row(panel(page, "models"), "fast_add")
    page = open_page("repository", do="ask-again", on="lab")
    assert panel(page, "banners") == ""
    assert control.control_mode("lab") is None


def test_a_click_asks_first_and_sends_nothing() -> None:
    control = install()
    page = open_page("repository", do="unload", on="lab", what="fast_add")
    assert not page.exception
    assert [button.label for button in page.button if button.key in ("leave", "go")] == ["Leave it", "Unload"]
    question = words(panel(page, "question"))
    assert re.search(r"Traffic now on lab: [\d,.]+ requests/s, \d+ waiting, last request", question)
    assert re.search(r"pipeline uses this model and will stop too \([\d.]+ requests/s now\)\.", question)
    assert "Requests under way and in the queue are finished" in question
    assert control.performed == []
    assert "do" not in page.query_params


def test_unloading_an_ensemble_asks_about_its_steps() -> None:
    install()
    page = open_page("repository", do="unload", on="lab", what="pipeline")
    (box,) = page.checkbox
    assert box.label == "Also unload its steps (fast_add, slow_add)"
    assert box.value is False


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A session without a page: the dialog's buttons call these functions."""
    state: dict[str, object] = {}
    monkeypatch.setattr(st, "session_state", state)
    return state


def asked(kind: ActionKind = ActionKind.UNLOAD) -> confirm.Asked:
    return confirm.Asked(kind, "lab", "fast_add", "click-1")


def done(course: Course) -> Conclusion:
    return Conclusion(Outcome.DONE, f"{course.action.model} is unloaded")


def test_yes_is_sent_once_however_often_it_is_clicked(session: dict[str, object]) -> None:
    control = install()
    control.answers = done
    session["repository_asked"] = asked()
    for _ in range(5):
        confirm.send(True)
    (action,) = control.performed
    assert (action.kind, action.server, action.model, action.token) == (
        ActionKind.UNLOAD, "lab", "fast_add", "click-1",
    )  # fmt: skip
    assert action.unload_dependents
    # A second tab that shows the same question does not send it again either.
    session["repository_asked"] = asked()
    confirm.send()
    assert len(control.records()) == 1


def test_leaving_sends_nothing(session: dict[str, object]) -> None:
    control = install()
    session["repository_asked"] = asked()
    confirm.leave()
    confirm.send()
    assert control.performed == []


def test_a_click_that_is_not_sent_says_why(
    session: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    control = install()

    def busy(action: object, *, by: Identity) -> None:
        raise AlreadyRunning(
            "Already running, since 14:02:11 by local: unloading fast_add. Nothing was sent."
        )

    monkeypatch.setattr(control, "perform", busy)
    session["repository_asked"] = asked()
    confirm.send()
    told = repository.told()
    assert told is not None and "NOT SENT" in told
    assert "Already running, since 14:02:11 by local: unloading fast_add. Nothing was sent." in words(told)


def ended(control: NotingControl, conclusion: Conclusion) -> None:
    control.answers = lambda course: conclusion
    control.perform(Action(ActionKind.LOAD, "lab", "broken_init"), by=LOCAL).wait(5.0)


def test_the_outcome_is_shown_afterwards_with_the_servers_text_behind_a_fold() -> None:
    control = install()
    ended(control, Conclusion(Outcome.FAILED, "broken_init v1 not loaded: RuntimeError: x", "At: /models(6)"))
    for _ in range(2):
        html = panel(open_page("repository"), "journal")
        assert "FAILED" in html
        assert "broken_init v1 not loaded: RuntimeError: x" in words(html)
        assert "<summary>the server&#x27;s text</summary>" in html
        assert "At: /models(6)" in html
    assert len(control.performed) == 1


def test_an_action_under_way_is_visible_in_its_row_until_it_ends() -> None:
    control = install()
    go = threading.Event()

    def slow(course: Course) -> Conclusion:
        course.say("loading never_loaded")
        assert go.wait(20.0)
        return Conclusion(Outcome.DONE, "never_loaded is loaded")

    control.answers = slow
    job = control.perform(Action(ActionKind.LOAD, "lab", "never_loaded"), by=LOCAL)
    page = open_page("repository")
    assert re.search(
        r"never_loaded loading \d+ s the index says not loaded",
        words(row(panel(page, "models"), "never_loaded")),
    )
    assert 'aria-disabled="true"' in row(panel(page, "models"), "never_loaded")
    assert "RUNNING" in panel(page, "journal")
    go.set()
    job.wait(5.0)
    page = open_page("repository")
    assert "DONE never_loaded is loaded" in words(panel(page, "journal"))


def test_an_ensemble_whose_step_is_missing_says_so() -> None:
    install(state="default_5_unloaded")
    html = row(panel(open_page("repository"), "models"), "pipeline")
    assert words(html).startswith("pipeline v1 unloaded since")
    assert "an ensemble, and not loaded of its steps: slow_add" in html


def test_markup_in_a_models_name_is_shown_literally() -> None:
    control = install()
    html = str(confirm.button("load", "load", "lab", "<b>x</b>&", View.take().filters))
    assert "<b>x</b>" not in html
    assert "&lt;b&gt;x&lt;/b&gt;&amp;" in html
    assert control.performed == []


def ready_to_override(control: NotingControl, **raw: object) -> None:
    """What the model runs with, as the server tells it."""
    config = parse_config({**recorded("config_fast_add"), **raw})
    control.reader = ConfigsOnly({"fast_add": config})


def test_the_override_form_shows_what_runs_and_changes_nothing_by_itself() -> None:
    control = install()
    ready_to_override(control)
    page = open_page("repository", do="override", on="lab", what="fast_add")
    assert not page.exception
    assert "requests/s" in words(panel(page, "question"))
    assert page.number_input(key="override_max_batch_size").value == 8
    (go,) = [button for button in page.button if button.key == "go"]
    assert (go.label, go.disabled) == ("Load with these changes", True)
    assert not page.get("code")
    page.number_input(key="override_max_batch_size").set_value(16).run()
    difference = words(panel(page, "difference"))
    assert re.search(r"max_batch_size 8 8 16", difference), difference
    assert "Its file cannot be read from here" in difference
    assert [block.value for block in page.code] == ["max_batch_size: 16"]
    assert any("lost when the model is unloaded or the server restarts" in one.value for one in page.caption)
    (go,) = [button for button in page.button if button.key == "go"]
    assert not go.disabled
    assert control.performed == []


def test_the_override_that_is_sent_is_the_whole_configuration() -> None:
    control = install()
    ready_to_override(control)
    control.answers = done
    page = open_page("repository", do="override", on="lab", what="fast_add")
    page.number_input(key="override_max_batch_size").set_value(16).run()
    page.text_input(key="question_why").set_value("larger batches").run()
    page.button(key="go").click().run()
    assert not page.exception
    (action,) = control.performed
    assert (action.kind, action.model, action.why) == (ActionKind.OVERRIDE, "fast_add", "larger batches")
    assert action.config == {**recorded("config_fast_add"), "max_batch_size": 16}


def test_an_invalid_field_says_why_and_cannot_be_sent() -> None:
    control = install()
    ready_to_override(control, dynamic_batching={"preferred_batch_size": [2]})
    page = open_page("repository", do="override", on="lab", what="fast_add")
    page.text_input(key="override_sizes").set_value("2, 64").run()
    said = words(panel(page, "difference"))
    assert "NOT VALID A preferred batch size of 64 is above max_batch_size 8" in said
    assert page.button(key="go").disabled
    page.text_input(key="override_sizes").set_value("two").run()
    assert "write whole numbers with commas between them" in words(panel(page, "difference"))
    assert page.button(key="go").disabled
    assert control.performed == []


def test_several_models_are_chosen_and_loaded_with_one_click() -> None:
    control = install()
    loaded: list[str] = []

    def load(course: Course) -> Conclusion:
        loaded.append(course.action.model)
        return Conclusion(Outcome.DONE, f"{course.action.model} is loaded")

    control.answers = load
    page = open_page("repository")
    assert page.button(key="several_go").disabled
    page.multiselect(key="several_chosen").set_value([("lab", "never_loaded"), ("lab", "broken_init")]).run()
    assert page.button(key="several_go").label == "Load 2 selected"
    page.button(key="several_go").click().run()
    assert not page.exception
    (series,) = control.several.all()
    assert series.wait(10.0)
    assert sorted(loaded) == ["broken_init", "never_loaded"]
    shown = words(panel(open_page("repository"), "several"))
    assert "Load 2 models, two at a time 2 of 2 done" in shown
    assert "never_loaded done never_loaded is loaded" in shown


def test_drift_known_from_the_journal_is_marked_with_the_way_back() -> None:
    control = install()
    control.answers = done
    parameters = {"changes": {"max_batch_size": {"before": 4, "after": 8}}}
    action = Action(ActionKind.OVERRIDE, "lab", "fast_add", parameters=parameters)
    control.perform(action, by=LOCAL).wait(5.0)
    html = row(panel(open_page("repository"), "models"), "fast_add")
    assert ">drift<" in html and "max_batch_size 8 (its file: 4)" in html
    assert re.findall(r'aria-label="(\w+) fast_add"', html) == [
        "unload", "reload", "configure", "revert", "test",
    ]  # fmt: skip
    question = words(panel(open_page("repository", do="revert", on="lab", what="fast_add"), "question"))
    assert "It runs with max_batch_size 8 (its file: 4)" in question
    assert "It is unloaded and loaded again" in question
    assert "pipeline uses this model and will stop too and come back with it" in question
    for address in ("overview", "model", "test_request", "load_runs"):
        page = open_page(address, model="fast_add")
        assert any(">drift<" in str(one.proto.json) for one in page.get("bidi_component")), address


def test_replicas_are_named_and_done_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    control = install()
    control.answers = done
    process = runtime.current()
    servers = tuple(
        Server(name, "http://127.0.0.1:9", "http://127.0.0.1:9/metrics", control=True, workload=workload)
        for name, workload in (("lab", "triton"), ("lab-2", "triton"), ("lab-3", "triton"), ("b", "other"))
    )
    monkeypatch.setattr(type(process), "servers", property(lambda self: servers))
    index = (IndexEntry("fast_add", "1", ModelState.READY),)
    # lab-3 is of the workload too, and does not have the model.
    for name in ("lab-2", "b"):
        process.accept(Scrape(name, Source.INDEX, time.time(), 0.01, index_samples(index), index))
    page = open_page("repository", do="reload", on="lab", what="fast_add")
    where = page.radio(key="question_where")
    assert where.options == ["On lab only", "On all 2 replicas of triton: lab, lab-2"]
    assert where.value == ("lab",)
    where.set_value(("lab", "lab-2")).run()
    page.button(key="go").click().run()
    (series,) = control.several.all()
    assert series.wait(10.0)
    assert (series.at_a_time, series.stops) == (1, True)
    # The second is no server of the settings here: the first is done, the second refused, and both are told.
    shown = words(panel(open_page("repository"), "several"))
    assert "Reload fast_add on 2 replicas, one after the other 1 of 2 done, 1 not" in shown
    assert "No server &#x27;lab-2&#x27; is configured." in shown


def test_the_reason_is_asked_for_where_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    control = install()
    monkeypatch.setattr(control, "needs_reason", lambda server_id, kind=None: True)
    page = open_page("repository", do="reload", on="lab", what="fast_add")
    assert page.text_input(key="question_why").label == "Reason"
    assert page.button(key="go").disabled
    page.text_input(key="question_why").set_value("new weights").run()
    assert not page.button(key="go").disabled
