"""The form of a test request: values for every input, what would be sent, and why it cannot be sent."""

from __future__ import annotations

import time
from dataclasses import dataclass

import streamlit as st

import runtime
from control.grpc_client import refusal as grpc_refusal
from control.inference import (
    DEFAULT_TIMEOUT_SECONDS,
    InferenceRequest,
    Tensor,
    Way,
    check_row_count,
    sent_as,
)
from control.performer import Job, Work
from control.request_parameters import ParameterValue
from control.test_requests import MAX_STEPS, check_steps, test_request_work, told_in_journal, ways_for
from telemetry.actions import Action, ActionKind
from telemetry.errors import ControlError, SourceError
from telemetry.facts import ModelConfig, ModelState
from telemetry.identity import ModelKey, Server
from ui.html import Html, div
from ui.person import me
from ui.request_inputs import inputs_of
from ui.request_parameters import parameters_of
from ui.view import View

MOST_OWN_STEPS = 10
"""Steps up to which each may have its own values."""
_SENT_STEPS = "test request sent"
"""Session key: a job's id and the requests it sent."""
_SECOND_CLICK_SECONDS = 0.5
_WAIT_SECONDS = 0.3
"""Most answers come within this: then the page shows them at once, without a second drawing."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the form holds: the request, or why there is none."""

    config: ModelConfig
    request: InferenceRequest | None
    refusal: str = ""
    steps: tuple[InferenceRequest, ...] = ()
    """All requests to send: the steps of a sequence, and else `request` alone."""


def config_of(view: View, key: ModelKey) -> ModelConfig | str:
    """The model's configuration, or one sentence why there is none to make a form of."""
    facts = view.facts(key)
    if facts is not None and facts.state not in (None, ModelState.READY):
        return f"{key.label()} is not loaded: the page Repository loads it."
    if facts is not None and facts.config is not None:
        return facts.config
    control = runtime.current().control
    if control is None:
        return f"The configuration of {key.label()} has not been read yet."
    try:
        return control.reader.config(key.server, key.name, key.version)
    except SourceError as error:
        return f"The configuration of {key.label()} cannot be read. {error.sentence}"


def form(key: ModelKey, config: ModelConfig, *, whole: bool = False) -> Prepared:
    """Draw the form and read it. `whole` offers every way, the steps of a sequence and parameters as well.

    Without it the request is one that can be repeated: a load run's.
    """
    name = f"{key.server} {key.name} {key.version}"
    way = _way(name, key, config) if whole else Way.GENERATE if config.decoupled else Way.INFER
    many = whole and config.sequence_batching
    counted = many or config.max_batch_size > 0
    *count_box, seed_box, wait_box = st.columns(3 if counted else 2)
    rows, steps = 1, 1
    if many:
        steps = count_box[0].number_input(
            "Steps", 1, MAX_STEPS, value=1, step=1, key=f"steps {name}",
            help="This model keeps sequences: its steps are sent one after another, as one whole sequence.",
        )  # fmt: skip
    elif counted:
        rows = count_box[0].number_input(
            "Rows", 0, value=1, step=1, key=f"rows {name}",
            help=f"The batch: 1 to {config.max_batch_size} rows.",
        )  # fmt: skip
    seed = seed_box.number_input(
        "Seed", 0, value=1, step=1, key=f"seed {name}", help="The same seed gives the same random values."
    )
    limit = wait_box.number_input(
        "Time-out, s", 0.1, value=DEFAULT_TIMEOUT_SECONDS, format="%g", key=f"limit {name}",
        help="How long to wait for the answer. The server goes on with a request that was given up.",
    )  # fmt: skip
    drawn, refusals = _steps(name, config, int(steps), int(rows), int(seed))
    parameters: dict[str, ParameterValue] = {}
    if whole:
        with st.expander("Request parameters"):
            parameters, wrong = parameters_of(name)
            refusals += wrong
    requests = tuple(
        InferenceRequest(key.server, key.name, key.version, tensors, float(limit), parameters, way)
        for tensors in drawn
    )
    return prepared_of(config, requests, int(rows), refusals)


def _way(name: str, key: ModelKey, config: ModelConfig) -> Way:
    """How it travels, where there is a choice; a word on why gRPC is none."""
    server = _server(key.server)
    if server is None:
        return Way.INFER
    ways = ways_for(config, server)
    missing = grpc_refusal(server)
    if len(ways) == 1:
        return ways[0]
    return st.segmented_control(
        "Way", ways, default=ways[0], required=True, key=f"way {name}", format_func=str,
        help=f"generate sends JSON, infer and gRPC exact binary tensors. {missing}".strip(),
    )  # fmt: skip


def _server(server_id: str) -> Server | None:
    return next((one for one in runtime.current().servers if one.id == server_id), None)


def _steps(
    name: str, config: ModelConfig, steps: int, rows: int, seed: int
) -> tuple[list[tuple[Tensor, ...]], list[str]]:
    """The tensors of every step, the same ones or each its own."""
    own = 1 < steps <= MOST_OWN_STEPS and st.checkbox("Each step has its own values", key=f"own {name}")
    if not own:
        tensors, refusals = inputs_of(name, config, rows, seed)
        return [tensors] * steps, refusals
    drawn, refusals = [], []
    for place, tab in enumerate(st.tabs([f"Step {number + 1}" for number in range(steps)])):
        with tab:
            tensors, wrong = inputs_of(f"step {place + 1} {name}", config, rows, seed + 100 * place)
            drawn.append(tensors)
            refusals += [f"Step {place + 1}: {sentence}" for sentence in wrong]
    return drawn, refusals


def preview(prepared: Prepared) -> Html:
    """What would be sent, or why it cannot be."""
    if prepared.request is None:
        return div(prepared.refusal, class_="ts-bad", role="alert")
    lines = [div(sent_as(prepared.config, tensor)) for tensor in prepared.request.tensors]
    note = None
    if prepared.config.sequence_batching:
        count = len(prepared.steps)
        words = f"{count} steps are sent as one" if count > 1 else "the request is sent as a"
        note = div(f"This model keeps sequences: {words} whole sequence, under an id of its own.")
    return div(lines, note, class_="ts-faint", style="font-size:.88rem")


def press(button: str) -> None:
    """Remember a click; `pressed` takes it in the run that follows, which reads the form as it stands then.

    A click's own arguments are of the run before: they miss what was typed last.
    """
    st.session_state[f"{button} pressed"] = True


def pressed(button: str) -> bool:
    """True once after a click."""
    return bool(st.session_state.pop(f"{button} pressed", False))


def send(prepared: Prepared, session: str = "test_job") -> None:
    """Send the prepared request once: also a double click sends one."""
    control = runtime.current().control
    if control is None or prepared.request is None:
        return
    before = st.session_state.get(session)
    start(
        session,
        ActionKind.TEST_REQUEST,
        prepared,
        test_request_work(control.reader, prepared.config, *prepared.steps),
    )
    if st.session_state.get(session) != before:
        st.session_state[_SENT_STEPS] = (st.session_state[session], prepared.steps)


def sent_steps(job: Job) -> tuple[InferenceRequest, ...]:
    """The requests that this job sent, which the form may no longer hold; none if it was another one."""
    job_id, steps = st.session_state.get(_SENT_STEPS, (None, ()))
    return steps if job_id == job.id else ()


def start(session: str, kind: ActionKind, prepared: Prepared, work: Work) -> None:
    """Begin an action of this session, unless its last one still runs or was begun just now."""
    control, last = runtime.current().control, job_of(session)
    if control is None or prepared.request is None:
        return
    if last is not None and (
        last.record.running or time.time() - last.record.started_at < _SECOND_CLICK_SECONDS
    ):
        return
    request = prepared.request
    st.session_state.pop(f"{session} refused", None)
    try:
        told = told_in_journal(prepared.config, prepared.steps or (request,))
        action = Action(kind, request.server, request.model, request.version, parameters=told)
        job = control.perform(action, work, by=me())
    except ControlError as error:
        st.session_state[f"{session} refused"] = error.sentence
        return
    st.session_state[session] = job.id
    job.wait(_WAIT_SECONDS)


def job_of(session: str, key: ModelKey | None = None) -> Job | None:
    """The last action of this kind in this session; with `key`, only one on this model."""
    control, record_id = runtime.current().control, st.session_state.get(session)
    job = control.job(record_id) if control is not None and record_id is not None else None
    if job is None or key is None:
        return job
    action = job.record.action
    return (
        job if (action.server, action.model, action.version) == (key.server, key.name, key.version) else None
    )


def refused(session: str) -> str:
    """Why the last click was not sent; "" if it was."""
    return st.session_state.get(f"{session} refused", "")


def prepared_of(
    config: ModelConfig, requests: tuple[InferenceRequest, ...], rows: int, refusals: list[str]
) -> Prepared:
    """The requests, ready to be sent, or why they cannot be."""
    try:
        if config.max_batch_size > 0:
            check_row_count(config, rows)
        if refusals:
            return Prepared(config, None, " ".join(f"{sentence}." for sentence in refusals))
        check_steps(config, requests)
    except ControlError as error:
        return Prepared(config, None, error.sentence)
    return Prepared(config, requests[0], steps=requests)
