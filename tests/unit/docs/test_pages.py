"""The pages of docs/: links lead somewhere, settings and commands are those there are, every alert is explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from service.cli.commands import COMMANDS
from service.cli.shared.lazy_commands import LazyCommand
from service.log.topics import Topics
from service.settings import Settings
from tests.support.docs_pages import DOCS, ROOT, find_anchors, find_links, strip_code_blocks

PAGES = sorted([*DOCS.glob("*.md"), *ROOT.glob("*.md")])
ALERTS = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"] if "alert" in rule]


def told(value: object) -> str | None:
    return value.name if isinstance(value, Path) else None


@pytest.mark.parametrize("page", PAGES, ids=told)
def test_links_lead_somewhere(page: Path) -> None:
    for link in find_links(page.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        assert not anchor or anchor in find_anchors(target.read_text()), link


def variables() -> set[str]:
    shown = re.findall(r"LABELWATCH_[A-Z]+_[A-Z_]+", (DOCS / "configuration.md").read_text())
    return set(shown)


@pytest.mark.parametrize("page", PAGES, ids=told)
def test_settings_are_those_there_are(page: Path) -> None:
    groups = "|".join(name.upper() for name in Settings.model_fields)
    named = set(re.findall(rf"LABELWATCH_(?:{groups})_[A-Z_]*[A-Z]\b", page.read_text()))
    assert named <= variables()


def commands() -> dict[str, set[str]]:
    """Every command, with its own commands."""
    return {entry.name: set(getattr(LazyCommand(entry).load(), "commands", {})) for entry in COMMANDS}


@pytest.mark.parametrize("page", PAGES, ids=told)
def test_commands_are_those_there_are(page: Path) -> None:
    there = commands()
    for name, more in re.findall(r"(?<![\w/:-])labelwatch ([a-z][a-z-]+)(?: ([a-z][a-z-]+))?", code(page.read_text())):
        assert name in there, f"labelwatch {name}"
        if there[name] - {"leave"} and more:
            assert more in there[name], f"labelwatch {name} {more}"


def code(text: str) -> str:
    """Inline code and fenced blocks."""
    fenced = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    return "\n".join([*fenced, *re.findall(r"`([^`\n]+)`", strip_code_blocks(text))])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_is_explained(rule: dict[str, dict[str, str]]) -> None:
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert page == "docs/operations.md"
    assert anchor in find_anchors((ROOT / page).read_text())


def test_every_explained_alert_is_there() -> None:
    heads = re.findall(r"^#+ (Labelwatch\w+)$", (DOCS / "operations.md").read_text(), re.MULTILINE)
    assert sorted(heads) == sorted(rule["alert"] for rule in RULES)


def test_metrics_that_are_named_are_there() -> None:
    from service.telemetry import Telemetry

    text, _ = Telemetry().render_exposition()
    there = set(re.findall(r"^# TYPE (\S+)", text.decode(), re.MULTILINE))
    for page in PAGES:
        for name in re.findall(r"`(labelwatch_[a-z_]+)(?:\{[^`]*\})?`", page.read_text()):
            assert name in there, f"{page.name}: {name}"


def test_topics_that_are_named_are_there() -> None:
    there = {spec.name for spec in Topics().list_specs()}
    for page in PAGES:
        for name in re.findall(r"`(labelwatch\.[a-z-]+)`", page.read_text()):
            assert name in there | {"labelwatch.key"}, f"{page.name}: {name}"
