"""What the settings say about one rule: whether it is judged at all, and which models it leaves out."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """`enabled` None: as the rule has it. `except_models` are names or patterns with * and ?."""

    rule: str
    enabled: bool | None = None
    except_models: tuple[str, ...] = ()

    def leaves_out(self, model: str) -> bool:
        """True if the rule is not judged for models of this name."""
        return any(fnmatch.fnmatchcase(model, pattern) for pattern in self.except_models)


def pattern_expression(pattern: str) -> str:
    """A pattern with * and ? as an anchored regular expression of PromQL's dialect (RE2)."""
    parts = {"*": ".*", "?": "."}
    return "".join(parts.get(character, re.escape(character)) for character in pattern)
