"""The one guard: who may do what, and the reason a button shows."""

from __future__ import annotations

import pytest

from control.facade import Control
from control.policy import CONTROL_REFUSED, NONE_OR_POLL, NOT_ADDRESSABLE, Decision, Policy
from telemetry.access import LOCAL, VIEWER, How, Identity, Right
from telemetry.actions import Action, ActionKind
from telemetry.errors import NotAllowed
from telemetry.facts import IndexEntry, ModelConfig, ModelStatistics
from telemetry.identity import Server

SANDBOX = Server("sandbox", "http://127.0.0.1:8000", None, expected_server_name="tritonscope-1")
SWITCHED_ON = Server("lab", "http://lab:8000", None, control=True, load_run_limit_per_second=50.0)
NO_LOAD_RUNS = Server("shop", "http://shop:8000", None, control=True)
READ_ONLY = Server("prod", "http://prod:8000", None)
METRICS_ONLY = Server("blind", None, "http://blind:8002/metrics", control=True)
SERVERS = (SANDBOX, SWITCHED_ON, NO_LOAD_RUNS, READ_ONLY, METRICS_ONLY)


class NeverAsked:
    """A reader that fails the test when it is used."""

    def index(self, server_id: str) -> tuple[IndexEntry, ...]:
        raise AssertionError(f"{server_id} was asked")

    def statistics(self, server_id: str) -> tuple[ModelStatistics, ...]:
        raise AssertionError(f"{server_id} was asked")

    def config(self, server_id: str, model: str, version: str = "") -> ModelConfig:
        raise AssertionError(f"{server_id} was asked")


def policy(sandbox_answers: bool = True) -> Policy:
    return Policy(lambda: SERVERS, lambda server_id: sandbox_answers and server_id == "sandbox")


@pytest.mark.parametrize("kind", list(ActionKind))
@pytest.mark.parametrize(("server", "allowed"), [("sandbox", True), ("lab", True), ("prod", False)])
def test_only_the_own_sandbox_and_switched_on_servers_are_written_to(
    kind: ActionKind, server: str, allowed: bool
) -> None:
    assert policy().decide(server, kind, "alpha", by=LOCAL).allowed is allowed


@pytest.mark.parametrize("kind", [ActionKind.LOAD_RUN, ActionKind.EXPERIMENT])
def test_load_runs_need_a_limit_for_the_server_besides_control(kind: ActionKind) -> None:
    decision = policy().decide("shop", kind, "alpha", by=LOCAL)
    assert decision == Decision(
        False,
        "Load runs on shop are off: they would take capacity from its users. To allow them up to a limit, "
        "write load_runs: {max_requests_per_second: 50} at this server in tritonscope.yml.",
    )
    assert policy().decide("shop", ActionKind.TEST_REQUEST, "alpha", by=LOCAL).allowed


def test_the_cap_of_load_runs_is_the_settings_and_the_sandbox_has_none() -> None:
    assert policy().load_run_cap_per_second(SWITCHED_ON) == 50.0
    assert policy().load_run_cap_per_second(SANDBOX) is None
    with pytest.raises(NotAllowed, match="Load runs on shop are off"):
        policy().load_run_cap_per_second(NO_LOAD_RUNS)
    with pytest.raises(NotAllowed, match="Load runs on sandbox are off"):
        policy(sandbox_answers=False).load_run_cap_per_second(SANDBOX)


def test_read_only_says_how_to_switch_control_on() -> None:
    decision = policy().decide("prod", ActionKind.UNLOAD, "alpha", by=LOCAL)
    assert decision.reason == (
        "Read-only: control of prod is not switched on. "
        "To allow it, write control: true at this server in tritonscope.yml."
    )


def test_a_foreign_server_at_the_sandbox_address_is_read_only() -> None:
    decision = policy(sandbox_answers=False).decide("sandbox", ActionKind.LOAD, "alpha", by=LOCAL)
    assert not decision.allowed
    assert "not the sandbox this run started" in decision.reason


def test_a_server_without_http_address_and_an_unknown_one_are_refused() -> None:
    assert policy().decide("blind", ActionKind.LOAD, "alpha", by=LOCAL).reason == (
        "blind has no HTTP address in the settings: nothing can be sent to it."
    )
    assert policy().decide("gone", ActionKind.LOAD, by=LOCAL).reason == "No server 'gone' is configured."


@pytest.mark.parametrize("name", ["sp ace", 'quo"te', "ünï", "a/b", "per%20cent"])
def test_names_the_http_api_cannot_address_are_refused_with_the_reason(name: str) -> None:
    assert policy().decide("lab", ActionKind.TEST_REQUEST, name, by=LOCAL).reason == NOT_ADDRESSABLE


def test_a_server_that_refused_control_keeps_its_buttons_off_until_it_restarts() -> None:
    control = Control(lambda: SERVERS, NeverAsked(), lambda server_id: False)
    control.policy.note_control_mode("lab", NONE_OR_POLL)
    assert control.decide("lab", ActionKind.LOAD, "alpha", by=LOCAL).reason == CONTROL_REFUSED
    assert "--model-control-mode=explicit" in CONTROL_REFUSED
    assert control.decide("lab", ActionKind.TEST_REQUEST, "alpha", by=LOCAL).allowed
    assert control.control_mode("lab") == "none or poll"
    control.server_restarted("lab")
    assert control.decide("lab", ActionKind.LOAD, "alpha", by=LOCAL).allowed
    assert control.control_mode("lab") is None


@pytest.mark.parametrize("kind", list(ActionKind))
def test_without_the_right_every_action_is_refused_and_nothing_is_asked_or_written_down(
    kind: ActionKind,
) -> None:
    control = Control(lambda: SERVERS, NeverAsked(), lambda server_id: False)

    def never(course: object) -> None:
        raise AssertionError("the work was begun")

    with pytest.raises(NotAllowed, match="Read-only"):
        control.perform(Action(kind, "prod", "alpha"), never, by=LOCAL)  # type: ignore[arg-type]
    assert control.records() == ()


def test_without_the_right_the_reason_says_what_is_missing_and_how_to_get_it() -> None:
    anonymous = Identity("anonymous (10.0.0.7)", How.ANONYMOUS, {"*": VIEWER})
    assert policy().decide("lab", ActionKind.LOAD, "alpha", by=anonymous).reason == (
        "You are not signed in, and this needs the right 'load' on lab. Open the app on its own machine "
        "(127.0.0.1), or sign in: docs/security.md says how."
    )
    tester = Identity("t@example.com", How.OIDC, {"*": VIEWER | {Right.INFER}})
    assert policy().decide("lab", ActionKind.TEST_REQUEST, "alpha", by=tester).allowed
    assert policy().decide("lab", ActionKind.OVERRIDE, "alpha", by=tester).reason == (
        "t@example.com may not do this: it needs the right 'override' on lab, which the settings (`access:`) "
        "do not give."
    )
