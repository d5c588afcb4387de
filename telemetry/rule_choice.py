"""What the settings say about one rule: whether it is judged at all, and which models it leaves out."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """`enabled` None: as the rule has it. `except_models` are names or patterns with * and ?.

    `source` and `line` say where it is written.
    """

    rule: str
    enabled: bool | None = None
    except_models: tuple[str, ...] = ()
    source: str = field(default="", compare=False)
    line: int | None = field(default=None, compare=False)

    def leaves_out(self, model: str) -> bool:
        """True if the rule is not judged for models of this name."""
        return any(fnmatch.fnmatchcase(model, pattern) for pattern in self.except_models)


def pattern_expression(pattern: str) -> str:
    """A pattern with * and ? as an anchored regular expression of PromQL's dialect (RE2)."""
    parts = {"*": ".*", "?": "."}
    return "".join(parts.get(character, re.escape(character)) for character in pattern)
