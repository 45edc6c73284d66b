"""One Label Studio and one labelwatch for all tests of this folder; each test has a project and a dataset of its own."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from service.access.key_text import generate_key, hash_key
from service.inference.model.default import find_default_model
from tests.platforms import studio as label_studio
from tests.support.command_harness import CommandHarness, CommandResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.platforms.studio import LabelStudioServer

WAIT_TIMEOUT_S = 600.0
MODEL_DATASET = "one-address"  # the dataset of the key for Label Studio


@dataclass
class LabelwatchInstance:
    """A running labelwatch: its API, and the commands beside it."""

    url: str
    key: str
    model_key: str
    harness: CommandHarness
    http: httpx.Client = field(repr=False)

    def list_items(self, dataset: str, state: str = "all") -> dict[str, dict[str, Any]]:
        """The items by their id."""
        answer = self.http.get("/v1/review", params={"dataset": dataset, "state": state})
        assert answer.is_success, answer.text
        return {item["id"]: item for item in answer.json()["items"]}

    def wait_for_items(
        self, dataset: str, wanted: Callable[[dict[str, dict[str, Any]]], bool]
    ) -> dict[str, dict[str, Any]]:
        end = time.monotonic() + WAIT_TIMEOUT_S
        while not wanted(found := self.list_items(dataset)):
            assert time.monotonic() < end, found
            time.sleep(0.05)
        return found

    def run(self, *arguments: object, **variables: str) -> CommandResult:
        return self.harness.run(*arguments, **variables)


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelStudioServer]:
    with label_studio.run_label_studio(tmp_path_factory.mktemp("label-studio")) as running:
        yield running


@pytest.fixture
def watch(service: LabelwatchInstance, capfd: pytest.CaptureFixture[str]) -> LabelwatchInstance:
    service.harness.capfd = capfd
    return service


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, studio: LabelStudioServer) -> Iterator[LabelwatchInstance]:
    """`labelwatch up` that wants a key; it must also end well."""
    harness = CommandHarness(tmp_path_factory.mktemp("labelwatch"), find_default_model())
    key, model_key = generate_key(), generate_key()
    process = harness.start(
        "up",
        LABELWATCH_API_PORT="0",
        LABELWATCH_API_KEYS=f"lead:write:{hash_key(key)},studio:label-studio:{MODEL_DATASET}:{hash_key(model_key)}",
        LABELWATCH_API_LABEL_STUDIO_URL=studio.url,
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        found = re.search(r"http://[^/]+", ready)
        assert found is not None, ready or process.communicate()[1]
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=found[0], headers=headers, timeout=WAIT_TIMEOUT_S, trust_env=False) as http:
            yield LabelwatchInstance(found[0], key, model_key, harness, http)
    finally:
        process.terminate()
        out, err = process.communicate(timeout=WAIT_TIMEOUT_S)
    assert process.returncode == 0, out + err
    assert not any(secret in out + err for secret in (key, model_key))
