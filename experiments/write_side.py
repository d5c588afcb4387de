"""The write side of one process, put together as the settings say. Imported only where it is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from control.facade import Control
from control.golden import GoldenRequests
from control.journal import Journal, say_on_stdout
from control.journal_file import JournalFile
from control.ports import ServerFiles
from control.saved_requests import SavedRequests
from experiments.fresh_reader import FreshReader
from experiments.memory_reader import FreshMemoryReader
from telemetry.actions import Record
from telemetry.identity import Server
from telemetry.journal_choice import JournalChoice
from telemetry.saved_requests_choice import SavedRequestsChoice


def write_side(
    servers: Callable[[], Sequence[Server]],
    is_sandbox: Callable[[str], bool],
    choice: JournalChoice,
    acted: Callable[[Record], None],
    files: ServerFiles | None = None,
    doubt: Callable[[str], str] | None = None,
    saved: SavedRequestsChoice | None = None,
    golden: GoldenRequests | None = None,
) -> Control:
    """The control of this process; `acted` hears when an action on a repository was sent or has ended.

    `files` reads what the API does not tell, where it can; `doubt` says why an address leads to two servers.
    """

    def told(record: Record) -> None:
        if record.sent and record.action.kind.changes_repository:
            acted(record)

    journal = Journal(
        store=JournalFile(choice.path, max_bytes=choice.max_bytes, keep=choice.keep) if choice.path else None,
        secrets=lambda: frozenset(_secrets(servers())),
        echo=say_on_stdout if choice.stdout else None,
        told=told,
    )
    return Control(
        servers,
        FreshReader(servers),
        is_sandbox,
        journal=journal,
        reason_required=choice.reason_required,
        files=files,
        doubt=doubt,
        memory=FreshMemoryReader(servers),
        saved=SavedRequests(saved.path, saved.retention_days) if saved else None,
        golden=golden,
    )


def _secrets(servers: Sequence[Server]) -> Iterator[str]:
    """Values of the headers that servers are called with, and without a scheme such as Bearer."""
    for server in servers:
        for value in server.header_values:
            yield value
            yield value.rpartition(" ")[2]
