"""The dashboards: as they are made, as Grafana's schema wants them, and with data behind every panel."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from deploy.grafana.build import render_files
from tests.deploy.monitored_service import PROMETHEUS, ROOT
from tests.support.node_packages import install_packages

if TYPE_CHECKING:
    from tests.deploy.monitored_service import MonitoredService

GRAFANA = ROOT / "deploy" / "grafana"
SCHEMA = Path(__file__).parent / "grafana-schema"
DASHBOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text()) for path in sorted((GRAFANA / "dashboards").glob("*.json"))
}
PANELS = [
    pytest.param(panel, id=f"{name}: {panel['title']}")
    for name, dashboard in DASHBOARDS.items()
    for panel in dashboard["panels"]
    if panel["type"] != "row"
]
VARIABLES = {"$__rate_interval": "20s", "$__range": "10m", "$dataset": "default|news", "$instance": ".*"}


def test_the_files_are_as_they_are_made() -> None:
    assert {path.name for path in render_files()} == {f"{name}.json" for name in DASHBOARDS}
    for path, text in render_files().items():
        assert path.read_text() == text, f"run `python -m deploy.grafana.build`: {path.name} has changed"


def test_they_are_provisioned() -> None:
    source = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "prometheus.yaml").read_text())["datasources"][
        0
    ]
    scraped = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scraped
    provider = yaml.safe_load((GRAFANA / "provisioning" / "dashboards" / "labelwatch.yaml").read_text())["providers"][0]
    mounts = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]["grafana"]["volumes"]
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in mounts


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_layout_has_no_holes_and_no_overlaps(name: str) -> None:
    panels = DASHBOARDS[name]["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: dict[tuple[int, int], str] = {}
    for panel in panels:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in cells, f"{panel['title']} lies over {cells[x, y]}"
                cells[x, y] = panel["title"]
    assert max(x for x, _ in cells) == 23
    # A line of panels fills the width.
    for panel in panels:
        y = panel["gridPos"]["y"]
        assert {x for x, at in cells if at == y} == set(range(24)), panel["title"]


@pytest.mark.parametrize("panel", PANELS)
def test_every_panel_is_described_and_asks_the_chosen_source(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    for target in panel["targets"]:
        assert target["datasource"]["uid"] == "${datasource}"
        assert set(re.findall(r"\$\w+", target["expr"])) <= set(VARIABLES)


def test_they_fit_grafanas_schema(tmp_path: Path) -> None:
    """Grafana's own types, checked by tsc; what is wrong on purpose must be found, or the check is worth nothing."""
    (tmp_path / "node_modules").symlink_to(install_packages(SCHEMA) / "node_modules")
    for name in ("types.ts", "tsconfig.json"):
        shutil.copy(SCHEMA / name, tmp_path)
    good = DASHBOARDS["label-quality"]
    lines = ['import type { Checked } from "./types";']
    lines += [f"export const good{n}: Checked = {json.dumps(one)};" for n, one in enumerate(DASHBOARDS.values())]
    wrong = [
        {**good, "panels": [], "schemaVersion": "41"},
        {**good, "panels": [], "colour": "blue"},
        *(changed(good, kind, *change) for kind, change in WRONG),
    ]
    for n, one in enumerate(wrong):
        lines += ["// @ts-expect-error: wrong on purpose", f"export const wrong{n}: Checked = {json.dumps(one)};"]
    (tmp_path / "dashboards.ts").write_text("\n".join(lines) + "\n")
    tsc = tmp_path / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run(["node", tsc, "-p", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]


WRONG: list[tuple[str, tuple[str, object]]] = [
    ("timeseries", ("fieldConfig.defaults.custom.drawStyle", "lines")),
    ("timeseries", ("options.tooltip.mode", "all")),
    ("stat", ("options.colour", True)),
    ("heatmap", ("options.color.mode", "rainbow")),
    ("bargauge", ("options.orientation", "sideways")),
    ("table", ("options.showHeader", "yes")),
    ("table", ("targets", [{"refId": "A", "expr": "up"}])),
]


def changed(dashboard: dict[str, Any], kind: str, path: str, value: object) -> dict[str, Any]:
    """A copy with only the first panel of a kind, in which one field has another value."""
    copy: dict[str, Any] = json.loads(json.dumps(dashboard))
    at = next(panel for panel in copy["panels"] if panel["type"] == kind)
    copy["panels"] = [at]
    *way, last = path.split(".")
    for part in way:
        at = at[part]
    at[last] = value
    return copy


# -- against the running service ---------------------------------------------------------------------------------------


def filled_in(expr: str) -> str:
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    return expr


@pytest.mark.parametrize("panel", PANELS)
def test_every_query_has_an_answer(monitored: MonitoredService, panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        expr = filled_in(target["expr"])
        monitored.wait_for(expr, lambda expr=expr: monitored.query(expr))  # type: ignore[misc]


def test_the_variables_offer_something(monitored: MonitoredService) -> None:
    for dashboard in DASHBOARDS.values():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                found = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"])
                assert found
                values = monitored.prometheus.get(f"/api/v1/label/{found[2]}/values", params={"match[]": found[1]})
                assert values.json()["data"]


def test_an_annotator_who_is_not_on_the_list_stays_unnamed(monitored: MonitoredService) -> None:
    named = "labelwatch_annotator_sentences_total"
    monitored.wait_for("sentences by everybody", lambda: monitored.query(f"sum({named}) > 30"))
    found = {series["metric"]["annotator"] for series in monitored.query(f"{named} > 0")}
    assert found == {"ann", "ben", "other", "unknown"}
