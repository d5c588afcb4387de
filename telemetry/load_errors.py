"""What a server says when a load fails, as a sentence with cause and remedy.

One row per text, in `load_error_rows`; every row that a sandbox can produce is provoked on a real server by
`tests/integration/test_load_errors.py`. The texts are those of Triton 2.51; the raw text always stays behind
the fold. `reference()` is docs/load_errors.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from telemetry.load_error_rows import ROWS, LoadErrorRow
from telemetry.reasons import reason_line

POLL_FAILED = "failed to poll from model repository"
_HEAD = re.compile(
    r"^load failed for model '[^']*': (?:version (?P<version>\d+) is at \w+ state: )?(?P<reason>.*)$",
    re.DOTALL,
)
_STATUS_WORD = re.compile(r"^(?:Internal|Invalid argument|Unavailable|Not found|Unsupported|Unknown): ")
_OTHER_REMEDY = "The server's log may say more"
_NOT_SAID = (
    "the server could not read it: the model does not exist, or its config.pbtxt or the override is not valid"
)


@dataclass(frozen=True, slots=True)
class LoadError:
    """One failed load: its `case` ("" for a text no row knows), who, what happened and why, what to do."""

    case: str
    who: str
    what: str
    remedy: str

    @property
    def sentence(self) -> str:
        """`bad v1 not loaded: ValueError: missing weights. The model's own code raised this ...`."""
        return f"{self.who} not loaded: {self.what}. {self.remedy}"


def load_error(model: str, text: str, logged: str | None = None) -> LoadError:
    """A refused load call. `text` is the server's error; `logged` what the server's log says of it, if it can
    be read: for a model that cannot be polled the answer gives no reason at all.
    """  # fmt: skip
    if POLL_FAILED in text:
        if logged:
            return _explained(model, logged)
        return LoadError(
            "not readable, reason in the log only", model, _NOT_SAID, f"{_LOG_ONLY}: look there for {model}"
        )
    head = _HEAD.match(text)
    version = head.group("version") if head else None
    return _explained(f"{model} v{version}" if version else model, head.group("reason") if head else text)


_LOG_ONLY = "Triton writes the reason to its log only"


def index_error(model: str, version: str, reason: str) -> LoadError:
    """A failed load as the index tells it."""
    return _explained(f"{model} v{version}" if version else model, reason)


def explain_reason(reason: str) -> str:
    """An UNAVAILABLE model's reason in words, without the model: `ValueError: missing weights file`."""
    if reason in ("", "unloaded"):
        return reason
    return _explained("", reason).what


def remedy_of(reason: str) -> str:
    """What to do about an UNAVAILABLE model's reason, "" where nothing is wrong."""
    return "" if reason in ("", "unloaded") else _explained("", reason).remedy


def _explained(who: str, reason: str) -> LoadError:
    text = _STATUS_WORD.sub("", reason.strip())
    for row in ROWS:
        found = row.pattern.search(text)
        if found is not None:
            words = {name: reason_line(value or "") for name, value in found.groupdict().items()}
            what = row.what.format(**words).removesuffix(": ")
            return LoadError(row.case, who, what, row.remedy.format(**words))
    return LoadError("", who, reason_line(text) or "the server gave no reason", _OTHER_REMEDY)


_PARSE_ERROR = re.compile(r"Error parsing text-format [\w.]+: \d+:\d+: [^\n]*")


def poll_failure(log: str, model: str) -> str | None:
    """Why the server could not read a model, from the end of its log; None if the log does not say.

    For a config.pbtxt that is no valid text, the reader's own line with the place, which stands before.
    """
    mark = re.compile(
        rf"\"(?:Poll failed for model directory|failed to poll model) '{re.escape(model)}': (?P<why>.*)\"$"
    )
    parse_error: str | None = None
    newest: str | None = None
    for line in log.splitlines():
        parsed, found = _PARSE_ERROR.search(line), mark.search(line)
        if parsed is not None:
            parse_error = parse_error or parsed.group()
        elif found is not None:
            newest, parse_error = parse_error or found.group("why"), None
        else:
            parse_error = None
    return newest


def reference() -> str:
    """The text of docs/load_errors.md."""
    lines = [_line(row) for row in ROWS]
    return "\n".join((_INTRODUCTION, "| when | what Tritonscope says |", "|---|---|", *lines, ""))


def _line(row: LoadErrorRow) -> str:
    shown = f"{row.what}. {row.remedy}".replace("{", "*").replace("}", "*").replace("|", "\\|")
    return f"| {row.case} | {shown} |"


_INTRODUCTION = """# What a failed load says

Written by `python -m tools.generated` from `telemetry/load_error_rows.py`. Words in *italics* are filled in.
Before each stands the model ("resnet18 v1 not loaded: ..."); the server's own text is always one click away.
Every line whose failure an embedded Triton 2.51 can produce is provoked on it by
`tests/integration/test_load_errors.py`; what no line knows is shown as the server said it.

Triton answers a load of a model it cannot read at all with "failed to poll from model repository" and writes
the reason to its log only. On the sandbox Tritonscope reads it there; elsewhere it says so.
"""
