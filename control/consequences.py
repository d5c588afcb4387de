"""What else an action touches, under the name by which `control` knows it: see `telemetry.ensembles`."""

from telemetry.ensembles import dependents, missing_steps, steps

__all__ = ("dependents", "missing_steps", "steps")
