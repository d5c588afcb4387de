"""One board: its panels placed and numbered, its variables, marks and links, as JSON text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from grafana.panels import Drawn
from grafana.parameters import MINIMUM_GRAFANA, Parameters

COLUMNS = 24
TAG = "tritonscope"
HEADER = "Written by `make boards` from grafana/*.py of Tritonscope; changes to the JSON are overwritten."


@dataclass(frozen=True, slots=True)
class Section:
    """Panels under a heading. `needs` = what the panels need beyond Triton's own page; collapsed then."""

    title: str
    panels: Sequence[Drawn]
    needs: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """What a board consists of."""

    uid: str
    title: str
    question: str
    variables: Sequence[Builder[dashboard.VariableModel]]
    sections: Sequence[Section]
    annotations: Sequence[Builder[dashboard.AnnotationQuery]] = field(default=())
    page: str = "overview"
    parameters: Parameters = field(default_factory=Parameters)

    def document(self) -> dict[str, Any]:
        """The board as Grafana's JSON."""
        builder = builders.Dashboard(self.title).uid(self.uid).description(f"{self.question} {HEADER}")
        builder = builder.tags([TAG, "triton"]).time("now-1h", "now").refresh("30s").timezone("browser")
        builder = builder.tooltip(dashboard.DashboardCursorSync.CROSSHAIR).editable()
        builder = builder.variables(list(self.variables)).annotations(list(self.annotations))
        built = builder.links(_links(self.page)).build()
        built.panels = [*_placed(self.sections)]
        document: dict[str, Any] = json.loads(json.dumps(built, cls=JSONEncoder))
        return {"__requires": _required(document), **_as_meant(document)}

    def text(self) -> str:
        """The file."""
        return json.dumps(self.document(), indent=2, ensure_ascii=False) + "\n"


def _as_meant(document: dict[str, Any]) -> dict[str, Any]:
    """Without what the SDK adds unasked: links hidden in a menu, fields that Grafana's types refuse."""
    for variable in document["templating"]["list"]:
        for key in ("auto", "auto_min", "auto_count"):
            variable.pop(key, None)
    for one in (*document["links"], *document["annotations"]["list"]):
        one.pop("placement", None)
    for panel in all_panels(document):
        panel.get("options", {}).pop("footer", None)
    return document


def _links(page: str) -> list[Builder[dashboard.DashboardLink]]:
    others = builders.DashboardLink("Tritonscope boards").type(dashboard.DashboardLinkType.DASHBOARDS)
    others = others.tags([TAG]).include_vars(True).keep_time(True).as_dropdown(False)
    app = builders.DashboardLink("Open in Tritonscope").type(dashboard.DashboardLinkType.LINK)
    app = (
        app.url(f"${{app:raw}}/{page}?from=${{__from}}&to=${{__to}}").target_blank(True).icon("external link")
    )
    return [others, app]


def _placed(sections: Sequence[Section]) -> list[dashboard.Panel | dashboard.RowPanel]:
    """Rows and panels from left to right, top to bottom; ids in that order."""
    found: list[dashboard.Panel | dashboard.RowPanel] = []
    identity, top = 0, 0
    for section in sections:
        identity += 1
        row = dashboard.RowPanel(title=section.title, id_val=identity, collapsed=bool(section.needs))
        row.grid_pos = dashboard.GridPos(x=0, y=top, w=COLUMNS, h=1)
        panels, bottom = _flow(section.panels, top + 1)
        for panel in panels:
            identity += 1
            panel.id_val = identity
        if section.needs:
            row.title = f"{section.title} (needs {section.needs})"
            row.panels = panels
            # A collapsed row takes one line; what it holds is placed as if it were open.
            found.append(row)
            top += 1
        else:
            found += [row, *panels]
            top = bottom
    return found


def _flow(drawn: Sequence[Drawn], top: int) -> tuple[list[dashboard.Panel], int]:
    panels, left, height = [], 0, 0
    for one in drawn:
        if left + one.width > COLUMNS:
            left, top, height = 0, top + height, 0
        one.panel.grid_pos = dashboard.GridPos(x=left, y=top, w=one.width, h=one.height)
        left, height = left + one.width, max(height, one.height)
        panels.append(one.panel)
    return panels, top + height


def _required(document: dict[str, Any]) -> list[dict[str, str]]:
    """What an importer checks: Grafana itself, and the panels it must have (all are built in)."""
    kinds = sorted({panel["type"] for panel in all_panels(document)} - {"row"})
    grafana = {"type": "grafana", "id": "grafana", "name": "Grafana", "version": MINIMUM_GRAFANA}
    source = {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": ""}
    return [grafana, source, *({"type": "panel", "id": kind, "name": kind, "version": ""} for kind in kinds)]


def all_panels(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Every panel of a board's JSON, rows too, and what is inside rows."""
    found = []
    for panel in document.get("panels", ()):
        found += [panel, *panel.get("panels", ())]
    return found
