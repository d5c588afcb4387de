"""How configurations differ, under the name by which `control` knows it: see `telemetry.config_diff`."""

from telemetry.config_diff import (
    FieldChange,
    changes_between,
    durable_lines,
    in_words,
    journal_parameters,
)

__all__ = ("FieldChange", "changes_between", "durable_lines", "in_words", "journal_parameters")
