"""The kinds of panels in the dashboards, as Grafana's JSON model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

GRID_WIDTH = 24
SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
GOOD, WARN, BAD = "green", "orange", "red"


@dataclass(frozen=True)
class Query:
    """`legend`: with labels in double braces. `instant`: one value at the end of the range, for tables and stats."""

    expr: str
    legend: str = ""
    instant: bool = False
    as_table: bool = False
    as_heatmap: bool = False

    def to_json(self, ref: str) -> Json:
        kind = "table" if self.as_table else "heatmap" if self.as_heatmap else "time_series"
        return {
            "refId": ref,
            "datasource": SOURCE,
            "editorMode": "code",
            "expr": self.expr,
            "legendFormat": self.legend or "__auto",
            "format": kind,
            "instant": self.instant,
            "range": not self.instant,
        }


@dataclass(frozen=True)
class Panel:
    kind: str
    title: str
    description: str
    queries: tuple[Query, ...]
    width: int = 12
    height: int = 8
    unit: str = "short"
    defaults: Json = field(default_factory=dict)
    options: Json = field(default_factory=dict)
    overrides: tuple[Json, ...] = ()
    transformations: tuple[Json, ...] = ()

    def to_json(self, number: int, x: int, y: int) -> Json:
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": SOURCE,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "targets": [query.to_json(chr(ord("A") + index)) for index, query in enumerate(self.queries)],
            "fieldConfig": {"defaults": {"unit": self.unit, **self.defaults}, "overrides": list(self.overrides)},
            "options": self.options,
            "transformations": list(self.transformations),
        }


def time_series(
    title: str,
    description: str,
    *queries: Query,
    unit: str = "short",
    width: int = 12,
    min_value: float | None = 0,
    max_value: float | None = None,
    stacked: bool = False,
    bad_from: float | None = None,
    height: int = 8,
) -> Panel:
    custom: Json = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 40 if stacked else 8,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "off" if bad_from is None else "dashed"},
    }
    defaults: Json = {"custom": custom}
    if min_value is not None:
        defaults["min"] = min_value
    if max_value is not None:
        defaults["max"] = max_value
    if bad_from is not None:
        defaults["thresholds"] = make_threshold_steps(bad_from=bad_from)
    options = {
        "legend": {"showLegend": True, "displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return Panel("timeseries", title, description, queries, width, height, unit, defaults, options)


def stat(
    title: str,
    description: str,
    query: str,
    *,
    unit: str = "short",
    width: int = 4,
    bad_from: float | None = None,
    good_from: float | None = None,
    decimals: int | None = None,
    mappings: tuple[Json, ...] = (),
) -> Panel:
    defaults: Json = {
        "thresholds": make_threshold_steps(bad_from=bad_from, good_from=good_from),
        "color": {"mode": "thresholds"},
        "mappings": list(mappings),
    }
    if decimals is not None:
        defaults["decimals"] = decimals
    options = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "none" if bad_from is None and good_from is None else "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": "value",
        "wideLayout": True,
    }
    return Panel("stat", title, description, (Query(query, instant=True),), width, 4, unit, defaults, options)


def heatmap(title: str, description: str, expr: str, *, unit: str = "short", width: int = 12) -> Panel:
    options = {
        "calculate": False,
        "cellGap": 1,
        "cellValues": {"unit": "short"},
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.4, "fill": "dark-orange",
                  "reverse": False, "scale": "exponential"},
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "showValue": "never",
        "tooltip": {"mode": "single", "yHistogram": False, "showColorScale": False},
        "yAxis": {"axisPlacement": "left", "unit": unit, "reverse": False},
    }  # fmt: skip
    query = Query(expr, "{{le}}", as_heatmap=True)
    return Panel("heatmap", title, description, (query,), width, 9, unit, {}, options)


def bar_gauge(title: str, description: str, expr: str, name: str, *, unit: str = "short", width: int = 12) -> Panel:
    """One bar per series, longest first, with the values at the end of the range."""
    options = {
        "displayMode": "basic",
        "orientation": "horizontal",
        "minVizHeight": 14,
        "minVizWidth": 8,
        "maxVizHeight": 28,
        "namePlacement": "left",
        "showUnfilled": False,
        "sizing": "auto",
        "valueMode": "text",
        "legend": {"showLegend": False, "displayMode": "list", "placement": "bottom", "calcs": []},
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    }
    defaults: Json = {"min": 0, "color": {"mode": "continuous-blues"}}
    return Panel("bargauge", title, description, (Query(expr, name, instant=True),), width, 9, unit, defaults, options)


def table(
    title: str,
    description: str,
    columns: dict[str, Query],
    *,
    by: dict[str, str],
    width: int = 12,
    sort: str = "",
    shares: tuple[str, ...] = (),
    hidden: tuple[str, ...] = (),
) -> Panel:
    """The values of several queries side by side. `columns`: heading → query; `by`: label → heading, in order."""
    queries = tuple(Query(query.expr, instant=True, as_table=True) for query in columns.values())
    # Grafana names the value of a single query without a letter.
    values = ["Value"] if len(queries) == 1 else [f"Value #{chr(ord('A') + n)}" for n in range(len(queries))]
    headings = dict(zip(values, columns, strict=True))
    order = [*by, *values]
    organize = {
        "excludeByName": dict.fromkeys(["Time", *hidden], True),
        "indexByName": {name: index for index, name in enumerate(order)},
        "renameByName": {**by, **headings},
    }
    transformations = ({"id": "merge", "options": {}},) if len(queries) > 1 else ()
    overrides = tuple(
        {
            "matcher": {"id": "byName", "options": name},
            "properties": [{"id": "unit", "value": "percentunit"}, {"id": "decimals", "value": 1}],
        }
        for name in shares
    )
    options = {
        "cellHeight": "sm",
        "showHeader": True,
        "footer": {"show": False, "reducer": ["sum"], "countRows": False, "fields": []},
        "sortBy": [{"displayName": sort, "desc": True}] if sort else [],
    }
    defaults: Json = {"decimals": 0, "custom": {"align": "auto", "filterable": False, "cellOptions": {"type": "auto"}}}
    return Panel(
        "table",
        title,
        description,
        queries,
        width,
        9,
        "short",
        defaults,
        options,
        overrides,
        (*transformations, {"id": "organize", "options": organize}),
    )


def state_timeline(
    title: str, description: str, query: Query, *, texts: dict[int, tuple[str, str]], width: int = 12
) -> Panel:
    """States over time. `texts`: value → its name and its colour."""
    mapping = {
        "type": "value",
        "options": {
            str(value): {"text": text, "color": color, "index": index}
            for index, (value, (text, color)) in enumerate(texts.items())
        },
    }
    options = {
        "alignValue": "left",
        "mergeValues": True,
        "rowHeight": 0.8,
        "showValue": "never",
        "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
    }
    defaults: Json = {"mappings": [mapping], "color": {"mode": "thresholds"}, "custom": {"fillOpacity": 70}}
    return Panel("state-timeline", title, description, (query,), width, 8, "short", defaults, options)


def make_threshold_steps(*, bad_from: float | None = None, good_from: float | None = None) -> Json:
    steps: list[Json] = [{"color": BAD if good_from is not None else GOOD, "value": None}]
    if good_from is not None:
        steps.append({"color": GOOD, "value": good_from})
    if bad_from is not None:
        steps.append({"color": BAD, "value": bad_from})
    return {"mode": "absolute", "steps": steps}
