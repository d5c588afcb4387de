"""Done means that the index says so: the judgement on successive readings of the index."""

from __future__ import annotations

from control.reload_effect import NOOP_SECONDS, ReloadFacts, judge_effect
from control.repository_watch import LoadWatch, Patience, UnloadWatch, also_started
from control.triton_calls import CallState
from telemetry.actions import Conclusion, Outcome
from telemetry.facts import BatchSizeStatistics, IndexEntry, ModelConfig, ModelState, ModelStatistics

RAISED = "The model's own code raised this while it was loaded: the full text names the line of model.py"
PATIENCE = Patience(settle_seconds=5.0)
BARE = (IndexEntry("m", "", ModelState.NEVER_LOADED),)
UNLOADED = (IndexEntry("m", "1", ModelState.UNAVAILABLE, "unloaded"),)
LOADING = (IndexEntry("m", "1", ModelState.LOADING),)
READY = (IndexEntry("m", "1", ModelState.READY),)
UNLOADING = (IndexEntry("m", "1", ModelState.UNLOADING),)
BROKEN = (
    IndexEntry(
        "m", "1", ModelState.UNAVAILABLE, "Internal: ValueError: no weights\n\nAt:\n  /x(3): initialize\n"
    ),
)
PENDING, ACCEPTED, LOST = CallState.PENDING, CallState.ACCEPTED, CallState.LOST


def outcome(conclusion: Conclusion | None) -> Outcome | None:
    return conclusion.outcome if conclusion else None


def test_a_load_goes_on_after_the_client_gave_up_and_is_done_when_the_index_says_so() -> None:
    watch = LoadWatch("m", UNLOADED, PATIENCE)
    assert watch.judge(UNLOADED, PENDING, 0.0) is None
    assert watch.judge(LOADING, PENDING, 0.0) is None
    assert watch.judge(LOADING, LOST, 4.0) is None
    assert watch.judge(LOADING, LOST, 4000.0) is None
    assert outcome(watch.judge(READY, LOST, 4001.0)) is Outcome.DONE


def test_a_load_that_fails_after_the_client_gave_up_has_failed_with_the_reason_of_the_index() -> None:
    watch = LoadWatch("m", BARE, PATIENCE)
    assert watch.judge(LOADING, LOST, 1.0) is None
    conclusion = watch.judge(BROKEN, LOST, 2.0)
    assert conclusion is not None
    assert (conclusion.outcome, conclusion.sentence) == (
        Outcome.FAILED,
        f"m v1 not loaded: ValueError: no weights. {RAISED}",
    )
    assert conclusion.detail == BROKEN[0].reason


def test_success_is_claimed_only_after_the_index_says_ready_even_if_the_call_was_accepted() -> None:
    watch = LoadWatch("m", BROKEN, PATIENCE)
    assert outcome(watch.judge(BROKEN, ACCEPTED, 0.0)) is Outcome.FAILED
    assert LoadWatch("m", BARE, PATIENCE).judge(BARE, ACCEPTED, 4.9) is None
    conclusion = LoadWatch("m", BARE, PATIENCE).judge(BARE, ACCEPTED, 5.0)
    assert conclusion is not None and conclusion.outcome is Outcome.UNKNOWN
    assert conclusion.sentence == (
        "The server accepted the load of m, but its repository index does not show the model as loaded"
    )
    assert (
        "no longer lists the model"
        in (LoadWatch("m", BARE, PATIENCE).judge((), ACCEPTED, 5.0) or conclusion).sentence
    )


def test_an_old_failure_is_not_taken_for_the_outcome_of_a_load_that_has_not_begun() -> None:
    watch = LoadWatch("m", BROKEN, PATIENCE)
    assert watch.judge(BROKEN, LOST, 1.0) is None
    assert watch.judge(LOADING, LOST, 2.0) is None
    assert outcome(watch.judge(BROKEN, LOST, 3.0)) is Outcome.FAILED


def test_a_lost_reload_of_a_ready_model_is_unknown_unless_the_index_tells_of_a_failed_update() -> None:
    conclusion = LoadWatch("m", READY, PATIENCE).judge(READY, LOST, 5.0)
    assert conclusion is not None and conclusion.outcome is Outcome.UNKNOWN
    failed_update = (IndexEntry("m", "1", ModelState.READY, "Internal: ValueError: new file is bad"),)
    conclusion = LoadWatch("m", READY, PATIENCE).judge(failed_update, LOST, 0.0)
    assert conclusion is not None
    assert conclusion.sentence == f"m v1 not loaded: ValueError: new file is bad. {RAISED}"


def test_an_unload_is_done_when_no_version_is_ready_or_unloading() -> None:
    watch = UnloadWatch("m", READY, PATIENCE)
    assert watch.judge(READY, PENDING, 0.0) is None
    assert watch.judge(UNLOADING, ACCEPTED, 60.0) is None
    conclusion = watch.judge(UNLOADED, ACCEPTED, 61.0)
    assert conclusion is not None
    assert (conclusion.outcome, conclusion.sentence) == (Outcome.DONE, "m is unloaded")
    assert outcome(UnloadWatch("m", READY, PATIENCE).judge((), ACCEPTED, 0.0)) is Outcome.DONE


def test_an_unload_tells_which_ensemble_stopped_with_it() -> None:
    pipe = IndexEntry("pipe", "1", ModelState.READY)
    stopped = IndexEntry("pipe", "1", ModelState.UNAVAILABLE, "unloaded")
    conclusion = UnloadWatch("m", (*READY, pipe), PATIENCE).judge((*UNLOADED, stopped), ACCEPTED, 0.0)
    assert conclusion is not None and conclusion.sentence == "m is unloaded; with it stopped pipe"
    assert also_started((*UNLOADED, stopped), (*READY, pipe), "m") == "; with it came pipe"


def test_an_accepted_unload_that_changes_nothing_is_not_called_done() -> None:
    watch = UnloadWatch("m", READY, PATIENCE)
    assert watch.judge(READY, ACCEPTED, 4.9) is None
    conclusion = watch.judge(READY, ACCEPTED, 5.0)
    assert conclusion is not None and conclusion.outcome is Outcome.UNKNOWN
    assert "still calls it READY" in conclusion.sentence


def config(**raw: object) -> ModelConfig:
    return ModelConfig(
        name="m", backend="python", platform="", max_batch_size=4, dynamic_batching=False,
        preferred_batch_sizes=(), max_queue_delay_us=None, max_queue_size=None, queue_timeout_us=None,
        instance_groups=(), ensemble_steps=(), sequence_batching=False, decoupled=False,
        response_cache=False, inputs=(), outputs=(), raw=raw,
    )  # fmt: skip


def statistics(count: int) -> dict[str, ModelStatistics]:
    batches = (BatchSizeStatistics(1, count, 0, 0, 0),)
    return {"1": ModelStatistics("m", "1", 0, count, count, count, 0, batches)}


def test_a_reload_says_when_nothing_had_changed() -> None:
    before = ReloadFacts("m", config(), statistics(7))
    effect = judge_effect(before, ReloadFacts("m", config(), statistics(9)), 0.01)
    assert effect.changed is False
    assert effect.sentence == "nothing had changed on disk, so the server kept what it had loaded"


def test_a_reload_is_seen_by_statistics_that_begin_at_0_a_new_version_or_a_changed_config() -> None:
    before = ReloadFacts("m", config(), statistics(7))
    assert judge_effect(before, ReloadFacts("m", config(), statistics(2)), 1.0).changed is True
    second = {**statistics(7), "2": statistics(0)["1"]}
    assert judge_effect(before, ReloadFacts("m", config(), second), 1.0).changed is True
    changed = judge_effect(before, ReloadFacts("m", config(a=1), statistics(7)), 1.0)
    assert (changed.changed, changed.sentence) == (True, "the changed configuration is in use")


def test_a_reload_of_a_model_without_traffic_is_judged_by_its_time_or_not_at_all() -> None:
    idle = ReloadFacts("m", config(), statistics(0))
    assert judge_effect(idle, idle, NOOP_SECONDS / 2).changed is False
    unknown = judge_effect(idle, idle, 1.5)
    assert unknown.changed is None
    assert "cannot be told" in unknown.sentence
    assert judge_effect(ReloadFacts("m", None, None), ReloadFacts("m", None, None), 1.5).changed is None
