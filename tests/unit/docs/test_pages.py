"""The pages of docs/: links have targets, named settings, commands, metrics and topics exist, alerts have a runbook."""

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

PAGES = sorted([*DOCS.glob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("models/**/*.md")])
ALERTS = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"] if "alert" in rule]


def get_page_name(value: object) -> str | None:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else None


@pytest.mark.parametrize("page", PAGES, ids=get_page_name)
def test_links_have_targets(page: Path) -> None:
    for link in find_links(page.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        assert not anchor or anchor in find_anchors(target.read_text()), link


def read_documented_variables() -> set[str]:
    names = re.findall(r"LABELWATCH_[A-Z]+_[A-Z_]+", (DOCS / "configuration.md").read_text())
    return set(names)


@pytest.mark.parametrize("page", PAGES, ids=get_page_name)
def test_named_settings_exist(page: Path) -> None:
    groups = "|".join(name.upper() for name in Settings.model_fields)
    names = set(re.findall(rf"LABELWATCH_(?:{groups})_[A-Z_]*[A-Z]\b", page.read_text()))
    assert names <= read_documented_variables()


def load_commands() -> dict[str, set[str]]:
    """Every command, with its own commands."""
    return {entry.name: set(getattr(LazyCommand(entry).load(), "commands", {})) for entry in COMMANDS}


@pytest.mark.parametrize("page", PAGES, ids=get_page_name)
def test_named_commands_exist(page: Path) -> None:
    commands = load_commands()
    code = extract_code(page.read_text())
    for name, subcommand in re.findall(r"(?<![\w/:-])labelwatch ([a-z][a-z-]+)(?: ([a-z][a-z-]+))?", code):
        assert name in commands, f"labelwatch {name}"
        if commands[name] - {"leave"} and subcommand:
            assert subcommand in commands[name], f"labelwatch {name} {subcommand}"


def extract_code(text: str) -> str:
    """Inline code and fenced blocks."""
    fenced = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    return "\n".join([*fenced, *re.findall(r"`([^`\n]+)`", strip_code_blocks(text))])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_has_a_runbook(rule: dict[str, dict[str, str]]) -> None:
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert page == "docs/operations.md"
    assert anchor in find_anchors((ROOT / page).read_text())


def test_every_runbook_has_an_alert() -> None:
    headings = re.findall(r"^#+ (Labelwatch\w+)$", (DOCS / "operations.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(rule["alert"] for rule in RULES)


def test_named_metrics_exist() -> None:
    from service.telemetry import Telemetry

    text, _ = Telemetry().render_exposition()
    metrics = set(re.findall(r"^# TYPE (\S+)", text.decode(), re.MULTILINE))
    for page in PAGES:
        for name in re.findall(r"`(labelwatch_[a-z_]+)(?:\{[^`]*\})?`", page.read_text()):
            assert name in metrics, f"{page.name}: {name}"


def test_named_topics_exist() -> None:
    topics = {spec.name for spec in Topics().list_specs()}
    for page in PAGES:
        for name in re.findall(r"`(labelwatch\.[a-z-]+)`", page.read_text()):
            assert name in topics | {"labelwatch.key"}, f"{page.name}: {name}"
