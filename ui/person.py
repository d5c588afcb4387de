"""Who looks at this page."""

from __future__ import annotations

from telemetry.access import LOCAL, Identity


def me() -> Identity:
    """The person of this session, with their rights."""
    return LOCAL
