"""An address behind which two servers answer is refused for whatever changes a server."""

from __future__ import annotations

import pytest

from control.facade import Control
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.errors import NotAllowed, SourceError
from telemetry.facts import IndexEntry, ModelConfig, ModelStatistics
from telemetry.identity import Server

WHY = "Refused: two servers answer at the address of a in turn."


class Untouched:
    """A reader that must not be asked."""

    def index(self, server_id: str) -> tuple[IndexEntry, ...]:
        raise AssertionError("the index was read")

    def statistics(self, server_id: str) -> tuple[ModelStatistics, ...]:
        raise AssertionError("the statistics were read")

    def config(self, server_id: str, model: str, version: str = "") -> ModelConfig:
        raise SourceError("the configuration was read")


def control(why: str) -> Control:
    server = Server("a", "http://127.0.0.1:9", None, control=True)
    return Control(lambda: (server,), Untouched(), lambda _: False, doubt=lambda server_id: why)


@pytest.mark.parametrize(
    "kind", [kind for kind in ActionKind if kind.changes_repository or kind is ActionKind.LOG_LEVEL]
)
def test_nothing_that_changes_a_server_is_sent(kind: ActionKind) -> None:
    guarded = control(WHY)
    decision = guarded.decide("a", kind, "m", by=LOCAL)
    assert (decision.allowed, decision.reason) == (False, WHY)
    with pytest.raises(NotAllowed, match="two servers answer"):
        guarded.perform(Action(kind, "a", "m"), by=LOCAL)
    assert control("").decide("a", kind, "m", by=LOCAL).allowed


def test_a_test_request_may_go_to_either() -> None:
    guarded = control(WHY)
    job = guarded.perform(
        Action(ActionKind.TEST_REQUEST, "a", "m"), lambda course: Conclusion(Outcome.DONE, "ok"), by=LOCAL
    )
    assert job.wait(10.0).outcome is Outcome.DONE
