"""What a server says when a test request goes wrong, as a sentence with cause and remedy.

One row per text; every row that a sandbox can produce is provoked on a real server by
`tests/integration/test_request_failures.py`. The texts are those of Triton 2.51; the raw text always stays
behind the fold. `reference()` is docs/request_errors.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from control.request_error_rows import ROWS, Row
from control.wording import server_text
from telemetry.reasons import reason_line

_HEAD = re.compile(r"^(?:\[request id: (?P<id>[^\]]*)\] )?(?:in ensemble '(?P<ensemble>[^']*)', )?")
_REMEDIES_BY_STATUS = {
    400: "The request does not suit the model: compare it with the model's inputs",
    404: "The model answers, so this comes from its own code: ask who wrote it what was not found",
    500: "Something failed inside the server or the model: its log has the whole text",
    501: "The server or the model does not support this",
    503: "The server cannot take it now: wait, or see what else it is doing",
}


@dataclass(frozen=True, slots=True)
class Explained:
    """One failure: its `case` ("" for a text no row knows), what happened and why, and what to do."""

    case: str
    what: str
    remedy: str

    @property
    def sentence(self) -> str:
        """What happened and why, then what to do: `Queue full: ... (503). Send fewer at a time, ...`."""
        return f"{self.what}. {self.remedy}" if self.remedy else self.what


def explain(model: str, raw: str | None, status: int | None) -> Explained:
    """A refused or failed inference request in words; `raw` is the body or its text, `status` HTTP's."""
    text = server_text(raw)
    head = _HEAD.match(text)
    ensemble = head.group("ensemble") if head else None
    core = text[head.end() :] if head else text
    # What an ensemble prefixes is the text of its step, whose name the row finds in it.
    where = f"In a step of {ensemble}: " if ensemble else ""
    for row in ROWS:
        found = row.match(core)
        if found is not None:
            groups = {name: reason_line(value or "") for name, value in found.groupdict().items()}
            words = {"model": model, **groups}
            return Explained(row.case, where + row.what.format(**words), row.remedy.format(**words))
    code = f" (HTTP {status})" if status else ""
    said = reason_line(core) or "the server gave no reason"
    remedy = _REMEDIES_BY_STATUS.get(status or 0, "The server's log may say more")
    return Explained("", f"{where}{model} refused the request{code}: {said.rstrip('.')}", remedy)


def infer_failure(model: str, raw: str | None, status: int | None) -> str:
    """The same as one text."""
    return explain(model, raw, status).sentence


def reference() -> str:
    """The text of docs/request_errors.md."""
    lines = [_row(row) for row in ROWS]
    return "\n".join((_INTRODUCTION, "| when | what Tritonscope says |", "|---|---|", *lines, ""))


def _row(row: Row) -> str:
    # Doubled braces are meant as braces.
    marked = re.sub(r"\{(\w+)\}", r"*\1*", f"{row.what}. {row.remedy}")
    return f"| {row.case} | {marked.replace('{{', '{').replace('}}', '}')} |"


_INTRODUCTION = """# What a failed test request says

Written by `python -m tools.generated` from `control/request_error_rows.py`. Words in *italics* are filled in.
The server's own text is always one click away. Every line whose failure an embedded Triton 2.51 can produce
is provoked on it by `tests/integration/test_request_failures.py`; what no line knows is shown as the server
said it, with its HTTP status.
"""
