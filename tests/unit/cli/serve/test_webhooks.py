"""A service without LABELWATCH_WEBHOOKS_KEY says that its endpoints get nothing."""

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
