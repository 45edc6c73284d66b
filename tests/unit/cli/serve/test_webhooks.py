"""Outgoing webhooks without LABELWATCH_WEBHOOKS_KEY: what commands do, and what a service says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.command_harness import CommandHarness
from tests.unit.cli.serve.test_up import poll_until, running

if TYPE_CHECKING:
    from pathlib import Path

KEY = "k" * 32
PROBLEM = "1 endpoint of outgoing webhooks gets nothing"


@pytest.fixture
def harness(tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    harness = CommandHarness(tmp_path, tiny_model, variables={"LABELWATCH_API_PORT": "0"}, capfd=capfd)
    added = harness.run("webhooks", "add", "https://example.invalid/", LABELWATCH_WEBHOOKS_KEY=KEY)
    assert added.code == 0, added.err
    return harness


def test_check_names_endpoints_that_get_nothing(harness: CommandHarness) -> None:
    checked = harness.run("check")
    assert checked.code == 1
    assert f"WRONG webhooks: {PROBLEM}" in checked.out
    with_key = harness.run("check", LABELWATCH_WEBHOOKS_KEY=KEY)
    assert (with_key.code, "webhooks:" in with_key.out) == (0, False)


def test_a_service_without_the_key_is_degraded_and_warns(harness: CommandHarness) -> None:
    with running(harness, "api") as (process, client):
        readiness = poll_until(client, "/readyz", lambda answer: "webhooks" in answer["degraded"])
        assert readiness["ready"]
        assert readiness["degraded"]["webhooks"].startswith(PROBLEM)
        process.terminate()
        _, logged = process.communicate(timeout=60)
        assert logged.count(PROBLEM) == 1
        assert process.returncode == 0


def find_endpoint_id(harness: CommandHarness) -> str:
    (_, line) = harness.run("webhooks", "list").out.splitlines()
    return line.split()[0]


def test_only_what_signs_needs_the_key(harness: CommandHarness) -> None:
    endpoint = find_endpoint_id(harness)
    assert "resume" in harness.run("webhooks", "pause", endpoint).out
    assert "paused" in harness.run("webhooks", "list").out
    for command in (("resume", endpoint), ("failed", endpoint), ("retry", endpoint)):
        assert harness.run("webhooks", *command).code == 0, command
    for command in (("add", "https://example.invalid/other"), ("test", endpoint)):
        ran = harness.run("webhooks", *command)
        assert ran.code == 1, command
        assert ran.err.startswith("labelwatch: LABELWATCH_WEBHOOKS_KEY: outgoing webhooks need it"), command
    assert find_endpoint_id(harness) == endpoint
    assert harness.run("webhooks", "remove", endpoint).code == 0


def test_no_log_is_created_for_an_endpoint_that_can_not_get_a_secret(tmp_path: Path, harness: CommandHarness) -> None:
    path = tmp_path / "new.db"
    ran = harness.run("webhooks", "add", "https://example.invalid/", LABELWATCH_LOG_PATH=str(path))
    assert (ran.code, path.exists()) == (1, False)


def test_a_test_whose_address_this_shell_refuses_names_the_variable(harness: CommandHarness) -> None:
    variables = {"LABELWATCH_WEBHOOKS_KEY": KEY}
    harness.run("webhooks", "remove", find_endpoint_id(harness))
    url = "http://hooks.internal/hook"
    harness.run("webhooks", "add", url, **variables, LABELWATCH_WEBHOOKS_ALLOWED_HOSTS="hooks.internal")
    ran = harness.run("webhooks", "test", find_endpoint_id(harness), **variables)
    assert ran.code == 1
    assert ran.out == (
        "not delivered: the settings of this shell refuse the address: use https, or allow the host by name: "
        "LABELWATCH_WEBHOOKS_ALLOWED_HOSTS=hooks.internal\n"
    )
