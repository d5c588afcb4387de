"""On the real server, behind a counting proxy: without the right nothing leaves; nobody smuggles code in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from control.performer import Course, Work
from sandbox import Sandbox, SandboxOptions
from telemetry.access import ALL_RIGHTS, ANY_SERVER, LOCAL, NOBODY, VIEWER, How, Identity, Right
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.errors import InvalidRequest, NotAllowed, Restricted
from telemetry.identity import Server
from telemetry.transport import Transport
from tests.counting_proxy import CountingProxy
from tests.integration.write_lab import LIMIT_SECONDS, Lab, started_lab

pytestmark = pytest.mark.integration
MODEL = "batch_add_model"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with started_lab(MODEL) as started:
        yield started


def action(lab: Lab, kind: ActionKind) -> tuple[Action, Work | None]:
    """The action as a page would ask for it; work that sends where the page brings it."""
    config = lab.reader.config("lab", MODEL).raw if kind is ActionKind.OVERRIDE else None
    parameters = {"level": 1} if kind is ActionKind.LOG_LEVEL else {}

    def sends(course: Course) -> Conclusion:
        Transport(course.server).get(f"{course.server.http_url}/v2/health/live")
        return Conclusion(Outcome.DONE, "sent")

    own = kind.changes_repository or kind is ActionKind.LOG_LEVEL
    return Action(kind, "lab", MODEL, config=config, parameters=parameters), None if own else sends


def without(right: Right) -> dict[str, Identity]:
    """Everybody who lacks it: up to the person who has all the others."""
    return {
        "anonymous": NOBODY,
        "a viewer": Identity("viewer", How.OIDC, {ANY_SERVER: VIEWER}),
        "everything else": Identity("almost", How.OIDC, {ANY_SERVER: ALL_RIGHTS - {right}}),
        "everything elsewhere": Identity(
            "elsewhere", How.OIDC, {"lab": VIEWER, "other": ALL_RIGHTS, ANY_SERVER: ALL_RIGHTS}
        ),
        "all rights but to see it": Identity(
            "blind", How.OIDC, {"lab": ALL_RIGHTS - VIEWER, "x": ALL_RIGHTS}
        ),
    }


@pytest.mark.parametrize("kind", list(ActionKind), ids=str)
def test_without_the_right_every_action_is_refused_and_not_a_byte_is_sent(lab: Lab, kind: ActionKind) -> None:
    wanted, work = action(lab, kind)
    before, records = len(lab.proxy.passed()), len(lab.control.records())
    for who, person in without(kind.right).items():
        decision = lab.control.decide("lab", kind, MODEL, by=person)
        assert not decision.allowed, who
        with pytest.raises(NotAllowed) as refused:
            lab.control.perform(wanted, work, by=person)
        assert refused.value.sentence == decision.reason, "the button and the guard say the same"
    assert len(lab.proxy.passed()) == before
    assert len(lab.control.records()) == records
    # And it is the right that was missing, nothing else.
    just = Identity("just", How.OIDC, {"lab": VIEWER | {kind.right}})
    assert lab.control.decide("lab", kind, MODEL, by=just).allowed or kind.right is Right.LOAD_RUN


def test_a_server_that_somebody_may_not_view_does_not_exist_for_them(lab: Lab) -> None:
    blind = Identity("blind", How.OIDC, {"other": ALL_RIGHTS})
    reason = lab.control.decide("lab", ActionKind.LOAD, MODEL, by=blind).reason
    assert reason == lab.control.decide("nowhere", ActionKind.LOAD, MODEL, by=LOCAL).reason.replace(
        "nowhere", "lab"
    )


def test_the_journal_names_who_it_was(lab: Lab) -> None:
    person = Identity("a@example.com", How.OIDC, {"lab": VIEWER | {Right.INFER}})
    wanted, work = action(lab, ActionKind.TEST_REQUEST)
    forged = Action(wanted.kind, "lab", MODEL, who="somebody else")
    record = lab.control.perform(forged, work, by=person).wait(LIMIT_SECONDS)
    assert record.outcome is Outcome.DONE, record
    assert (record.action.who, record.action.how) == ("a@example.com", How.OIDC)


# ---- an override that smuggles code


def _with(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda config: config.update(fields)


def _in_group(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda config: config["instance_group"][0].update({key: value})


CODE = "aW1wb3J0IG9zCg=="
SMUGGLED: dict[str, Callable[[dict[str, Any]], None]] = {
    "a file": _with(**{"file:1/model.py": CODE}),
    "a file outside": _with(**{"file:../../etc/cron.d/x": CODE}),
    "another backend": _with(backend="pytorch"),
    "another platform": _with(platform="ensemble"),
    "another runtime": _with(runtime="libevil.so"),
    "another file name": _with(default_model_filename="../other/1/model.py"),
    "another name": _with(name="other"),
    "parameters": _with(parameters={"EXECUTION_ENV_PATH": {"string_value": "/tmp/evil.tar.gz"}}),
    "model operations": _with(model_operations={"op_library_filename": ["/tmp/evil.so"]}),
    "repository agents": _with(model_repository_agents={"agents": [{"name": "evil"}]}),
    "an accelerator": _with(optimization={"execution_accelerators": {"gpu_execution_accelerator": [
        {"name": "tensorrt", "parameters": {"plugin": "/tmp/evil.so"}}]}}),
    "a warm-up file": _with(model_warmup=[{"name": "x", "inputs": {"A": {"input_data_file": "../x"}}}]),
    "metric tags": _with(metric_tags={"a": "b"}),
    "a batcher of its own": _with(dynamic_batching={"preferred_batch_size": [2], "library": "evil.so"}),
    "a batcher's library": _with(batch_input=[{"kind": "BATCH_ELEMENT_COUNT", "source_input": ["/tmp/x"]}]),
    "a passive group": _in_group("passive", True),
    "a group's profile": _in_group("profile", ["file:1/model.py"]),
    "a group's secondary device": _in_group("secondary_devices", [{"kind": "KIND_NVDLA", "device_id": 0}]),
    "a group's host policy": _in_group("host_policy", "/tmp/evil"),
    "a group's parameters": _in_group("parameters", {"file:1/model.py": CODE}),
    "a nested file": _with(dynamic_batching={"default_queue_policy": {"file:1/model.py": CODE}}),
    "code as a number": _with(max_batch_size="4; import os"),
    "code as a policy": _with(version_policy={"file:1/model.py": CODE}),
    "a cache of its own": _with(response_cache={"enable": True, "library": "/tmp/evil.so"}),
}  # fmt: skip


@pytest.mark.parametrize("name", SMUGGLED)
def test_an_override_that_could_mean_code_never_reaches_the_server(lab: Lab, name: str) -> None:
    config = deepcopy(dict(lab.reader.config("lab", MODEL).raw))
    SMUGGLED[name](config)
    before = len(lab.proxy.passed("POST"))
    try:
        record = lab.control.perform(Action(ActionKind.OVERRIDE, "lab", MODEL, config=config), by=LOCAL)
        ended = record.wait(LIMIT_SECONDS)
        assert ended.outcome is Outcome.REFUSED, ended
        assert ended.sent is False
    except InvalidRequest as error:
        assert error.sentence
    posts = [one.path for one in lab.proxy.passed("POST")[before:]]
    assert [path for path in posts if path.endswith(("/load", "/unload"))] == []


# ---- Triton's own keys


def test_keys_of_restricted_apis_are_given_group_by_group() -> None:
    keys = {"model-repository": {"admin-key": "for loading"}, "inference": {"infer-key": "for asking"}}
    options = SandboxOptions(
        http_port=0, grpc_port=0, metrics_port=0, models=(MODEL,), simulated_gpu=False,
        extra_args=(
            "--http-restricted-api=model-repository:admin-key=for loading",
            "--http-restricted-api=inference:infer-key=for asking",
        ),
    )  # fmt: skip
    with Sandbox(options) as sandbox, CountingProxy(sandbox.http_url) as proxy:
        keyless = Server("lab", proxy.url, None, control=True)
        for path, api, header in (
            ("/v2/repository/index", "model-repository", "admin-key"),
            (f"/v2/repository/models/{MODEL}/load", "model-repository", "admin-key"),
            (f"/v2/models/{MODEL}/infer", "inference", "infer-key"),
        ):
            with pytest.raises(Restricted) as refused:
                Transport(keyless).post(f"{proxy.url}{path}", "{}")
            assert (
                f"restricts its {api} API (HTTP 403, it expects the header {header})"
                in refused.value.sentence
            )
            assert f"api_headers_from_env: {{{api}: {{{header}: VARIABLE}}}}" in refused.value.sentence
        keyed = Lab(sandbox, proxy)
        keyed.server = Server("lab", proxy.url, None, control=True, api_headers=keys)
        assert keyed.states(MODEL) == {"READY"}
        assert keyed.do(ActionKind.RELOAD, MODEL).outcome is Outcome.DONE
        assert keyed.reader.statistics("lab")
