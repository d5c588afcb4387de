"""The words of the write side, under the name by which `control` knows them: see `telemetry.actions`."""

from telemetry.access import Right
from telemetry.actions import (
    Action,
    ActionKind,
    Conclusion,
    MemoryChange,
    Outcome,
    Record,
    new_token,
)

__all__ = (
    "Action",
    "ActionKind",
    "Conclusion",
    "MemoryChange",
    "Outcome",
    "Record",
    "Right",
    "new_token",
)
