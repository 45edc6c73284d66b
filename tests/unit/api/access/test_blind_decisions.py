"""Independent decisions are hidden until an item has them all, from everybody but admins, whatever a request asks for.

Two services differ only in what dana answered about an item that needs a second decision. Who may not see her answer must get
the same from both.
"""

from __future__ import annotations

import asyncio
import json
import re
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, Final

import pytest

from service.access.key_text import generate_key, hash_key
from service.api.access.rules import RULES
from service.api.routes.review.events import QueueWatcher, stream_queue_events
from service.contracts import DatasetSettings
from service.contracts.datasets.flag_policies import BelowPolicy
from tests.support.api_harness import api_harness, wait_for
from tests.support.review_queue import make_settings_output

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from service.api.access.rules import Endpoint
    from service.inference.classifier import Classifier
    from tests.support.api_harness import ApiHarness

KEYS: Final = {name: generate_key() for name in ("dana", "emil", "reader", "kim", "lead")}
ROLES: Final = {"dana": "reviewer", "emil": "reviewer", "reader": "read", "kim": "annotator", "lead": "admin"}
SETTINGS: Final = DatasetSettings(
    name="med", overlap=2, version=1, flag_policy=BelowPolicy(kind="below", cut=2.0)
)  # sends every sentence to review
SENTENCE: Final = {"id": "1", "dataset": "med", "tokens": ["Riga", "wins"], "labels": ["O", "O"], "annotator": "kim"}
ANSWERS: Final[tuple[dict[str, Any], ...]] = (
    {"verdict": "ok", "note": "as it is"},
    {"verdict": "error", "labels": ["B-LOC", "O"], "note": "a town"},
)
PATH_VALUES: Final = {"{dataset}": "med", "{name}": "med", "{id}": "1", "{annotator}": "kim", "{batch}": "7"}
# Everything that a request can say about decisions and reviewers.
PARAMETERS: Final = {
    "viewer": "dana",
    "reviewer": "dana",
    "decided_by": "dana",
    "verdict": "error",
    "state": "all",
    "decisions": "true",
    "decided_only": "true",
    "format": "csv",
}
REQUIRED: Final = {"/v1/review/similar": {"dataset": "med", "id": "1"}, "/v1/export": {"dataset": "med"}}
VOLATILE: Final = re.compile(r'\d{4}-\d\d-\d\dT[\d:.]+(Z|[+]\d\d:\d\d)?|"(created_at|version|request_id)": ?[^,}]*')
# Of the metrics, what is known of datasets, reviewers and annotators; not how long things took.
METRIC: Final = re.compile(r"^labelwatch_(queue|decisions|reviewer|recall|annotator|flag|batch)[^\n]*$", re.MULTILINE)


class World:
    def __init__(self, harness: ApiHarness, answer: dict[str, Any]) -> None:
        self.harness = harness
        harness.log.append([make_settings_output(**SETTINGS.model_dump())])
        harness.worker._datasets.put(SETTINGS)
        harness.send(SENTENCE)
        wait_for(lambda: harness.backend.state_view.get_settings("med").overlap == 2)
        keys = ",".join(f"{name}:{ROLES[name]}:{hash_key(key)}" for name, key in KEYS.items())
        self.client = harness.serve_with_limits(keys=keys)
        self.decide("dana", answer)

    def decide(self, name: str, answer: dict[str, Any]) -> None:
        body = {"dataset": "med", "id": "1", **answer}
        assert self.request("POST", "/v1/decisions", name, json=body).status_code == 202
        self.harness.project()

    def request(self, method: str, path: str, name: str, **more: Any) -> Any:
        return self.client.request(method, path, headers={"Authorization": f"Bearer {KEYS[name]}"}, **more)

    def describe(self, method: str, path: str, name: str, **more: Any) -> str:
        """Status and body, without times."""
        answer = self.request(method, path, name, **more)
        text = "\n".join(METRIC.findall(answer.text)) if path == "/metrics" else answer.text
        return f"{answer.status_code} {VOLATILE.sub('', text)}"


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory, tiny_classifier: Classifier) -> Iterator[tuple[World, World]]:
    folders: list[Path] = [tmp_path_factory.mktemp("blind") for _ in ANSWERS]
    with api_harness(folders[0], tiny_classifier) as first, api_harness(folders[1], tiny_classifier) as second:
        yield World(first, ANSWERS[0]), World(second, ANSWERS[1])


def list_parameters(world: World, endpoint: Endpoint) -> list[dict[str, str]]:
    """Every combination of the parameters that the endpoint has."""
    method, path = endpoint
    operation = world.client.get("/openapi.json").json()["paths"][path][method.lower()]
    known = [each["name"] for each in operation.get("parameters", ()) if each["name"] in PARAMETERS]
    chosen = chain.from_iterable(combinations(known, number) for number in range(len(known) + 1))
    return [{**REQUIRED.get(path, {}), **{each: PARAMETERS[each] for each in names}} for names in chosen]


def list_reads(name: str) -> list[Endpoint]:
    documented = [("GET", path) for method, path in RULES if method == "GET" and path.startswith(("/v1/", "/metrics"))]
    return [each for each in documented if ROLES[name] in RULES[each].roles and each[1] != "/v1/events"]


def fill(path: str) -> str:
    for name, value in PATH_VALUES.items():
        path = path.replace(name, value)
    return path


@pytest.mark.parametrize("name", ["emil", "reader", "kim"])
def test_no_parameter_reveals_what_another_answered(worlds: tuple[World, World], name: str) -> None:
    first, second = worlds
    for endpoint in list_reads(name):
        for params in list_parameters(first, endpoint):
            request = ("GET", fill(endpoint[1]), name)
            assert first.describe(*request, params=params) == second.describe(*request, params=params), (
                request,
                params,
            )


def test_an_admin_and_the_reviewer_see_the_answer(worlds: tuple[World, World]) -> None:
    """The comparison finds a difference where there is one."""
    first, second = worlds
    for name in ("dana", "lead"):
        for path, params in (
            ("/v1/review/med/1", {"viewer": "dana"}),
            ("/v1/review", {"state": "all", "viewer": "dana"}),
            ("/v1/export", {"dataset": "med", "decisions": "true", "reviewer": "dana"}),
        ):
            request = ("GET", path, name)
            answers = (first.describe(*request, params=params), second.describe(*request, params=params))
            assert answers[0] != answers[1], (name, path)
            assert all(answer.startswith("200") for answer in answers)


def test_a_name_of_another_is_refused(worlds: tuple[World, World]) -> None:
    for name in ("emil", "reader"):
        for path in ("/v1/review?viewer=dana", "/v1/review?reviewer=dana", "/v1/review/med/1?viewer=dana"):
            refused = worlds[0].request("GET", path, name)
            assert (refused.status_code, refused.json()["field"] in ("viewer", "reviewer")) == (403, True)
            assert worlds[0].request("GET", path.replace("=dana", f"={name}"), name).status_code == 200


def test_the_next_item_and_a_preview_reveal_nothing(worlds: tuple[World, World]) -> None:
    filters: tuple[dict[str, str], ...] = (
        {},
        {"verdict": "error"},
        {"decided_by": "dana"},
        {"state": "all", "verdict": "ok"},
    )
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/v1/decisions/preview", {"action": "ok", "filter": {"dataset": "med", **each}}) for each in filters
    ]
    bodies += [("/v1/decisions/preview", {"action": "ok", "items": [{"dataset": "med", "id": "1"}]})]
    bodies += [("/v1/decisions/preview", {"action": "ok", "reviewer": "dana", "filter": {}})]
    bodies += [("/v1/review/next", {"reviewer": "dana"})]
    for path, body in bodies:
        first, second = (world.describe("POST", path, "emil", json=body) for world in worlds)
        assert first == second, (path, body)
    claims = [world.harness.run_projector() for world in worlds]
    with claims[0], claims[1]:
        first, second = (world.describe("POST", "/v1/review/next", "emil", json={}) for world in worlds)
    assert first == second
    assert first.startswith("200")


def test_events_say_only_how_many_items_there_are(worlds: tuple[World, World]) -> None:
    async def read_event(world: World) -> dict[str, int]:
        watcher = QueueWatcher(world.harness.backend, poll_interval=0)
        async for text in stream_queue_events(world.harness.backend, watcher, "med"):
            if text.startswith("event: queue"):
                return dict(json.loads(text.split("data: ")[1])["counts"])
        raise AssertionError("no event")

    first, second = (asyncio.run(read_event(world)) for world in worlds)
    assert first == second == {"open": 1, "adjudication": 0, "decided": 0, "closed": 0}
