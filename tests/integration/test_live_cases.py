"""Public cases that come without a saved answer: each on the real server, and what must (not) be said.

The letters and numbers are those of the collection that `tests/fixtures/cases` is a part of.

| case | what people met | test |
|---|---|---|
| B06 | preferred batch sizes are no rule | `test_b06_another_batch_size_than_preferred_is_no_fault` |
| B08 | a full queue refuses, no counter shows it | `test_b08_a_full_queue_is_named_without_a_counter` |
| B12 | a queue time-out acts late | `test_b12_a_queue_timeout_acts_late` |
| C01 | load refused "if polling is enabled" | `test_c01_c14_a_server_in_mode_none_with_a_failed_model` |
| C02 | a load outlives its client | `test_c02_a_load_that_outlives_its_client_has_not_failed` |
| C04 | memory is not given back | numbers of a GPU: `tests/pages/test_journal_panel.py` |
| C05 | the reason of a failed load, twice | `test_c05_a_failed_load_tells_its_reason_each_time` |
| C07 | no version folder | `test_c07_a_model_without_version_folder_does_not_vanish` |
| C08 | "failed to poll from model repository" | `test_c08_what_cannot_be_read_says_where_to_look` |
| C10 | unload of a wrong name says OK | `test_c10_unloading_what_is_not_there_is_no_success` |
| C13 | a name that HTTP cannot address | `test_c13_a_name_that_http_cannot_address_is_shown` |
| C14 | server ready, models not | `test_c14_a_ready_server_without_models_is_not_fine`, and the one of C01 |
| E07 | CPU of the whole machine | `test_e07_the_processor_is_that_of_the_whole_machine` |

The others of the groups (a), (b), (c) and (e) have files: `tests/unit/test_cases.py`, `test_triage_cases.py`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
import requests

import runtime
from control.policy import CONTROL_REFUSED, NOT_ADDRESSABLE
from control.repository_watch import Patience
from control.request_errors import explain
from sandbox import FAULT_MODELS, Sandbox, SandboxOptions
from sandbox.laboratory.lab import WHO, Lab, Servers
from sandbox.laboratory.model_files import Batching, Ensemble, Model
from telemetry.actions import Action, ActionKind, Outcome, Record
from telemetry.facts import ModelState
from telemetry.scrape import Source
from tests.counting_proxy import CountingProxy
from tests.pages.conftest import Shown, opened
from triage.finding import Finding, Severity
from triage.verdict import VerdictLevel

pytestmark = pytest.mark.integration

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
WITHIN_SECONDS = 30.0


class Case(Lab):
    """A laboratory of one case, which remembers everything that was said while something was waited for."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__([sandbox])
        self.said: dict[str, str] = {}

    @property
    def http(self) -> str:
        """Address of the server's HTTP API, past any proxy."""
        return self.sandboxes[0].http_url

    def findings(self) -> tuple[Finding, ...]:
        """What is found now."""
        found = self.runtime.judgement().findings
        self.said |= {one.rule: one.sentence for one in found}
        return found

    def until(self, condition: Callable[[], T], seconds: float = WITHIN_SECONDS) -> T:
        """The first true value of the condition, while it is listened to what is found."""
        deadline = time.monotonic() + seconds
        while True:
            self.findings()
            if value := condition():
                return value
            assert time.monotonic() < deadline, f"not true within {seconds:g} s; said so far: {self.said}"
            time.sleep(0.1)

    def first(self, rule: str) -> Finding:
        """The finding of this rule, once it is the first of all."""
        return self.until(lambda: [one for one in self.findings()[:1] if one.rule == rule])[0]

    def watched_ready(self, *models: str) -> None:
        """Watch, until the product knows these models as ready, with their configurations and figures."""
        self.watch()
        self.until(lambda: all(self._is_known(model) for model in models))

    def _is_known(self, model: str) -> bool:
        mine = [one for one in self.runtime.inventory().models if one.key.name == model]
        return any(one.state is ModelState.READY and one.config and one.statistics for one in mine)

    def states(self, model: str) -> set[ModelState | None]:
        """States of a model as the product knows them."""
        return {one.state for one in self.runtime.inventory().models if one.key.name == model}

    def did(self, kind: ActionKind, model: str) -> Record:
        """Do it through the product's write side; what its journal says of it."""
        self.act(kind, model)
        return self.runtime.records("server0", model)[0]

    def infer(self, model: str, rows: int = 1) -> tuple[int, str, float]:
        """Status and body of one request of so many rows, and for how many seconds it was waited for."""
        tensor = {"name": "INPUT", "shape": [rows, 1], "datatype": "FP32", "data": [1.0] * rows}
        began = time.monotonic()
        answer = requests.post(f"{self.http}/v2/models/{model}/infer", json={"inputs": [tensor]}, timeout=30)
        return answer.status_code, answer.text, time.monotonic() - began

    def page(self, address: str, **parameters: str) -> Shown:
        """A page of the app on this process."""
        return opened(self.runtime, address, seconds=60, **parameters)

    def signals(self, model: str) -> Any:
        """The figures of a model now."""
        return next(row.signals for row in self.runtime.report().models if row.key.name == model)


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """One server without models, which the cases use in turn."""
    with Servers() as running:
        yield running


@pytest.fixture
def case(servers: Servers) -> Iterator[Case]:
    made = Case(servers.plain(1)[0])
    yield made
    runtime.shut_down()
    made.close()


# ---- batches and queues


def test_b06_another_batch_size_than_preferred_is_no_fault(case: Case) -> None:
    case.add(Model("hinted", max_batch_size=16, batching=Batching(preferred=(4, 8)), cost_us=5_000))
    case.watched_ready("hinted")
    assert case.infer("hinted", rows=12)[0] == 200
    counted = requests.get(f"{case.http}/v2/models/hinted/stats", timeout=5).json()["model_stats"][0]
    assert [(row["batch_size"], row["compute_infer"]["count"]) for row in counted["batch_stats"]] == [(12, 1)]
    case.until(lambda: (case.signals("hinted").mapping("executions_by_batch_size") or {}).get("12") == 1.0)
    rows = case.page("model", model="hinted").rows("configuration")
    assert ["preferred_batch_size", "4, 8"] in [row[:2] for row in rows]
    assert any("a hint, not enforced" in row[-1] for row in rows if row[0] == "preferred_batch_size")
    assert ["12", "1"] in [row[:2] for row in rows]
    assert case.said == {}


def test_b08_a_full_queue_is_named_without_a_counter(case: Case) -> None:
    case.add(Model("narrow", max_batch_size=1, batching=Batching(queue_size=2), cost_us=500_000))
    case.watched_ready("narrow")
    with ThreadPoolExecutor(6) as pool:
        answers = [one.result() for one in [pool.submit(case.infer, "narrow") for _ in range(6)]]
    refused = [(status, text) for status, text, _ in answers if status != 200]
    assert [status for status, _ in refused] == [503, 503, 503]
    assert {explain("narrow", text, status).case for status, text in refused} == {"queue full"}
    told = explain("narrow", refused[0][1], 503).what
    assert told == "Queue full: narrow has as many waiting requests as it accepts (503)"
    case.clients("narrow", 6, batched=True)
    found = case.first("QueueFull")
    assert found.model is not None and found.model.name == "narrow"
    assert "further requests are refused with 503" in found.sentence
    assert found.sentence.endswith("Triton counts these refusals nowhere.")
    assert sum((case.signals("narrow").mapping("failures_by_reason") or {"x": 1.0}).values()) == 0.0
    words = case.page("model", model="narrow").words("failures")
    assert "refus" in words and "no counter" in words
    assert "no request failed" not in " ".join((words, *case.said.values())).lower()
    assert "RequestsFailing" not in case.said


def test_b12_a_queue_timeout_acts_late(case: Case) -> None:
    case.add(Model("patient", max_batch_size=1, batching=Batching(timeout_us=300_000), cost_us=2_000_000))
    case.watched_ready("patient")
    with ThreadPoolExecutor(3) as pool:
        answers = [one.result() for one in [pool.submit(case.infer, "patient") for _ in range(3)]]
    served = [seconds for status, _, seconds in answers if status == 200]
    refused = [(text, status, seconds) for status, text, seconds in answers if status != 200]
    assert served and refused
    for text, status, seconds in refused:
        assert explain("patient", text, status).case == "queue time-out"
        # Not after 0.3 s: while executions of 1, 2 and 3 s ran, 24.10 refused after 0.5 or 1.0 s.
        assert seconds > 0.4
    case.until(lambda: case.signals("patient").number("requests_total") == len(served))
    rows = case.page("model", model="patient").rows("configuration")
    [setting] = [row for row in rows if row[0] == "default_timeout"]
    assert setting[1] == "300 ms"
    assert setting[2].startswith("checked when the model is free")
    assert case.said == {}


# ---- load and unload


# The first of them: a server that once failed to load something is not ready for that reason.
def test_c14_a_ready_server_without_models_is_not_fine(case: Case) -> None:
    case.add(Model("one"), Model("two"))
    case.watched_ready("one", "two")
    for model in ("one", "two"):
        assert case.unload(model) == 200
    case.until(lambda: case.states("one") | case.states("two") == {ModelState.UNAVAILABLE})
    assert requests.get(f"{case.http}/v2/health/ready", timeout=5).status_code == 200
    verdict = case.runtime.verdict(case.runtime.judgement())
    assert (verdict.level, verdict.sentence) == (VerdictLevel.LOOK, "Server ready, 0 of 2 models loaded.")
    assert case.page("overview").words("header").startswith("Server ready, 0 of 2 models loaded.")


def test_c02_a_load_that_outlives_its_client_has_not_failed(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("control.facade.Patience", lambda: Patience(call_seconds=2.0))
    proxy = CountingProxy(case.http)
    case.keep(proxy)
    case.http_urls = [proxy.url]
    case.place(Model("slow"))
    case.switch("slow", "load", "6")
    process = case.watch()
    case.until(lambda: process.is_sandbox("server0"))
    assert process.control is not None
    job = process.control.perform(Action(ActionKind.LOAD, "server0", "slow"), by=WHO)
    stage = case.until(lambda: job.record.stage if "call was given up" in job.record.stage else "")
    assert stage == "still loading slow: the call was given up, the server goes on"
    case.until(lambda: case.states("slow") == {ModelState.LOADING})
    case.until(lambda: not job.record.running)
    assert job.record.outcome is Outcome.DONE
    assert job.record.sentence.startswith("slow is loaded after ")
    case.until(lambda: case.states("slow") == {ModelState.READY})
    assert len(proxy.passed("POST", "/models/slow/load")) == 1
    assert case.said == {}


def test_c05_a_failed_load_tells_its_reason_each_time(case: Case) -> None:
    case.place(Model("m_badinit"))
    case.switch("m_badinit", "broken", "missing weights file on purpose")
    case.watch()
    for _ in range(2):
        record = case.did(ActionKind.LOAD, "m_badinit")
        assert record.outcome is Outcome.FAILED
        reason = "RuntimeError: missing weights file on purpose"
        assert record.sentence.startswith(f"m_badinit v1 not loaded: {reason}")
        assert "Traceback" not in record.sentence
        assert record.detail is not None and "initialize" in record.detail
        found = case.first("ModelLoadFailed")
        assert found.sentence == f"m_badinit failed to load: {reason}."
        assert "initialize" in found.detail
        assert [one.rule for one in case.findings()] == ["ModelLoadFailed"]
    case.switch_off("m_badinit", "broken")
    record = case.did(ActionKind.LOAD, "m_badinit")
    assert record.outcome is Outcome.DONE
    assert case.state("m_badinit") == "READY"
    case.until(lambda: not case.findings())


def test_c07_a_model_without_version_folder_does_not_vanish(case: Case) -> None:
    case.place(Model("m_nover"))
    shutil.rmtree(case.sandboxes[0].repository / "m_nover" / "1")
    case.watch()
    record = case.did(ActionKind.LOAD, "m_nover")
    assert record.outcome is Outcome.FAILED
    assert "version folder" in record.sentence
    found = case.first("LoadRefused")
    assert found.sentence == "m_nover cannot be loaded: it has no version folder that is a plain number."
    assert "an ensemble needs an empty folder 1" in found.remedy
    assert "m_nover" in case.page("repository").words()
    assert set(case.said) == {"LoadRefused"}


def test_c08_what_cannot_be_read_says_where_to_look(case: Case) -> None:
    case.place(Model("garbled", text='name: "garbled"\nbackend: "python"\nmax_batch_size: lots\n'))
    case.add(Model("sound"))
    case.watched_ready("sound")
    for model in ("garbled", "does_not_exist"):
        assert case.did(ActionKind.LOAD, model).outcome is Outcome.FAILED
    case.first("LoadRefused")
    found = {one.model.name: one for one in case.findings() if one.model is not None}
    assert set(found) == {"garbled", "does_not_exist"}
    for model, one in found.items():
        assert one.sentence.startswith(
            f"{model} cannot be loaded: its config.pbtxt cannot be read, or there is no such model"
        )
        assert "the server's log" in one.remedy
    # An override is looked at before it is sent, and what ran before runs on.
    assert case.runtime.control is not None
    action = Action(ActionKind.OVERRIDE, "server0", "sound", config={"no_such_field": "not a value"})
    record = case.runtime.control.perform(action, by=WHO).wait(WITHIN_SECONDS)
    assert record.outcome is Outcome.REFUSED
    assert not record.sent
    assert case.state("sound") == "READY"
    assert set(case.said) == {"LoadRefused"}


def test_c10_unloading_what_is_not_there_is_no_success(case: Case) -> None:
    case.watch()
    record = case.did(ActionKind.UNLOAD, "does_not_exist")
    assert record.outcome is Outcome.REFUSED
    assert record.sentence == "Nothing to unload: does_not_exist is not in the repository index."
    assert not record.sent
    case.findings()
    assert case.said == {}


def test_c13_a_name_that_http_cannot_address_is_shown(case: Case) -> None:
    case.add(Model("worker"))
    case.place(Ensemble("sp ace", ("worker", "worker")))
    case.place(Ensemble("carrier", ("sp ace", "worker")))
    # A step comes with its ensemble, whatever it is called. (A Python model of that name never ends loading.)
    assert case.load("carrier") == 200
    case.watch()
    found = case.first("NameNotAddressable")
    assert found.model is not None and found.model.name == "sp ace"
    assert found.severity is Severity.INFO
    assert found.sentence.startswith("sp ace is READY but cannot be addressed over Triton's HTTP API")
    assert "gRPC" in found.remedy and "Rename" in found.remedy
    control = case.runtime.control
    assert control is not None
    for kind in (ActionKind.LOAD, ActionKind.UNLOAD, ActionKind.RELOAD, ActionKind.TEST_REQUEST):
        decision = control.decide("server0", kind, "sp ace", by=WHO)
        assert (decision.allowed, decision.reason) == (False, NOT_ADDRESSABLE)
    case.clients("carrier", 1, pause_seconds=0.05)
    case.until(lambda: (case.signals("sp ace").number("requests_per_second") or 0.0) > 0.0)
    row = next(one for one in case.page("overview").rows("models") if one[0].startswith("sp ace"))
    assert row[1].startswith("ready")
    assert set(case.said) == {"NameNotAddressable"}
    body = {"parameters": {"unload_dependents": True}}
    requests.post(f"{case.http}/v2/repository/models/carrier/unload", json=body, timeout=30)
    case.until(lambda: case.state("sp ace") == "UNAVAILABLE")


def test_c01_c14_a_server_in_mode_none_with_a_failed_model() -> None:
    options = SandboxOptions(
        http_port=0, grpc_port=0, metrics_port=0, models=("batch_add_model",), simulated_gpu=False,
        extra_models=(FAULT_MODELS["fail_init"],), control_mode="none",
    )  # fmt: skip
    with Sandbox(options) as sandbox:
        case = Case(sandbox)
        try:
            case.watch()
            assert requests.get(f"{case.http}/v2/health/ready", timeout=5).status_code == 400
            found = case.first("ModelLoadFailed")
            assert found.model is not None and found.model.name == "fail_init"
            verdict = case.runtime.verdict(case.runtime.judgement())
            assert verdict.level is VerdictLevel.LOOK
            assert verdict.sentence == "Look soon: fail_init failed to load."
            record = case.did(ActionKind.UNLOAD, "batch_add_model")
            assert (record.outcome, record.sentence) == (Outcome.FAILED, CONTROL_REFUSED)
            assert record.detail is not None and "if polling is enabled" in record.detail
            assert case.runtime.control is not None
            decision = case.runtime.control.decide("server0", ActionKind.LOAD, "fail_init", by=WHO)
            assert (decision.allowed, decision.reason) == (False, CONTROL_REFUSED)
        finally:
            case.close()


# ---- readings


def test_e07_the_processor_is_that_of_the_whole_machine(case: Case) -> None:
    process = case.watch()

    def shares() -> list[float]:
        known = (one.signals.number("cpu_ratio") for one in process.report().host)
        return [share for share in known if share is not None]

    def printed() -> list[float]:
        scrape = process.ring.last("server0", Source.METRICS)
        rows = zip(scrape.samples.series, scrape.samples.values.tolist(), strict=True) if scrape else ()
        return [value for series, value in rows if series.name == "nv_cpu_utilization"]

    # A reading may come between the two looks: then they are taken again.
    case.until(lambda: len(shares()) == 1 and shares() == pytest.approx(printed()))
    assert "whole machine as seen by Triton" in case.page("gpu").words("host")
