"""The inputs of a request on the form: typed, random, zeros, or from a file, shaped as they are sent."""

from __future__ import annotations

import math

import streamlit as st

from control.image_input import image_array, takes_images
from control.inference import Tensor
from control.tensor_files import MAX_FILE_BYTES, check_file_size, json_array, npy_array, raw_array, text_array
from control.tensors import AnyArray, arranged, random_array, show_shape, typed_array, zeros_array
from telemetry.errors import ControlError
from telemetry.facts import ModelConfig, TensorSpec
from ui.format import label_text
from ui.html import div, span, tag
from ui.panel import panel

TYPED, RANDOM, ZEROS, FILE = "typed", "random", "zeros", "file"
NPY, JSON, TEXT, RAW, PICTURE = ".npy", "JSON", "text", "raw bytes", "picture"
_READERS = {NPY: npy_array, JSON: json_array, TEXT: text_array, RAW: raw_array}
_TYPED_UP_TO = 16
"""Elements of an input up to which typing is the first choice."""
_ONE_LINE_UP_TO = 8
_IMAGE_SIDE = 224
_HELP = {
    NPY: "A NumPy array; never one with Python objects.",
    JSON: 'Nested lists, or {"shape": ..., "data": ...} as Triton writes it.',
    TEXT: "BYTES: the whole text is one element. Numbers: with blanks or commas between.",
    RAW: "The bytes as they are: one element for BYTES, little-endian values for numbers.",
    PICTURE: "Scaled to the input's height and width; floats become 0 to 1.",
}


def inputs_of(
    name: str, config: ModelConfig, rows: int, seed: int, example: bool = True
) -> tuple[tuple[Tensor, ...], list[str]]:
    """Draw all inputs and read them: the tensors, and why an input has none; `name` makes the keys differ."""
    tensors, refusals = [], []
    batching = config.max_batch_size > 0
    for position, spec in enumerate(config.inputs):
        try:
            array = _input(f"{position} {name}", spec, batching, rows, seed + position, example)
            if array is not None:
                tensors.append(Tensor(spec.name, spec.datatype, array))
        except ControlError as error:
            refusals.append(error.sentence)
    return tuple(tensors), refusals


def _input(
    name: str, spec: TensorSpec, batching: bool, rows: int, seed: int, example: bool
) -> AnyArray | None:
    """One input of the form, shaped as it is sent; None for an optional one that is left out."""
    panel(
        div(
            tag("b", spec.name),
            span(
                f"{spec.datatype} {show_shape(spec.dims)}{', optional' if spec.optional else ''}",
                class_="ts-faint",
            ),
            class_="ts-h", style="margin-bottom:0",
        ),
        key=f"input {name}",
    )  # fmt: skip
    if spec.optional and not st.checkbox("send this optional input", key=f"send {name}"):
        return None
    how = st.segmented_control(
        f"Values of {label_text(spec.name)}", (TYPED, RANDOM, ZEROS, FILE), default=_first_way(spec),
        required=True, key=f"how {name}", label_visibility="collapsed",
    )  # fmt: skip
    values = _values(name, spec, how, seed, rows if batching else 0, example)
    if how in (RANDOM, ZEROS):
        return values
    return arranged(spec, values, batching=batching, rows=rows)


def _values(name: str, spec: TensorSpec, how: str, seed: int, rows: int, example: bool) -> AnyArray:
    if how == TYPED:
        return typed_array(spec.name, spec.datatype, _typed(name, spec, example))
    if how == FILE:
        return _from_file(name, spec)
    shape = ((rows,) if rows else ()) + _sizes(name, spec)
    return random_array(spec.datatype, shape, seed) if how == RANDOM else zeros_array(spec.datatype, shape)


def _typed(name: str, spec: TensorSpec, example: bool) -> str:
    label, first, key = f"{label_text(spec.name)} typed", _example(spec) if example else "", f"typed {name}"
    if spec.datatype == "BYTES" or -1 in spec.dims or math.prod(spec.dims) > _ONE_LINE_UP_TO:
        words = (
            "One text a line, or JSON" if spec.datatype == "BYTES" else "Numbers with blanks between, or JSON"
        )
        return st.text_area(label, first, key=key, height=68, label_visibility="collapsed", placeholder=words)
    words = "Numbers with blanks between; one row is repeated for all rows"
    return st.text_input(label, first, key=key, label_visibility="collapsed", placeholder=words)


def _from_file(name: str, spec: TensorSpec) -> AnyArray:
    kinds = [NPY, JSON, TEXT, RAW, *([PICTURE] if takes_images(spec) and spec.datatype != "BYTES" else [])]
    first = RAW if spec.datatype == "BYTES" else PICTURE if PICTURE in kinds else NPY
    kind = st.segmented_control(
        f"Kind of file for {label_text(spec.name)}", kinds, default=first, required=True, key=f"kind {name}",
        label_visibility="collapsed",
    )  # fmt: skip
    # Any ending is taken: what counts is the content, and the name is never used.
    file = st.file_uploader(
        f"File for {label_text(spec.name)}", key=f"file {name}", label_visibility="collapsed",
        help=_HELP[kind], max_upload_size=MAX_FILE_BYTES >> 20,
    )  # fmt: skip
    if file is None:
        raise ControlError(f"{spec.name}: no file is chosen. {_HELP[kind].removesuffix('.')}")
    check_file_size(spec.name, file.size)
    if kind == PICTURE:
        return image_array(spec, file.getvalue())
    return _READERS[kind](spec.name, spec.datatype, file.getvalue())


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
                f"Size of dimension {index + 1}", 0, value=first, step=1, key=f"dim {index} {name}"
            )
        )
    return tuple(sizes)


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
