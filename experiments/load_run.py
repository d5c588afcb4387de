"""One load run: one plan, one measurement."""

from __future__ import annotations

from control.performer import Work
from experiments.measure import headline
from experiments.plan import LoadPlan
from experiments.report import RunKind
from experiments.session import Session, Wanted, work_of
from telemetry.actions import Conclusion


def load_run_work(wanted: Wanted, plan: LoadPlan) -> Work:
    """The work of `Control.perform`; raises InvalidRequest before anything is begun.

    The result is a `RunReport` with one measurement, the progress a `RunProgress`.
    """

    def run(session: Session) -> Conclusion:
        found = session.measure("", plan)
        return session.conclude(f"{wanted.request.model}, {plan.words}: {headline(found)}")

    return work_of(RunKind.LOAD, wanted, (plan,), run)
