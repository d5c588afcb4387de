"""Rounds: begun once, not ended by a round that fails, ended by `stop`, and begun again."""

from __future__ import annotations

import threading

from telemetry.rounds import Rounds

LIMIT_SECONDS = 10.0


def test_a_round_that_fails_ends_none_of_the_others() -> None:
    seen, thrice = [], threading.Event()

    def work() -> None:
        seen.append(threading.current_thread())
        if len(seen) == 3:
            thrice.set()
        raise ValueError("a defect")

    rounds = Rounds("trial", work, 0.001)
    rounds.start()
    rounds.start()
    assert thrice.wait(LIMIT_SECONDS) and rounds.alive and not rounds.ended
    rounds.stop()
    assert rounds.ended and not rounds.alive
    assert len(set(seen)) == 1 and seen[0].name == "trial" and seen[0].daemon


def test_nothing_is_done_before_its_time_nor_after_the_end() -> None:
    called = threading.Event()
    later = Rounds("later", called.set, 3600.0, at_once=False)
    later.start()
    later.stop()
    assert not called.is_set()


def test_what_was_stopped_can_begin_again_and_an_old_round_stays_ended() -> None:
    began, go_on, again = threading.Event(), threading.Event(), threading.Event()
    calls: list[str] = []

    def work() -> None:
        calls.append(threading.current_thread().name)
        if len(calls) > 1:
            again.set()
            return
        began.set()
        go_on.wait(LIMIT_SECONDS)

    rounds = Rounds("trial", work, 3600.0)
    rounds.start()
    assert began.wait(LIMIT_SECONDS)
    first = next(one for one in threading.enumerate() if one.name == "trial")
    rounds.stop()
    rounds.start()
    assert again.wait(LIMIT_SECONDS)
    go_on.set()
    first.join(LIMIT_SECONDS)
    assert not first.is_alive() and rounds.alive and len(calls) == 2
    rounds.stop()
