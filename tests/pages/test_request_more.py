"""The page Test request beyond one plain request: parameters, sequences, streams, views, code, saved ones."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from control.inference import Reply, Tensor
from control.saved_requests import SavedRequests
from control.server_split import ServerSplit
from control.test_requests import TestAnswer
from telemetry.actions import Conclusion, Outcome
from tests.pages.test_request_page import ALONE, SPLIT, answering, button, open_form, typed, words
from tests.pages.write_side import NotingControl, install, panel, panels


def field(page: AppTest, label: str, kind: str = "text_input") -> Any:
    (found,) = [one for one in getattr(page, kind) if one.label == label]
    return found


def replied(control: NotingControl, *replies: Reply, streamed: bool = False) -> None:
    answer = TestAnswer(replies, ServerSplit((SPLIT,), ALONE), streamed)
    control.answers = lambda course: Conclusion(Outcome.DONE, "fast_add answered", result=answer)


def reply(array: np.ndarray, datatype: str = "FP32", latency_us: float = 1000.0, error: str = "") -> Reply:
    return Reply("fast_add", "1", (Tensor("OUT", datatype, array),) if not error else (), latency_us, error)


def asked(control: NotingControl, *replies: Reply, streamed: bool = False) -> AppTest:
    replied(control, *replies, streamed=streamed)
    page = open_form()
    button(page, "Send request").click()
    page.run()
    assert not page.exception
    return page


def view(page: AppTest, name: str) -> str:
    (found,) = [one for one in page.button_group if one.proto.label == "View of OUT"]
    found.set_value(name)
    page.run()
    assert not page.exception
    return panels(page, "output OUT")[0]


def test_parameters_are_read_row_by_row_and_reserved_names_explained() -> None:
    control = install()
    answering(control, np.array([[1.0]], dtype=np.float32))
    page = open_form()
    field(page, "Name").set_value("temperature")
    next(box for box in page.selectbox if box.label == "Type").set_value("double")
    field(page, "Value").set_value("0.5")
    page.run()
    assert len([one for one in page.text_input if one.label == "Name"]) == 2
    button(page, "Send request").click()
    page.run()
    (action,) = control.performed
    assert action.parameters["parameters"] == ["temperature"]
    assert "0.5" not in str(action.parameters)
    field_of = [one for one in page.text_input if one.label == "Name"]
    field_of[0].set_value("triton_x")
    page.run()
    assert "belong to Triton, which refuses them" in panels(page, "parameter words 0")[0]
    assert button(page, "Send request").disabled
    assert "The request parameter triton_x cannot be given" in panel(page, "preview")


def test_the_steps_of_a_sequence_are_sent_whole_with_their_own_values() -> None:
    control = install(sequence_batching=True)
    answering(control, np.array([[1.0]], dtype=np.float32))
    page = open_form()
    (steps,) = [box for box in page.number_input if box.label == "Steps"]
    steps.set_value(2)
    page.run()
    assert "2 steps are sent as one whole sequence, under an id of its own." in panel(page, "preview")
    field(page, "Each step has its own values", "checkbox").set_value(True)
    page.run()
    assert [area.label for area in page.text_area] == ["A typed", "B typed"] * 2
    page.text_area[2].set_value("abc")
    page.run()
    assert words(panel(page, "preview")).startswith("Step 2: A wants numbers (FP32)")
    page.text_area[2].set_value("7")
    page.run()
    button(page, "Send request").click()
    page.run()
    assert control.performed[0].parameters["steps"] == 2


def test_a_stream_lists_its_responses_and_shows_the_chosen_one() -> None:
    control = install()
    page = asked(
        control,
        reply(np.array([1.0], np.float32)),
        reply(np.array([], np.float32), error="no response 1 can be made"),
        reply(np.array([3.0], np.float32), latency_us=9000.0),
        streamed=True,
    )
    listed = words(panels(page, "replies")[0])
    assert "1 1 ms OUT = 1.0 2 1 ms no response 1 can be made 3 9 ms OUT = 3.0" in listed
    assert words(panels(page, "output OUT")[0]) == "3.0"
    assert "until the last response , network included 9 ms" in words(panel(page, "answer_split"))
    field(page, "Outputs of reply", "selectbox").set_value(2)
    page.run()
    assert "no response 1 can be made" in panels(page, "reply error")[0]


def test_a_stream_without_responses_shows_no_output() -> None:
    control = install()
    page = asked(control, streamed=True)
    assert panels(page, "output OUT") == [] and panels(page, "replies") == []


def test_an_output_is_a_table_text_hex_and_can_be_downloaded() -> None:
    control = install()
    array = np.array([[1.0, np.nan, np.inf], [-0.0, 2.0, 3.0]], dtype=np.float32)
    page = asked(control, reply(array))
    table = words(panels(page, "output OUT")[0])
    assert table == "0 1 2 0 1.0 nan inf 1 -0.0 2.0 3.0"
    head = words(panels(page, "head OUT")[0])
    assert "6 values, min 0, max 3, mean 1.5, std 1.12" in head and "1 NaN, 1 +Inf" in head
    assert ">1.0  nan  inf  -0.0  2.0  3.0</pre>" in view(page, "text")
    assert "00000000  00 00 80 3f 00 00 c0 7f 00 00 80 7f" in view(page, "hex")
    names = [one.proto.label for one in page.get("download_button")]
    assert names == ["npy", "json", "raw"]


def test_pictures_are_shown_and_the_rest_is_not_called_one() -> None:
    control = install()
    page = asked(control, reply(np.zeros((1, 8, 8, 3), dtype=np.uint8), "UINT8"))
    shown = view(page, "picture")
    assert 'src="data:image/png;base64,' in shown and "values 0 to 255" in shown
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4)).save(buffer, "PNG")
    for data, first in ((buffer.getvalue(), "picture"), (b"plain", "text")):
        array = np.empty((1,), dtype=object)
        array[0] = data
        page = asked(install(), reply(array, "BYTES"))
        (views,) = [one for one in page.button_group if one.proto.label == "View of OUT"]
        assert views.proto.options[0].content == first


def test_a_large_output_is_cut_on_the_page_only() -> None:
    page = asked(install(), reply(np.zeros((300, 50), dtype=np.float32)))
    assert "200 more rows and 18 more columns: in the file" in panels(page, "output OUT")[0]


def test_hostile_text_from_a_model_stays_text() -> None:
    array = np.empty((1,), dtype=object)
    array[0] = b"<img src=x onerror=alert(1)>"
    page = asked(install(), reply(array, "BYTES"))
    for name in ("text", "table", "hex"):
        assert "<img" not in view(page, name)


def test_the_code_follows_the_form() -> None:
    install()
    page = open_form()
    typed(page, "A", "1.5")
    typed(page, "B", "2.5")
    page.run()
    (code,) = page.code
    assert code.value.startswith(
        "curl -sS --max-time 30 -H 'Content-Type: application/json' -d '{\"inputs\": "
    )
    assert '"data": [1.5]' in code.value and code.value.endswith(
        "http://127.0.0.1:9/v2/models/fast_add/versions/1/infer"
    )
    (kinds,) = [one for one in page.button_group if one.proto.label == "As"]
    kinds.set_value("Python")
    page.run()
    assert "client.infer('fast_add', inputs, model_version='1')" in page.code[0].value
    (kinds,) = [one for one in page.button_group if one.proto.label == "As"]
    kinds.set_value("perf_analyzer")
    page.run()
    assert "perf_analyzer -m fast_add -x 1 -u 127.0.0.1:9 -i http -b 1" in page.code[0].value
    typed(page, "A", "abc")
    page.run()
    assert not page.code
    assert "There is no request yet" in panel(page, "code_words")


def test_without_a_folder_nothing_is_saved_and_the_page_says_how() -> None:
    install()
    page = open_form()
    assert "Nothing is saved here. To keep requests, name a folder" in panel(page, "saved_none")


def test_a_viewer_sees_no_saved_request(tmp_path: Path) -> None:
    control = install(control=False)
    control.saved = SavedRequests(tmp_path, 30)
    page = open_form()
    assert panels(page, "saved") == []
    assert "Saved requests" not in [one.label for one in page.expander]


def test_a_request_is_saved_sent_again_judged_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ui.test_request._SECOND_CLICK_SECONDS", 0.0)
    control = install()
    control.saved = SavedRequests(tmp_path, 30)
    answering(control, np.array([[3.5]], dtype=np.float32))
    page = open_form()
    assert "No request is kept for fast_add. What is saved is removed after 30 days." in panel(
        page, "saved_empty"
    )
    button(page, "Save this request").click()
    page.run()
    assert "A saved request needs a name" in panel(page, "saved_error")
    named = next(one for one in page.text_input if one.key == "saved name")
    named.set_value("three and a half")
    page.run()
    button(page, "Save this request").click()
    page.run()
    assert not page.exception
    (kept,) = control.saved.requests("fast_add")
    assert (kept.name, kept.by, kept.expected) == ("three and a half", "local", None)
    button(page, "Send it again").click()
    page.run()
    assert len(control.performed) == 1
    button(page, "Expect this answer").click()
    page.run()
    assert not page.exception
    assert control.saved.get(kept.id).expected is not None
    assert "AS EXPECTED three and a half: every value exactly." in words(panel(page, "verdict"))
    answering(control, np.array([[4.5]], dtype=np.float32))
    button(page, "Send it again").click()
    page.run()
    page.run()
    assert words(panel(page, "verdict")) == (
        "DIFFERENT three and a half: OUT differs in 1 of 1 values; the first, at 0: 4.5 instead of 3.5"
    )
    button(page, "Send request").click()
    page.run()
    assert panels(page, "verdict") == []
    button(page, "Remove it").click()
    page.run()
    assert control.saved.requests() == ()


def test_names_from_a_server_are_no_markdown_in_labels() -> None:
    evil = "![x](https://elsewhere/x.png) <img src=x>"
    array = np.zeros((2, 2), dtype=np.float32)
    reply = Reply("fast_add", "1", (Tensor(evil, "FP32", array),), 1000.0)
    page = asked(install(), reply)
    labels = [one.proto.label for one in (*page.button_group, *page.get("download_button"))]
    assert "View of ··x··https···elsewhere·x.png· ·img src·x·" in labels
    assert "&lt;img src=x&gt;" in panels(page, "head !")[0]
