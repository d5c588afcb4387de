"""The fields of a load with another configuration: what runs is their value, what is touched is a change."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from control.override import GroupWish, Override, QueuePolicy, VersionPolicy
from control.override_rules import KINDS, MAX_BATCH, MAX_DELAY_US, MAX_INSTANCES, TIMEOUT_ACTIONS
from telemetry.errors import InvalidRequest
from telemetry.facts import ModelConfig

_SIZES = re.compile(r"[\s,]+")
_MAX_QUEUE = 1_000_000
_MAX_TIMEOUT_US = 3_600_000_000
_MAX_LATEST = 1000
"""Bounds of the form; what runs beyond them is shown all the same."""


def override_fields(running: ModelConfig) -> Override:
    """The fields with what runs as their values; what was not touched stays None."""
    raw = running.raw
    batching = raw.get("dynamic_batching") or {}
    found: dict[str, Any] = {}
    if not running.ensemble:
        left, right = st.columns(2)
        with left:
            found |= _max_batch(running)
        with right:
            found |= _groups(raw.get("instance_group") or [])
        if not running.sequence_batching and running.max_batch_size > 0:
            found |= _batching("dynamic_batching" in raw, batching)
    elif running.max_batch_size > 0:
        found |= _max_batch(running)
    with st.expander("Response cache, versions served"):
        found |= _cache(running) | _versions(raw.get("version_policy") or {})
    return Override(**found)


def _max_batch(running: ModelConfig) -> dict[str, Any]:
    size = st.number_input(
        "max_batch_size", 0 if running.max_batch_size == 0 else 1, max(MAX_BATCH, running.max_batch_size),
        running.max_batch_size,
        disabled=running.max_batch_size == 0, key="override_max_batch_size",
        help="0: the model takes no batches; changing that would change the shape of every request.",
    )  # fmt: skip
    return {"max_batch_size": size} if size != running.max_batch_size else {}


def _batching(on: bool, batching: Mapping[str, Any]) -> dict[str, Any]:
    wanted = st.toggle("Dynamic batching", on, key="override_batching")
    if not wanted:
        return {"dynamic_batching": False} if on else {}
    found: dict[str, Any] = {} if on else {"dynamic_batching": True}
    left, middle, right = st.columns([2, 2, 1], vertical_alignment="bottom")
    delay = batching.get("max_queue_delay_microseconds", 0)
    wish = left.number_input(
        "Longest wait for a batch, µs", 0, max(MAX_DELAY_US, delay), delay, 100, key="override_delay"
    )
    if wish != delay:
        found["max_queue_delay_us"] = wish
    sizes = list(batching.get("preferred_batch_size", []))
    text = middle.text_input(
        "Preferred batch sizes", ", ".join(map(str, sizes)), key="override_sizes", placeholder="2, 4"
    )
    if (numbers := _numbers(text, "Preferred batch sizes")) != sizes:
        found["preferred_batch_sizes"] = tuple(numbers)
    order = batching.get("preserve_ordering", False)
    if right.toggle("Keep order", order, key="override_order", help="preserve_ordering") != order:
        found["preserve_ordering"] = not order
    return found | _queue(batching.get("default_queue_policy") or {})


def _queue(policy: Mapping[str, Any]) -> dict[str, Any]:
    before = QueuePolicy(
        policy.get("timeout_action", "REJECT"), policy.get("default_timeout_microseconds", 0),
        policy.get("allow_timeout_override", False), policy.get("max_queue_size", 0),
    )  # fmt: skip
    with st.expander("Queue policy"):
        left, right = st.columns(2)
        after = QueuePolicy(
            max_queue_size=left.number_input(
                "Longest queue (0 = unlimited)", 0, max(_MAX_QUEUE, before.max_queue_size),
                before.max_queue_size, key="override_queue",
            ),
            default_timeout_us=right.number_input(
                "Time-out in the queue (µs, 0 = none)", 0, max(_MAX_TIMEOUT_US, before.default_timeout_us),
                before.default_timeout_us, 1000, key="override_timeout",
            ),
            timeout_action=left.selectbox(
                "After the time-out", *_with(TIMEOUT_ACTIONS, before.timeout_action), key="override_action",
                help="REJECT answers 503; DELAY lets others go first.",
            ),
            allow_timeout_override=right.toggle(
                "Requests may shorten it", before.allow_timeout_override, key="override_allow"
            ),
        )  # fmt: skip
    return {} if after == before else {"queue_policy": after}


def _groups(groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    before = [
        GroupWish(one.get("count", 1), one.get("kind", KINDS[0]), tuple(one.get("gpus", ())))
        for one in groups
    ]
    after = [_group(place, wish, len(before)) for place, wish in enumerate(before)]
    return {} if after == before else {"instance_groups": tuple(after)}


def _group(place: int, wish: GroupWish, groups: int) -> GroupWish:
    named = f" of group {place}" if groups > 1 else ""
    left, right = st.columns(2)
    count = left.number_input(
        f"Instances{named}", min(1, wish.count), max(MAX_INSTANCES, wish.count), wish.count,
        key=f"override_count_{place}",
        help="Per GPU for KIND_GPU. Every instance of a Python model is a process with its own memory.",
    )  # fmt: skip
    kind = right.selectbox(f"Run on{named}", *_with(KINDS, wish.kind), key=f"override_kind_{place}")
    gpus: Sequence[int] = wish.gpus if kind == wish.kind else ()
    if kind == "KIND_GPU":
        text = st.text_input(
            f"GPUs{named}", ", ".join(map(str, gpus)), key=f"override_gpus_{place}",
            placeholder="all", help="Their numbers, from 0",
        )  # fmt: skip
        gpus = _numbers(text, "GPUs")
    return GroupWish(count, kind, tuple(gpus))


def _cache(running: ModelConfig) -> dict[str, Any]:
    on = st.toggle(
        "Response cache", running.response_cache, key="override_cache", disabled=running.decoupled,
        help="Does something only where the server was started with a cache (--cache-config).",
    )  # fmt: skip
    return {} if on == running.response_cache else {"response_cache": on}


def _versions(policy: Mapping[str, Any]) -> dict[str, Any]:
    names = {"latest": "the newest ones", "all": "all", "specific": "these only"}
    now = next((name for name in names if name in policy), "latest")
    left, right = st.columns(2)
    chosen = left.selectbox(
        "Versions served", tuple(names), tuple(names).index(now), format_func=names.get, key="override_policy"
    )
    before, wish = _policy_of(policy), VersionPolicy()
    if chosen == "latest":
        count = before.latest or 1
        wish = VersionPolicy(
            latest=right.number_input("How many", 1, max(_MAX_LATEST, count), count, key="override_latest")
        )
    elif chosen == "specific":
        text = right.text_input("Which", ", ".join(map(str, before.specific)), key="override_specific")
        wish = VersionPolicy(specific=tuple(_numbers(text, "Versions")))
        if not wish.specific:
            raise InvalidRequest("Name at least one version.")
    return {} if wish == before else {"version_policy": wish}


def _policy_of(policy: Mapping[str, Any]) -> VersionPolicy:
    if "specific" in policy:
        return VersionPolicy(specific=tuple(int(one) for one in policy["specific"].get("versions", ())))
    return (
        VersionPolicy() if "all" in policy else VersionPolicy(policy.get("latest", {}).get("num_versions", 1))
    )


def _with(known: Sequence[str], running: str) -> tuple[tuple[str, ...], int]:
    """The choices and the place of what runs, also of a word that only a newer Triton knows."""
    choices = tuple(known) if running in known else (*known, running)
    return choices, choices.index(running)


def _numbers(text: str, what: str) -> list[int]:
    words = [word for word in _SIZES.split(text.strip()) if word]
    if not all(word.isdecimal() and len(word) < 10 for word in words):
        raise InvalidRequest(f"{what}: write whole numbers with commas between them, not {text!r}.")
    return [int(word) for word in words]
