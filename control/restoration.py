"""What must be put back: written down before a configuration is changed for a while, crossed off after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Restoration:
    """The configuration a model must get back: `config` None means the one on disk.

    `reason` is what changed it, as a person reads it: "the comparison of 14:02 on batch_cost_model".
    """

    server: str
    model: str
    config: Mapping[str, object] | None = field(repr=False)
    reason: str


@dataclass(frozen=True, slots=True)
class PendingRestoration:
    """A restoration that is not crossed off. `since` is unix seconds.

    `left_over` is True if whoever wrote it down has ended or given up: nobody else will see to it.
    """

    id: int
    restoration: Restoration
    since: float
    left_over: bool

    @property
    def sentence(self) -> str:
        """What is left to do, in words."""
        what = self.restoration
        whose = "the configuration on disk" if what.config is None else "the configuration it had"
        return f"{what.model} on {what.server} must get back {whose}: {what.reason} was not ended."
