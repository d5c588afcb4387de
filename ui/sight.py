"""What exists for the person who looks: everything about a server that they may not view is left out.

One server chosen in the sidebar is the same thing, narrower: both are told by a test of the server's id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

import runtime
from history.inventory import Inventory
from history.protocol import Frame
from signals.fleet import Fleet
from signals.report import Report
from triage.finding import Finding, Judgement
from ui.person import me

Sees = Callable[[str], bool]


def sees_everything() -> bool:
    """True if every server that is watched exists for this person."""
    return me().sees_all(server.id for server in runtime.current().servers)


def report_of(report: Report, sees: Sees) -> Report:
    """The figures of servers that are seen."""
    return replace(
        report,
        servers=tuple(row for row in report.servers if sees(row.server)),
        models=tuple(row for row in report.models if sees(row.key.server)),
        gpus=tuple(row for row in report.gpus if sees(row.key.server)),
        host=tuple(row for row in report.host if sees(row.server)),
        other=tuple(row for row in report.other if sees(row.server)),
    )


def inventory_of(inventory: Inventory, sees: Sees) -> Inventory:
    """The models of servers that are seen."""
    return replace(
        inventory,
        models=tuple(facts for facts in inventory.models if sees(facts.key.server)),
        metadata={server: facts for server, facts in inventory.metadata.items() if sees(server)},
        servers=tuple(filter(sees, inventory.servers)),
    )


def judgement_of(judgement: Judgement, sees: Sees) -> Judgement:
    """What was found about servers that are seen."""
    return replace(
        judgement,
        findings=findings_of(judgement.findings, sees),
        unjudged=tuple(one for one in judgement.unjudged if sees(one.server)),
    )


def findings_of(findings: tuple[Finding, ...], sees: Sees) -> tuple[Finding, ...]:
    """Findings about servers that are seen, with those of their consequences that are."""
    return tuple(
        replace(one, follows=findings_of(one.follows, sees)) if one.follows else one
        for one in findings
        if sees(one.server)
    )


def frame_of(frame: Frame, sees: Sees) -> Frame:
    """Columns of servers that are seen; the first part of every key is the server."""
    keep = [column for column, key in enumerate(frame.keys) if sees(key[0])]
    if len(keep) == len(frame.keys):
        return frame
    keys = tuple(frame.keys[column] for column in keep)
    return Frame(frame.times, keys, np.take(frame.values, keep, axis=1))


def fleet_of(fleet: Fleet, sees: Sees) -> Fleet:
    """Replicas that are seen, in workloads that still have several."""
    workloads = {name: tuple(filter(sees, servers)) for name, servers in fleet.workloads.items()}
    models = tuple(
        replace(
            one,
            replicas=tuple(row for row in one.replicas if sees(row.key.server)),
            odd=tuple(row for row in one.odd if sees(row.key.server)),
        )
        for one in fleet.models
    )
    several = {name: servers for name, servers in workloads.items() if len(servers) > 1}
    return replace(fleet, workloads=several, models=tuple(one for one in models if one.workload in several))
