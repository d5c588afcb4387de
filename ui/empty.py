"""Empty states: why there is nothing to see, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

from telemetry.scrape import Source
from triage.context import ServerCoverage
from ui.html import Child, Html, div, join, tag

CHECK_ADDRESSES: tuple[Child, ...] = (
    "Check that Triton runs and that its address is right: servers in tritonscope.yml, or TRITONSCOPE_URL.",
    "Triton opens its ports only after all start-up models have loaded.",
    join("No Triton yet? ", tag("code", "make run"), " starts one with example models."),
)


def empty_state(what: str, *lines: Child, todo: tuple[Child, ...] = ()) -> Html:
    """`what` is missing, `lines` say why, `todo` lists what can be done."""
    steps = tag("ul", [tag("li", step) for step in todo]) if todo else None
    return div(tag("b", what), [tag("p", line) for line in lines], steps, class_="ts-empty")


def silent(coverage: Sequence[ServerCoverage]) -> bool:
    """True if no server looked at answers: what is missing then says nothing about Triton."""
    return not any(one.answering for one in coverage)


def answers(coverage: Sequence[ServerCoverage], server: str) -> bool:
    """True if this server answers now: what was known of its models before says nothing of the moment."""
    return any(one.answering for one in coverage if one.server == server)


def nobody_answers(coverage: Sequence[ServerCoverage], so: str) -> Html:
    """No server answers, `so` what cannot be seen, with the reason of each server."""
    return empty_state(f"No server answers, so {so}.", *reasons(coverage), todo=CHECK_ADDRESSES)


def reasons(coverage: Sequence[ServerCoverage], source: Source | None = None) -> list[str]:
    """Why each server, or only its `source`, was not read; with the server's name if there are several."""
    found = [(one.server, one.failed_sources.get(source, "") if source else one.sentence) for one in coverage]
    return [f"{name}: {why}" if len(coverage) > 1 else why for name, why in found if why]
