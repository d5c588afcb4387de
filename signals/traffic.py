"""Signals of traffic: requests and failures."""

from __future__ import annotations

from signals.definition import Definition, Level, both
from signals.expression import (
    Increase,
    OrElse,
    OverModels,
    Rate,
    Share,
)
from signals.parts import (
    FAILURE,
    REASONED,
    SUCCESS,
    SUMMARY,
    client_failures,
    failures,
    halved,
    of_clients,
    successes,
    without_ensembles,
)
from telemetry.units import Unit


def _traffic() -> tuple[Definition, ...]:
    per_second = OrElse(Rate(SUCCESS), Rate(f"{SUMMARY}_count"))
    failed, client_failed = failures(), client_failures()
    served, client_served = successes(), of_clients(successes())
    failures_per_second = halved(Rate(FAILURE))
    reasons = halved(Increase(FAILURE, REASONED, plain=True))
    reason_rates = halved(Rate(FAILURE, REASONED))
    return (
        *both(
            "requests_total",
            Unit.REQUESTS,
            "Requests",
            "successful requests; of a server: clients' requests, each once",
            successes(plain=True),
            of_clients(successes(plain=True)),
        ),
        *both(
            "requests_per_second",
            Unit.PER_SECOND,
            "Requests per second",
            "requests / window",
            per_second,
            of_clients(per_second),
        ),
        *both(
            "failures_total",
            Unit.REQUESTS,
            "Failures",
            "failed requests, counted by the server only; an ensemble's halved, as Triton counts each twice",
            failures(plain=True),
            client_failures(plain=True),
        ),
        *both(
            "failures_by_reason",
            Unit.REQUESTS,
            "Failures by reason",
            "failed requests by Triton's reason; of a server: of its models, ensembles left out",
            reasons,
            OverModels(without_ensembles(reasons)),
            keys=("reason",),
        ),
        *both(
            "failed_ratio",
            Unit.RATIO,
            "Failed",
            "failures / (successes + failures)",
            Share.of(failed, served, sparse=True),
            Share.of(client_failed, client_served),
        ),
        Definition(
            "failures_per_second",
            Level.MODEL,
            Unit.PER_SECOND,
            "Failures per second",
            "failures / window",
            failures_per_second,
            printed=False,
        ),
        Definition(
            "failures_per_second_by_reason",
            Level.MODEL,
            Unit.PER_SECOND,
            "Failures per second by reason",
            "failures / window, by Triton's reason",
            reason_rates,
            keys=("reason",),
            printed=False,
        ),
    )


TRAFFIC = _traffic()
