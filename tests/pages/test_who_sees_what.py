"""A server that somebody may not view is on no page, in no choice and in no chart; names are only text."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_runtime import SMALL, text
from streamlit.testing.v1 import AppTest

import runtime
from collectors.config import parse_config
from collectors.exposition import read_page
from collectors.metadata import parse_metadata
from collectors.repository import index_samples, parse_index
from collectors.statistics import parse_statistics, statistics_samples
from control.performer import Course
from history.protocol import Frame
from settings import load_settings
from signals.fleet import Fleet, FleetModel, Odd, Replica
from signin.visitors import Visitor
from telemetry.access import How
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.errors import Restricted, Unreachable
from telemetry.identity import ModelKey
from telemetry.restricted import restricted_sentence
from telemetry.scrape import Scrape, Source
from telemetry.transport import Transport
from ui import person, sight
from ui.navigation import PAGES

ROOT = Path(__file__).resolve().parents[2]
ADDRESSES = [row.address for row in PAGES if row.file.exists()]
SETTINGS = """
control: true
refresh_seconds: 10
servers:
  - {id: open, url: "127.0.0.1:9", metrics_url: "127.0.0.1:9", workload: shop}
  - {id: classified, url: "127.0.0.1:9", metrics_url: "127.0.0.1:9", workload: shop}
slo:
  - {model: "*", errors: "99.9 %"}
access:
  anonymous: viewer
  groups: {ops: operator}
  servers:
    classified: {groups: {inner: admin}}
"""
HIDDEN = ("classified", "covert_")
SECRET_VALUE = "value-of-a-parameter"
EVIL = "<img src=x onerror=window.pwned=1>'`${7*7}"
"""In a metrics page and in JSON this needs no escaping; a page must."""


def process(tmp_path: Path, rename: dict[str, str] | None = None) -> runtime.Runtime:
    """Two servers under load; the models of the second are called covert_..."""
    file = tmp_path / "tritonscope.yml"
    file.write_text(SETTINGS, encoding="utf-8")
    made = runtime.Runtime(load_settings({"TRITONSCOPE_JOURNAL_PATH": str(tmp_path / "journal.jsonl")}, file))
    names = [row["name"] for row in json.loads(text(SMALL / "default_2_under_load_index.json"))]
    now = time.time() // 4.0 * 4.0
    for server in ("open", "classified"):
        renamed = {name: f"covert_{name}" for name in names} if server == "classified" else rename or {}
        for at, moment in ((now - 20.0, "1_idle"), (now, "2_under_load")):
            accept(made, server, at, moment, renamed)
    return made


def accept(made: runtime.Runtime, server: str, at: float, moment: str, renamed: dict[str, str]) -> None:
    def answer(name: str) -> str:
        found: str = text(SMALL / name)
        for before, after in renamed.items():
            found = found.replace(f'"{before}"', f'"{after}"')
        return found

    page = read_page(answer(f"default_{moment}_metrics.txt"))
    made.accept(Scrape(server, Source.METRICS, at, 0.01, page.samples, page))
    statistics, _ = parse_statistics(json.loads(answer(f"default_{moment}_stats.json")))
    made.accept(Scrape(server, Source.STATISTICS, at, 0.01, statistics_samples(statistics), statistics))
    index, _ = parse_index(json.loads(answer(f"default_{moment}_index.json")))
    made.accept(Scrape(server, Source.INDEX, at, 0.01, index_samples(index), index))
    config = json.loads(answer("config_fast_add.json"))
    config["parameters"] = {"PLAIN_NAME": {"string_value": SECRET_VALUE}}
    made.accept(Scrape(server, Source.CONFIG, at, 0.01, payload={config["name"]: parse_config(config)}))
    metadata = parse_metadata({"name": f"triton of {server}", "version": "2.51.0", "extensions": []})
    made.accept(Scrape(server, Source.METADATA, at, 0.01, payload=metadata))


Open = Callable[..., str]


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """`shown(address, visitor, **parameters)`: everything that reaches the browser, as one text."""
    made: dict[str, runtime.Runtime] = {}

    def opened(
        address: str, visitor: Visitor | None, rename: dict[str, str] | None = None, **parameters: str
    ) -> str:
        monkeypatch.setattr(person, "visitor", lambda: visitor)
        if "process" not in made:
            made["process"] = process(tmp_path, rename)
            runtime.install(made["process"])
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
        app.query_params["refresh"] = "pause"
        for name, value in parameters.items():
            app.query_params[name] = value
        app.switch_page(f"pages/{address}.py")
        app.run()
        assert not app.exception
        return everything(app)

    yield opened
    runtime.shut_down()


def everything(app: AppTest) -> str:
    nodes: Any = app._tree
    protos: list[Any] = [proto for node in nodes if (proto := getattr(node, "proto", None)) is not None]
    texts = [str(proto) for proto in protos]
    texts += [proto.json for proto in protos if getattr(proto, "json", None)]
    texts += [proto.bytes.decode("latin-1") for proto in protos if getattr(proto, "bytes", None)]
    return "\n".join([*texts, str(app.query_params)])


OPERATOR = Visitor("ops@example.com", How.OIDC, ("ops",))
ADMIN = Visitor("inner@example.com", How.OIDC, ("inner", "ops"))
ANONYMOUS = Visitor("anonymous", How.ANONYMOUS)
QUESTIONS = [kind for kind in ActionKind if kind.changes_repository or kind is ActionKind.LOG_LEVEL]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_hidden_server_is_on_no_page(shown: Open, address: str) -> None:
    everybody = shown(address, ADMIN)
    assert "classified" in everybody, "the test would see it"
    linked = {"server": "classified", "model": "covert_fast_add", "find": "covert"}
    assert [word for word in HIDDEN if word in shown(address, ANONYMOUS)] == []
    for parameters in (linked, {"family": "nv_inference_count"}):
        page = shown(address, OPERATOR, **parameters)
        # What the address says stands in its own field, and is no news.
        told = page.replace("covert_fast_add", "").replace("'covert'", "").replace('"covert"', "")
        told = re.sub(r"/sign-in\?next=[%\w.&=-]*", "", told)
        assert [word for word in HIDDEN if word in told] == []


def test_columns_and_replicas_of_a_hidden_server_are_left_out() -> None:
    frame = Frame(np.arange(3.0), (("open", "m"), ("classified", "m")), np.arange(6.0).reshape(3, 2))
    left = sight.frame_of(frame, lambda server: server == "open")
    assert (left.keys, left.values.tolist()) == ((("open", "m"),), [[0.0], [2.0], [4.0]])
    assert sight.frame_of(frame, lambda server: True) is frame
    servers = ("open", "other", "classified")
    odd = Odd(ModelKey("classified", "m", "1"), "failed_ratio", 0.5, 0.0, 9.0, 2)
    model = FleetModel(
        "shop", "m", "1", tuple(Replica(ModelKey(one, "m", "1"), 5.0, {}) for one in servers), (odd,)
    )
    fleet = Fleet(60.0, {"shop": servers, "pair": ("open", "classified")}, (model,))
    seen = sight.fleet_of(fleet, lambda server: server != "classified")
    assert dict(seen.workloads) == {"shop": ("open", "other")}
    assert [replica.key.server for replica in seen.models[0].replicas] == ["open", "other"]
    assert seen.odd == ()
    alone = sight.fleet_of(fleet, lambda server: server == "open")
    assert (dict(alone.workloads), alone.models) == ({}, ())


def test_nobody_sees_anything_after_signing_out(shown: Open) -> None:
    for address in ADDRESSES:
        page = shown(address, None)
        assert "fast_add" not in page
        assert "classified" not in page
        assert "127.0.0.1:9" not in page
    assert "You may view no server here" in shown("overview", None)


def test_viewers_see_no_parameter_values_and_not_who_did_what(shown: Open) -> None:
    assert SECRET_VALUE in shown("model", OPERATOR, server="open", model="fast_add")
    control = runtime.current().control
    assert control is not None
    action = Action(ActionKind.TEST_REQUEST, "open", "fast_add", why="because-of-ticket-7")
    control.perform(
        action,
        lambda course: Conclusion(Outcome.FAILED, "it said no", "the-raw-text-of-the-server"),
        by=OPERATOR.identity(runtime.current().settings.access),
    ).wait(5.0)
    for address in ("model", "repository", "test_request"):
        page = shown(address, ANONYMOUS, server="open", model="fast_add")
        for word in (SECRET_VALUE, "ops@example.com", "because-of-ticket-7", "the-raw-text-of-the-server"):
            assert word not in page, (address, word)
    assert "because-of-ticket-7" in shown("repository", OPERATOR, server="open")


def test_who_one_is_and_what_one_may_stands_in_the_sidebar(shown: Open) -> None:
    assert "view, infer, load, load-run, log" in shown("overview", OPERATOR)
    assert "rights differ by server" in shown("overview", ADMIN)
    assert "not signed in" in shown("overview", ANONYMOUS)


def test_an_api_that_wants_a_key_is_called_restricted_with_what_to_set(shown: Open) -> None:
    shown("overview", OPERATOR)
    sentence = restricted_sentence("triton:8000", "model-repository", 403, "expecting header 'admin-key'")
    for at in (time.time(), time.time() + 1):
        runtime.current().accept(
            Scrape("open", Source.INDEX, at, 0.01, error=Restricted(sentence, status=403))
        )
    page = shown("repository", OPERATOR)
    assert "RESTRICTED" in page
    assert "api_headers_from_env: {model-repository: {admin-key: VARIABLE}}" in page
    assert "index restricted" in shown("overview", OPERATOR)


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_model_named_with_markup_is_text(shown: Open, address: str) -> None:
    page = shown(
        address, OPERATOR, {"fast_add": EVIL}, server="open", model=EVIL, family="nv_inference_count"
    )
    panels = [part for part in page.split("\n") if '"html"' in part]
    assert panels
    assert "<img src=x" not in "".join(panels)
    if address in ("overview", "model", "repository"):
        assert "&lt;img src=x onerror=window.pwned=1&gt;" in "".join(panels)


@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_question_made_by_hand_tells_nothing_and_asks_no_server(
    shown: Open, kind: ActionKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def note(transport: Transport, method: str, url: str, *given: object, **more: object) -> None:
        asked.append(url)
        raise Unreachable(f"{url} is not there")

    monkeypatch.setattr(Transport, "_send", note)
    for visitor in (ANONYMOUS, OPERATOR):
        page = shown("repository", visitor, do=kind.value, on="classified", what="covert_fast_add")
        told = re.sub(r"/sign-in\?next=[%\w.&=-]*", "", page)
        told = told.replace("No server &#x27;classified&#x27; is configured", "").replace(
            "'classified' is", ""
        )
        assert [word for word in (*HIDDEN, SECRET_VALUE, "replicas") if word in told] == []
        assert "No server" in page
    page = shown("repository", ANONYMOUS, do=kind.value, on="open", what="fast_add")
    assert "You are not signed in, and this needs the right" in page
    assert asked == []


def test_whose_action_a_series_met_is_for_those_who_see_the_journal(shown: Open) -> None:
    assert "fast_add" in shown("repository", OPERATOR)
    control = runtime.current().control
    assert control is not None
    operator = OPERATOR.identity(runtime.current().settings.access)
    over = threading.Event()

    def until_over(course: Course) -> Conclusion:
        assert over.wait(30.0)
        return Conclusion(Outcome.DONE, "loaded")

    load = Action(ActionKind.LOAD, "open", "fast_add", who=operator.name)
    control._performer.perform(load, until_over, by=operator)
    try:
        second = Action(ActionKind.LOAD, "open", "fast_add")
        assert control.several.begin("load 1 model", [second], by=operator, token="t").wait(30.0)
        assert "by ops@example.com: loading fast_add" in shown("repository", OPERATOR)
        page = shown("repository", ANONYMOUS)
        assert "0 of 1 done" in page
        assert "ops@example.com" not in page
    finally:
        over.set()
