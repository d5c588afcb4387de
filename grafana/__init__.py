"""Grafana boards as code; `python -m grafana` writes them. Queries, titles and units come from `signals/`."""
