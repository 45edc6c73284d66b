"""What is scraped, and the alerts: checked by promtool, and against the running service."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.deploy.monitored_service import PROMETHEUS, ROOT

if TYPE_CHECKING:
    from tests.deploy.monitored_service import MonitoredService

RULES: dict[str, Any] = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
TESTS = sorted(path.name for path in PROMETHEUS.glob("*.test.yml"))
SELECTOR = re.compile(r"\b(?:labelwatch_\w+|up)\b(?:\{[^}]*\})?")


def promtool(*arguments: str, given: bytes | None = None) -> None:
    done = subprocess.run(["promtool", *arguments], cwd=PROMETHEUS, input=given, capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def test_the_configuration_is_valid() -> None:
    promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", "--lint-fatal", "alerts.yml")


def test_the_alerts_fire_where_they_should() -> None:
    promtool("test", "rules", *TESTS)


def test_each_alert_is_tested_to_fire_and_to_be_silent() -> None:
    cases = [
        (case["alertname"], bool(case.get("exp_alerts")))
        for name in TESTS
        for test in yaml.safe_load((PROMETHEUS / name).read_text())["tests"]
        for case in test["alert_rule_test"]
    ]
    assert set(cases) == {(name, fires) for name in ALERTS for fires in (True, False)}


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_says_what_it_means_and_where_help_stands(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in {"critical", "warning"}
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook"}
    page, _, anchor = notes["runbook"].partition("#")
    assert anchor == name.lower()
    assert name in re.findall(r"^#+ (\w+)$", (ROOT / page).read_text(), re.MULTILINE)


# -- against the running service ---------------------------------------------------------------------------------------


def test_the_metrics_are_as_they_should_be(monitored: MonitoredService) -> None:
    promtool("check", "metrics", given=monitored.service.get("/metrics").content)


def test_the_rules_are_loaded_and_can_be_evaluated(monitored: MonitoredService) -> None:
    def rules() -> list[dict[str, Any]]:
        groups = monitored.prometheus.get("/api/v1/rules").json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    monitored.wait_for("the rules are evaluated", lambda: all(rule["health"] == "ok" for rule in rules()))
    assert {rule["name"] for rule in rules()} == set(ALERTS)


@pytest.mark.parametrize(
    ("name", "selector"),
    sorted({(name, selector) for name, rule in ALERTS.items() for selector in SELECTOR.findall(rule["expr"])}),
)
def test_what_an_alert_looks_at_is_there(monitored: MonitoredService, name: str, selector: str) -> None:
    monitored.wait_for(f"{name}: {selector}", lambda: monitored.query(selector))
