"""The page Test request: the form, what it refuses before sending, and the answer."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Button

from control.inference import Reply, Tensor
from control.server_split import ModelSplit, ServerSplit
from control.test_requests import TestAnswer
from telemetry.actions import ActionKind, Conclusion, Outcome
from tests.pages.write_side import NotingControl, install, open_page, panel, panels

SPLIT = ModelSplit("fast_add", "1", 1, 0, 1, 1, 1310.0, 577.0, 32.0, 657.0, 43.8, {1: 1})
ALONE = "This request alone: the server counted no other in between."


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()


def open_form(model: str = "fast_add") -> AppTest:
    page = open_page("test_request", model=model, version="1")
    assert not page.exception
    return page


def typed(page: AppTest, name: str, text: str) -> None:
    (field,) = [area for area in page.text_area if area.label == f"{name} typed"]
    field.set_value(text)


def button(page: AppTest, label: str) -> Button:
    (found,) = [one for one in page.button if one.label == label]
    return found


def answering(control: NotingControl, array: np.ndarray, datatype: str = "FP32") -> None:
    reply = Reply("fast_add", "1", (Tensor("OUT", datatype, array),), 3780.0)
    answer = TestAnswer((reply,), ServerSplit((SPLIT,), ALONE))
    control.answers = lambda course: Conclusion(
        Outcome.DONE, "fast_add answered after 3.78 ms", result=answer
    )


def test_the_form_follows_the_models_inputs_and_shows_the_shape_to_be_sent() -> None:
    install()
    page = open_form()
    assert "Ask fast_add v1 on lab." in words(panel(page, "header"))
    assert "A FP32 [-1]" in words(panel(page, "input 0 lab fast_add 1"))
    assert [area.label for area in page.text_area] == ["A typed", "B typed"]
    typed(page, "A", "1.5")
    typed(page, "B", "2 3")
    page.run()
    assert words(panel(page, "preview")) == (
        "A: sent shape [1,1] (batch 1), FP32 B: sent shape [1,2] (batch 1), FP32"
    )
    assert not button(page, "Send request").disabled


@pytest.mark.parametrize(
    ("rows", "a", "sentence"),
    [
        (9, "1", "At most 8 rows per request (got 9)"),
        (0, "1", "At least 1 row per request (got 0)"),
        (1, "abc", "A wants numbers (FP32), not 'abc'."),
        (1, "1e39", "A: 1e39 does not fit FP32."),
        (1, "", "A: no value is typed."),
        (1, "[[1], [2]]", "All inputs need the same number of rows: A 2, B 1"),
    ],
)
def test_what_cannot_be_sent_is_said_before_sending(rows: int, a: str, sentence: str) -> None:
    control = install()
    page = open_form()
    (count,) = [box for box in page.number_input if box.label == "Rows"]
    count.set_value(rows)
    typed(page, "A", a)
    page.run()
    assert words(panel(page, "preview")).replace("&#x27;", "'") == sentence
    assert button(page, "Send request").disabled
    assert control.performed == []


def test_rows_repeat_the_typed_row_and_random_values_are_seeded() -> None:
    install()
    page = open_form()
    (count,) = [box for box in page.number_input if box.label == "Rows"]
    count.set_value(4)
    (ways,) = [one for one in page.button_group if "Values of B" in str(one.proto)]
    ways.set_value("random")
    page.run()
    assert [area.label for area in page.text_area] == ["A typed"]
    assert words(panel(page, "preview")).startswith(
        "A: sent shape [4,1] (batch 4), FP32 B: sent shape [4,1] (batch 4)"
    )


def test_the_answer_shows_outputs_latency_and_the_servers_split() -> None:
    control = install()
    answering(control, np.array([[3.5]], dtype=np.float32))
    page = open_form()
    button(page, "Send request").click()
    page.run()
    assert not page.exception
    (action,) = control.performed
    assert (action.kind, action.server, action.model) == (ActionKind.TEST_REQUEST, "lab", "fast_add")
    shown = words(panel(page, "answer"))
    assert shown.startswith("ANSWERED fast_add answered after 3.78 ms")
    assert words(panels(page, "head OUT")[0]) == "OUT FP32 [1,1] copy"
    assert words(panels(page, "output OUT")[0]) == "3.5"
    split = words(panel(page, "answer_split"))
    assert ALONE in split
    assert "this client waited , network included 3.78 ms" in split
    assert "fast_add v1 1.31 ms 577 µs 32 µs 657 µs 43.8 µs" in split
    page.run()
    assert len(control.performed) == 1
    assert words(panel(page, "answer")) == shown


def test_64_bit_integers_are_shown_to_the_last_digit_and_bytes_literally() -> None:
    control = install()
    answering(control, np.array([[9007199254740993, -1]], dtype=np.int64), "INT64")
    page = open_form()
    button(page, "Send request").click()
    page.run()
    (table,) = panels(page, "output OUT")
    assert ">9007199254740993</td>" in table and ">-1</td>" in table
    assert "min -1, max 9007199254740993" in panels(page, "head OUT")[0]
    texts = np.empty((1, 1), dtype=object)
    texts[0, 0] = b"<script>\xff"
    answering(control, texts, "BYTES")
    page = open_form()
    button(page, "Send request").click()
    page.run()
    assert "&lt;script&gt;\ufffd" in panels(page, "output OUT")[0]


def test_a_failure_is_a_sentence_with_the_servers_text_behind_a_fold() -> None:
    control = install()
    control.answers = lambda course: Conclusion(
        Outcome.FAILED, "Queue full: fast_add has as many waiting requests as it accepts (503)", "raw 503"
    )
    page = open_form()
    button(page, "Send request").click()
    page.run()
    html = panel(page, "answer")
    assert words(html).startswith("FAILED Queue full: fast_add has as many waiting requests")
    assert "<details><summary>" in html and "raw 503" in html


def test_read_only_switches_sending_off_with_the_reason() -> None:
    control = install(control=False)
    page = open_form()
    assert words(panel(page, "preview")).startswith("Read-only: control of lab is not switched on.")
    assert button(page, "Send request").disabled
    assert control.performed == []


def test_a_model_that_is_not_loaded_says_where_to_load_it() -> None:
    install()
    page = open_page("test_request", model="broken_init")
    assert "broken_init v1 is not loaded: the page Repository loads it." in words(panel(page, "none"))


def test_a_decoupled_model_is_asked_by_generate_stream() -> None:
    control = install(decoupled=True)
    page = open_form()
    (ways,) = [one for one in page.button_group if one.proto.label == "Way"]
    assert [option.content for option in ways.proto.options] == ["generate stream", "generate"]
    assert words(panel(page, "preview")).startswith("A: sent shape [1,1] (batch 1), FP32")
    assert not button(page, "Send request").disabled
    assert control.performed == []


def test_load_runs_of_this_model_are_one_click_away() -> None:
    install()
    link = panel(open_form(), "load_runs")
    assert 'href="load_runs?' in link
    assert "model=fast_add" in link and "version=1" in link


def test_two_visitors_see_their_own_answers() -> None:
    control = install()
    answering(control, np.array([[3.5]], dtype=np.float32))
    first, second = open_form(), open_form()
    button(first, "Send request").click()
    first.run()
    second.run()
    assert "ANSWERED" in panel(first, "answer")
    assert "Nothing has been sent yet." in panel(second, "answer")


def test_an_ensembles_parts_are_those_of_its_steps() -> None:
    control = install()
    step = replace(SPLIT, model="slow_add")
    reply = Reply("pipeline", "1", (Tensor("OUT", "FP32", np.ones((1, 1), dtype=np.float32)),), 3780.0)
    answer = TestAnswer((reply,), ServerSplit((replace(SPLIT, model="pipeline"), step), ALONE))
    control.answers = lambda course: Conclusion(Outcome.DONE, "pipeline answered", result=answer)
    page = open_form("pipeline")
    for area in page.text_area:
        area.set_value("1")
    page.run()
    button(page, "Send request").click()
    page.run()
    html = panel(page, "answer_split")
    assert "pipeline v1 1.31 ms – – – – slow_add v1 1.31 ms 577 µs" in words(html)
    assert "an ensemble&#x27;s time is that of its steps" in html
    assert html.count('class="ts-split"') == 1
