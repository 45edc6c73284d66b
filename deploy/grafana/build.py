"""Writes dashboards/*.json: `python -m deploy.grafana.build`. Change the panels here, not in the JSON."""

from __future__ import annotations

import json
from pathlib import Path

from deploy.grafana import operations, quality
from deploy.grafana.panels import GRID_WIDTH, Json, Panel

FOLDER = Path(__file__).parent / "dashboards"
SCHEMA_VERSION = 41
DASHBOARDS = (quality.DASHBOARD, operations.DASHBOARD)


def lay_out_panels(rows: dict[str, tuple[Panel, ...]]) -> list[Json]:
    """Places panels from left to right under their row. A panel that does not fit starts a new line."""
    placed: list[Json] = []
    y = 0
    for title, panels in rows.items():
        row = {
            "id": len(placed) + 1,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": {"h": 1, "w": GRID_WIDTH, "x": 0, "y": y},
            "panels": [],
        }
        placed.append(row)
        y += 1
        x = tallest = 0
        for panel in panels:
            if x + panel.width > GRID_WIDTH:
                x, y, tallest = 0, y + tallest, 0
            placed.append(panel.to_json(len(placed) + 1, x, y))
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
    return placed


def build_variables(queries: dict[str, str]) -> list[Json]:
    source = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "hide": 0,
        "regex": "",
        "refresh": 1,
        "multi": False,
        "includeAll": False,
        "options": [],
    }
    return [
        source,
        *(
            {
                "name": name,
                "label": name.capitalize(),
                "type": "query",
                "datasource": {"type": "prometheus", "uid": "${datasource}"},
                "definition": query,
                "query": {"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
                "hide": 0,
                "refresh": 2,
                "regex": "",
                "sort": 1,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
                "options": [],
            }
            for name, query in queries.items()
        ),
    ]


def build_dashboard(dashboard: Json) -> Json:
    others = [other for other in DASHBOARDS if other is not dashboard]
    return {
        "uid": dashboard["uid"],
        "title": dashboard["title"],
        "description": dashboard["description"],
        "tags": ["labelwatch"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "time": {"from": dashboard["range"], "to": "now"},
        "refresh": "30s",
        "timezone": "browser",
        "fiscalYearStartMonth": 0,
        "liveNow": False,
        "timepicker": {},
        "annotations": {"list": []},
        "links": [
            {
                "title": other["title"],
                "type": "link",
                "icon": "dashboard",
                "url": f"/d/{other['uid']}",
                "keepTime": True,
                "includeVars": False,
                "asDropdown": False,
                "targetBlank": False,
                "tags": [],
                "tooltip": "",
            }
            for other in others
        ],
        "templating": {"list": build_variables(dashboard["variables"])},
        "panels": lay_out_panels(dashboard["rows"]),
    }


def render_files() -> dict[Path, str]:
    return {
        FOLDER / f"{dashboard['file']}.json": json.dumps(build_dashboard(dashboard), indent=2, ensure_ascii=False)
        + "\n"
        for dashboard in DASHBOARDS
    }


if __name__ == "__main__":
    for path, text in render_files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
