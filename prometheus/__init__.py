"""Alert and recording rules for Prometheus, generated from `signals/` and `triage/rules/`."""
