"""What Capacity says of a rate: each sentence only where it is true."""

from __future__ import annotations

import json
import re
import time

from fake_runtime import runtime_of
from test_capacity_page import one_gpu

from collectors.statistics import parse_statistics, statistics_samples
from signals.batch_time import BatchTime
from signals.batcher import BatcherConfig
from signals.capacity import MAX_INSTANCES, InstancesNeeded, instances_needed
from telemetry.scrape import Scrape, Source
from ui.capacity import needed

TIME = BatchTime(8000.0, 250.0, 1, 4, 1000.0, 0.03)
BATCHING = BatcherConfig(16, True, 2000.0)
ALONE = BatcherConfig(16, False)


def words(found: InstancesNeeded, config: BatcherConfig, time: BatchTime = TIME, rate: float = 100.0) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", str(needed(found, config, time, rate, 5.0))).split())


def test_a_bound_is_said_as_what_it_is() -> None:
    batching = words(instances_needed(TIME, BATCHING, 1500.0, 10_000.0), BATCHING)
    assert "At least 2 instances: even with full batches fewer cannot serve this rate." in batching
    assert "(sizes beyond 4 were never executed: extrapolated)" in batching
    alone = words(instances_needed(TIME, ALONE, 300.0, 5000.0), ALONE)
    assert "At least 3 instances without dynamic batching: fewer would be busy all the time." in alone
    assert "full batches" not in alone and "extrapolated" not in alone


def test_why_a_target_is_not_reached_is_not_guessed() -> None:
    delayed = words(instances_needed(TIME, BATCHING, 20.0, 100.0), BATCHING)
    assert "No number of instances reaches it: with idle instances the mean queue is still" in delayed
    many = instances_needed(TIME, ALONE, 20_000.0, 5000.0)
    assert many.at_least > MAX_INSTANCES
    told = words(many, ALONE)
    assert f"It takes at least {many.at_least} instances; more than 64 are not simulated." in told
    assert "the delay of the batcher" not in told


def test_a_model_without_batches_is_answered_from_one_size(open_page) -> None:
    config = {
        "name": "alpha", "backend": "python", "max_batch_size": 0,
        "instance_group": [{"name": "a", "kind": "KIND_CPU", "count": 1}],
    }  # fmt: skip

    def stats(count: int) -> str:
        took = {"count": count, "ns": count * 9_000_000}
        batch = {"batch_size": 1, "compute_input": {"count": count, "ns": 0}, "compute_infer": took}
        batch["compute_output"] = {"count": count, "ns": 0}
        row = {"name": "alpha", "version": "1", "inference_count": count, "execution_count": count}
        return json.dumps({"model_stats": [{**row, "inference_stats": {}, "batch_stats": [batch]}]})

    index = json.dumps([{"name": "alpha", "version": "1", "state": "READY"}])
    made = runtime_of(statistics=[stats(100)], indexes=[index], configs=[json.dumps(config)])
    shown = open_page(made, "capacity").words("needed")
    assert "T(b) = 9 ms," in shown and "no dynamic batching" in shown
    assert "(there is 1 now)" in shown
    few = runtime_of(statistics=[stats(7)], indexes=[index], configs=[json.dumps(config)])
    assert "it needs 20 executions." in open_page(few, "capacity").words("needed")


def test_more_instances_are_held_against_the_memory_that_is_free(open_page) -> None:
    made = one_gpu()
    sizes = [
        {
            "batch_size": size,
            **{part: {"count": 100, "ns": 0} for part in ("compute_input", "compute_output")},
        }
        | {"compute_infer": {"count": 100, "ns": 100 * 1_000_000 * (8 + size)}}
        for size in (1, 2)
    ]
    row = {"name": "alpha", "version": "1", "inference_count": 300, "execution_count": 200}
    rows, _ = parse_statistics({"model_stats": [{**row, "inference_stats": {}, "batch_stats": sizes}]})
    server = made.servers[0].id
    made.accept(Scrape(server, Source.STATISTICS, time.time(), 0.01, statistics_samples(rows), rows))
    page = open_page(made, "capacity")
    assert "more on GPU" not in page.words("needed")
    next(one for one in page.app.number_input if one.label == "Requests per second").set_value(4000.0).run()
    shown = type(page)(page.app).words("needed")
    found = re.match(r"(\d+) instances 4,?000 /s at a queue of 5 ms \(there are 2 now\)", shown)
    assert found is not None, shown
    more = int(found[1]) - 2
    # Each instance holds 2 GiB, and 7 GiB are free.
    assert more > 3
    assert f"{more} instances more on GPU aaaa: does not fit (needs {2 * more} GiB to" in shown
    assert "7 GiB are free" in shown
