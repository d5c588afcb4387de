"""What the traffic profiles send: which models, how often, by how many clients."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_PROFILE = "healthy"


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests to one model.

    With `events_per_second` the stream is paced: at random moments of this mean rate it sends `group` (least,
    most) requests at once, whatever happened to the earlier ones. Without it each of `clients` sends its next
    request as soon as it has the answer to the last. `clients` bounds the requests under way in both cases.
    `on_seconds` and `off_seconds` make it come and go.
    """

    model: str
    clients: int
    events_per_second: float | None = None
    group: tuple[int, int] = (1, 1)
    rows: int = 1
    on_seconds: float | None = None
    off_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """A named mix of streams and what it is for, in words shown to people."""

    name: str
    text: str
    streams: tuple[Stream, ...]


_GENTLE = (
    Stream("batch_add_model", clients=4, events_per_second=6.0, group=(1, 4)),
    Stream("batch_cost_model", clients=6, events_per_second=2.0, group=(1, 6)),
    Stream("resnet18", clients=2, events_per_second=0.5),
    Stream("ensemble_pipeline", clients=1, events_per_second=0.25),
    Stream("bert_qa", clients=2, events_per_second=0.8),
    Stream("filetype", clients=2, events_per_second=0.8),
)

PROFILES = {
    profile.name: profile
    for profile in (
        Profile("healthy", "a gentle mix of all models with some batches of more than one", _GENTLE),
        Profile(
            "burst",
            "the gentle mix, and 32 clients at once on batch_cost_model for 2 of every 8 seconds",
            (*_GENTLE, Stream("batch_cost_model", clients=32, on_seconds=2.0, off_seconds=6.0)),
        ),
        Profile(
            "unbatched",
            "one client after the other on the batching models: every batch has one request",
            (
                Stream("batch_cost_model", clients=1),
                Stream("batch_add_model", clients=1, events_per_second=20.0),
            ),
        ),
        Profile(
            "overload",
            "more rows than batch_cost_model can serve, 48 requests under way all the time",
            (*_GENTLE[2:], Stream("batch_cost_model", clients=48, rows=4)),
        ),
        Profile("idle", "no requests", ()),
    )
}
