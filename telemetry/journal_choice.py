"""Where and how actions are recorded, as the settings say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from telemetry.located_yaml import Located, Plain
from telemetry.scrape import Notice

FILE_NAME = "journal.jsonl"
MAX_BYTES = 5_000_000
SMALLEST_BYTES = 10_000
KEEP = 5

JOURNAL_KEYS: dict[str, str] = {
    "path": "file of the journal; default: beside the sandbox's state, else "
    f"`$XDG_STATE_HOME/tritonscope/{FILE_NAME}` (`~/.local/state` without that variable); beside it "
    "stands what else outlives the process: memory around loads, advice and its predictions, load runs",
    "max_bytes": f"size at which a new part is begun, bytes; default: {MAX_BYTES}",
    "keep": f"how many older parts are kept; default: {KEEP}",
    "stdout": "true: the same lines also on standard output; default: true",
    "reason": "`required`: who changes a server must say why; default: `optional`",
}


@dataclass(frozen=True, slots=True)
class JournalChoice:
    """`path` None keeps the journal in memory: for tests, `load_settings` always names a file."""

    path: Path | None = None
    max_bytes: int = MAX_BYTES
    keep: int = KEEP
    stdout: bool = False
    reason_required: bool = False


def default_path(environ: Mapping[str, str], sandbox_state: Path | None) -> Path:
    """Beside the sandbox's state (`sandbox_state` is its file), else in the user's state folder."""
    if sandbox_state is not None:
        return sandbox_state.parent / FILE_NAME
    state, home = environ.get("XDG_STATE_HOME", ""), environ.get("HOME", "")
    if state:
        return Path(state) / "tritonscope" / FILE_NAME
    if home:
        return Path(home) / ".local" / "state" / "tritonscope" / FILE_NAME
    return Path("/var/lib/tritonscope") / FILE_NAME


def journal_of(
    source: str, located: Located | None, path: str, default: Path, folder: Path
) -> tuple[JournalChoice, list[Notice]]:
    """What `journal:` says; a value that cannot be used costs itself and a notice.

    `path` is that of the environment ("" if it says none), which wins; a relative one in the file is looked
    for in `folder`.
    """
    entries = dict((located.entries or {}) if located is not None else {})
    notices: list[Notice] = []
    if located is not None and located.entries is None:
        notices.append(
            Notice(source, located.line, "journal must hold settings by name, for example `path:`")
        )
    for key in sorted(set(entries) - set(JOURNAL_KEYS)):
        notices.append(Notice(source, entries[key].line, f"journal: unknown setting {key}: not used"))

    def value(key: str, fits: Callable[[Plain], bool], wanted: str, default: Plain) -> Plain:
        written = entries.get(key)
        if written is None:
            return default
        if written.entries is None and written.items is None and fits(written.scalar):
            return written.scalar
        used = str(default).lower() if default != "" else "the default"
        notices.append(Notice(source, written.line, f"journal: {key} must be {wanted}: {used} is used"))
        return default

    def whole(least: int) -> Callable[[Plain], bool]:
        return lambda one: isinstance(one, int) and not isinstance(one, bool) and one >= least

    written_path = str(value("path", lambda one: isinstance(one, str) and bool(one), "a path", "") or "")
    return JournalChoice(
        Path(path) if path else folder / written_path if written_path else default,
        int(value("max_bytes", whole(SMALLEST_BYTES), f"a number from {SMALLEST_BYTES}", MAX_BYTES) or 0),
        int(value("keep", whole(0), "a number from 0", KEEP) or 0),
        bool(value("stdout", lambda one: isinstance(one, bool), "true or false", True)),
        value("reason", lambda one: one in ("optional", "required"), "optional or required", "optional")
        == "required",
    ), notices
