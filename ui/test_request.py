"""The form of a test request: values for every input, what would be sent, and why it cannot be sent."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import streamlit as st

import runtime
from control.actions import Action, ActionKind
from control.image_input import image_array, takes_images
from control.inference import (
    DEFAULT_TIMEOUT_SECONDS,
    InferenceRequest,
    Tensor,
    check_request,
    check_row_count,
    sent_as,
)
from control.performer import Job, Work
from control.tensor_files import npy_array
from control.tensors import AnyArray, arranged, random_array, show_shape, typed_array, zeros_array
from control.test_requests import test_request_work
from telemetry.errors import ControlError, SourceError
from telemetry.facts import ModelConfig, ModelState, TensorSpec
from telemetry.identity import ModelKey
from ui.html import Html, div, span, tag
from ui.panel import panel
from ui.person import me
from ui.view import View

TYPED, RANDOM, ZEROS, FILE, IMAGE, BYTES = "typed", "random", "zeros", ".npy file", "picture", "any file"
PICTURES = ("png", "jpg", "jpeg", "bmp", "gif", "webp")
_TYPED_UP_TO = 16
"""Elements of an input up to which typing is the first choice."""
_ONE_LINE_UP_TO = 8
_IMAGE_SIDE = 224
_SECOND_CLICK_SECONDS = 0.5
_WAIT_SECONDS = 0.3
"""Most answers come within this: then the page shows them at once, without a second drawing."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the form holds: the request, or why there is none."""

    config: ModelConfig
    request: InferenceRequest | None
    refusal: str = ""


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


def form(key: ModelKey, config: ModelConfig) -> Prepared:
    """Draw the form and read it."""
    name = f"{key.server} {key.name} {key.version}"
    batching = config.max_batch_size > 0
    row_box, seed_box, wait_box = st.columns(3)
    rows = 1
    if batching:
        rows = row_box.number_input(
            "Rows",
            0,
            value=1,
            step=1,
            key=f"rows {name}",
            help=f"The batch: 1 to {config.max_batch_size} rows.",
        )
    seed = seed_box.number_input(
        "Seed", 0, value=1, step=1, key=f"seed {name}", help="The same seed gives the same random values."
    )
    limit = wait_box.number_input(
        "Time-out, s", 0.1, value=DEFAULT_TIMEOUT_SECONDS, format="%g", key=f"limit {name}",
        help="How long to wait for the answer. The server goes on with a request that was given up.",
    )  # fmt: skip
    tensors, refusals = [], []
    for position, spec in enumerate(config.inputs):
        try:
            array = _input(f"{position} {name}", spec, batching, int(rows), int(seed) + position)
            if array is not None:
                tensors.append(Tensor(spec.name, spec.datatype, array))
        except ControlError as error:
            refusals.append(error.sentence)
    request = InferenceRequest(key.server, key.name, key.version, tuple(tensors), float(limit))
    return _prepared(config, request, int(rows), refusals)


def preview(prepared: Prepared) -> Html:
    """What would be sent, or why it cannot be."""
    if prepared.request is None:
        return div(prepared.refusal, class_="ts-bad", role="alert")
    lines = [div(sent_as(prepared.config, tensor)) for tensor in prepared.request.tensors]
    note = (
        div("This model keeps sequences: the request is sent as a whole sequence of its own.")
        if prepared.config.sequence_batching
        else None
    )
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
    start(
        session,
        ActionKind.TEST_REQUEST,
        prepared,
        test_request_work(control.reader, prepared.config, prepared.request),
    )


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
        job = control.perform(Action(kind, request.server, request.model, request.version), work, by=me())
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


def _prepared(config: ModelConfig, request: InferenceRequest, rows: int, refusals: list[str]) -> Prepared:
    try:
        if config.max_batch_size > 0:
            check_row_count(config, rows)
        if refusals:
            return Prepared(config, None, " ".join(f"{sentence}." for sentence in refusals))
        check_request(config, request)
    except ControlError as error:
        return Prepared(config, None, error.sentence)
    return Prepared(config, request)


def _input(name: str, spec: TensorSpec, batching: bool, rows: int, seed: int) -> AnyArray | None:
    """One input of the form, shaped as it is sent; None for an optional one that is left out."""
    panel(
        div(
            tag("b", spec.name),
            span(f"{spec.datatype} {show_shape(spec.dims)}", class_="ts-faint"),
            class_="ts-h", style="margin-bottom:0",
        ),
        key=f"input {name}",
    )  # fmt: skip
    if spec.optional and not st.checkbox("send this optional input", key=f"send {name}"):
        return None
    how = st.segmented_control(
        f"Values of {spec.name}", _ways(spec), default=_first_way(spec), required=True, key=f"how {name}",
        label_visibility="collapsed",
    )  # fmt: skip
    values = _values(name, spec, how, seed, rows if batching else 0)
    if how in (RANDOM, ZEROS):
        return values
    return arranged(spec, values, batching=batching, rows=rows)


def _values(name: str, spec: TensorSpec, how: str, seed: int, rows: int) -> AnyArray:
    if how == TYPED:
        return typed_array(spec.name, spec.datatype, _typed(name, spec))
    if how == FILE:
        return npy_array(spec.name, spec.datatype, _upload(name, spec, ("npy",)))
    if how in (IMAGE, BYTES):
        return image_array(spec, _upload(name, spec, PICTURES if how == IMAGE else ()))
    shape = ((rows,) if rows else ()) + _sizes(name, spec)
    return random_array(spec.datatype, shape, seed) if how == RANDOM else zeros_array(spec.datatype, shape)


def _typed(name: str, spec: TensorSpec) -> str:
    label, first, key = f"{spec.name} typed", _example(spec), f"typed {name}"
    if spec.datatype == "BYTES" or -1 in spec.dims or math.prod(spec.dims) > _ONE_LINE_UP_TO:
        words = (
            "One text a line, or JSON" if spec.datatype == "BYTES" else "Numbers with blanks between, or JSON"
        )
        return st.text_area(label, first, key=key, height=68, label_visibility="collapsed", placeholder=words)
    words = "Numbers with blanks between; one row is repeated for all rows"
    return st.text_input(label, first, key=key, label_visibility="collapsed", placeholder=words)


def _upload(name: str, spec: TensorSpec, kinds: tuple[str, ...]) -> bytes:
    file = st.file_uploader(
        f"File for {spec.name}",
        type=list(kinds) or None,
        key=f"file {kinds} {name}",
        label_visibility="collapsed",
    )
    if file is None:
        raise ControlError(f"{spec.name}: no file is chosen")
    return file.getvalue()


def _sizes(name: str, spec: TensorSpec) -> tuple[int, ...]:
    """The dims with a number for each -1."""
    open_ones = [index for index, size in enumerate(spec.dims) if size == -1]
    if not open_ones:
        return spec.dims
    first = _IMAGE_SIDE if takes_images(spec) and len(spec.dims) > 1 else 1
    sizes = list(spec.dims)
    for box, index in zip(st.columns(len(open_ones)), open_ones, strict=True):
        sizes[index] = int(
            box.number_input(
                f"Size of dimension {index + 1}", 1, value=first, step=1, key=f"dim {index} {name}"
            )
        )
    return tuple(sizes)


def _ways(spec: TensorSpec) -> list[str]:
    upload = [BYTES if spec.datatype == "BYTES" else IMAGE] if takes_images(spec) else []
    return [TYPED, RANDOM, ZEROS, FILE, *upload]


def _first_way(spec: TensorSpec) -> str:
    elements = math.prod(spec.dims)
    return TYPED if -1 in spec.dims or elements <= _TYPED_UP_TO else RANDOM


def _example(spec: TensorSpec) -> str:
    """What stands in the field first: 1 2 3 ... for numbers."""
    count = math.prod(size for size in spec.dims if size != -1)
    if count > _TYPED_UP_TO:
        return ""
    if spec.datatype == "BYTES":
        return "\n".join(["hello"] * count)
    if spec.datatype == "BOOL":
        return " ".join(["true"] * count)
    return " ".join(str(number) for number in range(1, count + 1))
