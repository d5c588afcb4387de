"""Links from a value to the other boards and to the app, with the server, the model and the time."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana.panels import link
from grafana.parameters import Parameters
from grafana.queries import Queries

_KEPT = ("datasource", "cluster", "namespace", "job")
_TIME = "from=${__from}&to=${__to}"


def to_model(queries: Queries, *, in_table: bool = False) -> list[dashboard.DashboardLink]:
    """The board and the app's page of the value's model."""
    names = queries.parameters
    labels = (names.model, names.version, names.instance)
    model, version, server = (_of(label, in_table) for label in labels)
    kept = "&".join(f"${{{name}:queryparam}}" for name in _KEPT)
    board = f"/d/tritonscope-model?{kept}&var-server={server}&var-model={model}&${{__url_time_range}}"
    page = f"${{app:raw}}/model?server={server}&model={model}&version={version}&{_TIME}"
    return [link("This model's board", board), link("This model in Tritonscope", page)]


def to_server(parameters: Parameters, *, in_table: bool = False) -> list[dashboard.DashboardLink]:
    """The app's overview of the value's server."""
    server = _of(parameters.instance, in_table)
    return [link("This server in Tritonscope", f"${{app:raw}}/overview?server={server}&{_TIME}")]


def _of(label: str, in_table: bool) -> str:
    """A label of the value's series; a table has labels as columns."""
    return f'${{__data.fields["{label}"]}}' if in_table else f"${{__field.labels.{label}}}"
