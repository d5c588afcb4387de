"""Sign-ins as lines for a log collector: who, how, from where, and how it ended."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from telemetry.access import How

Tell = Callable[..., None]


def say_on_stdout(event: str, *, who: str, how: How, address: str, outcome: str) -> None:
    """One JSON object a line, like the journal's: `event` sign-in or sign-out, `outcome` done or refused."""
    line = {
        "format": 1,
        "event": event,
        "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "who": who,
        "how": how.value,
        "address": address,
        "outcome": outcome,
    }
    # A closed standard output must keep nobody out.
    with suppress(OSError, ValueError):
        sys.stdout.write(json.dumps(line, ensure_ascii=True) + "\n")
        sys.stdout.flush()
