"""One output of an answer: as a table, a picture, text or hex, with its statistics, and as a file."""

from __future__ import annotations

import base64

import streamlit as st

from control.inference import Tensor
from control.output_views import (
    OutputStatistics,
    hex_lines,
    is_picture,
    picture_of,
    statistics_of,
    table_of,
)
from control.request_code import file_name_of
from control.tensor_files import as_json, as_npy, as_raw
from control.tensors import FLOAT_TYPES, INTEGER_TYPES, element_texts, show_shape
from telemetry.units import significant
from ui.format import label_text
from ui.html import Html, copy_button, div, span, tag
from ui.panel import panel

TABLE, PICTURE, TEXT, HEX = "table", "picture", "text", "hex"
SHOWN_ROWS = 100
SHOWN_COLUMNS = 32
SHOWN_ELEMENTS = 200
SHOWN_LETTERS = 20_000
SHOWN_BYTES = 2048
_PICTURE_STYLE = (
    "max-width:100%;max-height:30rem;min-width:min(12rem,100%);image-rendering:pixelated;"
    "border:1px solid var(--line);border-radius:6px"
)


def outputs(tensors: tuple[Tensor, ...], name: str) -> None:
    """Draw the outputs of one reply; `name` makes the keys differ from reply to reply."""
    for tensor in tensors:
        _output(tensor, f"{tensor.name} {name}")


def _output(tensor: Tensor, name: str) -> None:
    texts = element_texts(tensor.array, SHOWN_ELEMENTS)
    copied = "\n".join(texts) if tensor.datatype == "BYTES" else "  ".join(texts)
    panel(
        div(
            tag("b", tensor.name),
            span(f"{tensor.datatype} {show_shape(tensor.shape)}", class_="ts-faint"),
            copy_button(copied),
            class_="ts-h", style="margin-top:.7rem",
        ),
        _figures(tensor),
        key=f"head {name}",
    )  # fmt: skip
    views = _views(tensor, is_picture(tensor.array))
    view = views[0]
    if tensor.array.size:
        with st.container(horizontal=True, vertical_alignment="center"):
            view = st.segmented_control(
                f"View of {label_text(tensor.name)}", views, default=views[0], required=True,
                key=f"view {name}", label_visibility="collapsed",
            )  # fmt: skip
            _downloads(tensor, name)
    panel(_shown(tensor, view), key=f"output {name}")


def _views(tensor: Tensor, is_picture: bool) -> list[str]:
    """The best one first."""
    if tensor.datatype == "BYTES":
        return [*([PICTURE] if is_picture else []), TEXT, TABLE, HEX]
    first = [TEXT, TABLE] if tensor.array.size == 1 else [TABLE, *([PICTURE] if is_picture else []), TEXT]
    return [*first, HEX]


def _shown(tensor: Tensor, view: str) -> Html:
    if not tensor.array.size:
        return div("No values: one of its dimensions is 0.", class_="ts-faint")
    if view == PICTURE:
        return _picture(tensor)
    if view == HEX:
        return _hex(tensor)
    return _text(tensor) if view == TEXT else _table(tensor)


def _figures(tensor: Tensor) -> Html | None:
    found = statistics_of(tensor.datatype, tensor.array)
    if tensor.datatype == "BYTES":
        sizes = [len(value) for value in tensor.array.reshape(-1).tolist()]
        return _line(f"{len(sizes):,} elements, {sum(sizes):,} bytes") if len(sizes) != 1 else _line(
            f"{sizes[0]:,} bytes"
        )  # fmt: skip
    if tensor.datatype == "BOOL" and tensor.array.size > 1:
        return _line(f"{int(tensor.array.sum()):,} of {tensor.array.size:,} are true")
    if found is None or found.count < 2:
        return None if found is None or not found.not_finite else _line(_odd(found))
    parts = [f"{found.count:,} values"]
    if found.minimum is not None and found.maximum is not None:
        parts += [f"min {_number(found.minimum)}", f"max {_number(found.maximum)}"]
    if found.mean is not None:
        parts.append(f"mean {significant(found.mean)}")
    if found.std is not None:
        parts.append(f"std {significant(found.std)}")
    return _line(", ".join(parts), _odd(found))


def _line(words: str, warning: str = "") -> Html:
    return div(
        words, span(f"{', ' if words else ''}{warning}", class_="ts-warn") if warning else None,
        class_="ts-faint", style="font-size:.88rem;margin-bottom:.3rem",
    )  # fmt: skip


def _odd(found: OutputStatistics) -> str:
    """`2 NaN, 1 -Inf`; "" where all is finite."""
    kinds = (("NaN", found.nan), ("+Inf", found.positive_infinity), ("-Inf", found.negative_infinity))
    return ", ".join(f"{count:,} {kind}" for kind, count in kinds if count)


def _number(number: int | float) -> str:
    """Whole numbers to the last digit, others to four."""
    return str(number) if isinstance(number, int) else significant(number)


def _table(tensor: Tensor) -> Html:
    """Rows and columns of exact texts: the browser gets no number it could round."""
    table, over = table_of(tensor.array)
    rows, columns = min(len(table), SHOWN_ROWS), min(table.shape[1], SHOWN_COLUMNS)
    right = "ts-right" if tensor.datatype in (*FLOAT_TYPES, *INTEGER_TYPES) else None
    heads = [tag("th", _row_head(over))]
    heads += [
        tag("th", "value" if table.shape[1] == 1 else str(column), class_=right) for column in range(columns)
    ]
    body = []
    for row in range(rows):
        cells = element_texts(table[row, :columns], columns)
        body.append(
            tag(
                "tr",
                tag("td", _index(row, over), class_="ts-faint"),
                [tag("td", text, class_=right) for text in cells],
            )
        )
    more = _more(len(table) - rows, table.shape[1] - columns)
    return div(
        div(tag("table", tag("thead", tag("tr", heads)), tag("tbody", body), class_="ts-table"),
            class_="ts-scroll ts-tall"),
        div(more, class_="ts-more") if more else None,
    )  # fmt: skip


def _row_head(over: tuple[int, ...]) -> str:
    return "" if len(over) < 2 else "index"


def _index(row: int, over: tuple[int, ...]) -> str:
    """The place of a row: `[0,2]`, or its number where only one dimension runs."""
    if len(over) < 2:
        return str(row)
    places = []
    for size in reversed(over):
        places.append(row % size)
        row //= size
    return show_shape(reversed(places))


def _more(rows: int, columns: int) -> str:
    parts = [f"{rows:,} more rows" if rows else "", f"{columns:,} more columns" if columns else ""]
    shown = " and ".join(part for part in parts if part)
    return f"{shown}: in the file" if shown else ""


def _text(tensor: Tensor) -> Html:
    texts = element_texts(tensor.array, SHOWN_ELEMENTS)
    more = tensor.array.size - len(texts)
    shown = "\n".join(texts) if tensor.datatype == "BYTES" else "  ".join(texts)
    cut = len(shown) > SHOWN_LETTERS
    words = f"and {more:,} more" if more else "cut: the whole text is in the file" if cut else ""
    return div(
        tag("pre", shown[:SHOWN_LETTERS], class_="ts-pre", style="white-space:pre-wrap;margin-top:0"),
        div(words, class_="ts-more") if words else None,
    )


def _hex(tensor: Tensor) -> Html:
    """The bytes of the values as they travel; a single element of BYTES without its length."""
    one = tensor.datatype == "BYTES" and tensor.array.size == 1
    data = tensor.array.reshape(-1)[0] if one else as_raw(tensor.datatype, tensor.array)
    words = "" if one or tensor.datatype != "BYTES" else "Every element follows its length in 4 bytes. "
    more = f"{len(data) - SHOWN_BYTES:,} more bytes: in the file" if len(data) > SHOWN_BYTES else ""
    return div(
        tag("pre", "\n".join(hex_lines(data, SHOWN_BYTES)), class_="ts-pre", style="margin-top:0"),
        div(words + more, class_="ts-more") if words or more else None,
    )


def _picture(tensor: Tensor) -> Html:
    found = picture_of(tensor.array)
    if found is None:
        return div("The file is damaged: it cannot be drawn.", class_="ts-faint")
    data, words = found
    source = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return div(
        tag("img", src=source, alt=f"the output as a picture, {words}", style=_PICTURE_STYLE),
        div(words, class_="ts-more"),
    )


def _downloads(tensor: Tensor, name: str) -> None:
    """The whole tensor as files; made when they are asked for."""
    kinds = [("json", "application/json"), ("raw", "application/octet-stream")]
    if tensor.datatype != "BYTES":
        kinds.insert(0, ("npy", "application/octet-stream"))
    for ending, mime in kinds:
        st.download_button(
            ending, lambda tensor=tensor, ending=ending: _file(tensor, ending),
            file_name_of(tensor.name, ending), mime, key=f"download {ending} {name}", on_click="ignore",
            type="tertiary", icon=":material/download:", help=_HELP[ending],
        )  # fmt: skip


_HELP = {
    "npy": "A NumPy array.",
    "json": "Every value exactly; what is no UTF-8 text as base64.",
    "raw": "The bytes as they travelled.",
}


def _file(tensor: Tensor, ending: str) -> bytes:
    if ending == "npy":
        return as_npy(tensor.array) or b""
    if ending == "json":
        return as_json(tensor.name, tensor.datatype, tensor.array).encode()
    return as_raw(tensor.datatype, tensor.array)
