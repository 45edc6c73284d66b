"""Large bodies are parsed outside the event loop, where other requests do not wait for them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from service.api.http.json_text import parse
from service.api.http.json_text.split import LARGE_BYTES
from service.api.ingest import sentence_parser
from tests.support import platform_bodies as bodies

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.api_harness import ApiHarness

SENTENCE = {"tokens": ["Riga"], "labels": ["B-NOWHERE"]}  # no label of the model: it is parsed and not scored
TASK = bodies.make_task(annotations=[bodies.make_annotation(bodies.make_region("Riga", "LOC"))])
JSON, NDJSON = "application/json", "application/x-ndjson"


def runs_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@pytest.fixture
def parsed_in_loop(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each text that is parsed, whether that was in the event loop."""
    seen: list[bool] = []

    def watch(module: Any, name: str) -> None:
        function: Callable[..., Any] = getattr(module, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            seen.append(runs_in_event_loop())
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, watched)

    watch(parse, "from_json")
    watch(sentence_parser, "read_sentence")
    return seen


@pytest.mark.parametrize(
    ("operation", "body", "media_type"),
    [
        ("POST /v1/score", SENTENCE, JSON),
        ("POST /v1/score", {"sentences": [SENTENCE, SENTENCE]}, JSON),
        ("POST /v1/score", SENTENCE, NDJSON),
        ("POST /v1/sentences", {"sentences": [SENTENCE, SENTENCE]}, JSON),
        ("POST /v1/sentences", SENTENCE, NDJSON),
        ("POST /v1/sentences?format=label-studio", [TASK, TASK], JSON),
        ("PUT /v1/datasets/x", {}, JSON),
        ("POST /v1/decisions", {"id": "1", "reviewer": "kim", "verdict": "ok"}, JSON),
        ("POST /v1/webhooks/label-studio", bodies.make_event(), JSON),
    ],
)
def test_a_large_body_is_parsed_outside_the_event_loop(
    harness: ApiHarness, parsed_in_loop: list[bool], operation: str, body: object, media_type: str
) -> None:
    """14 to 16 MB stopped all other requests for 1.8 to 4.7 seconds."""
    method, path = operation.split()
    raw = json.dumps(body).encode()
    raw = raw[:1] + b" " * LARGE_BYTES + raw[1:]  # inside, because spaces after a line do not belong to it
    harness.client.request(method, path, content=raw, headers={"Content-Type": media_type})
    assert parsed_in_loop
    assert not any(parsed_in_loop)


def test_a_small_body_is_parsed_in_the_event_loop(harness: ApiHarness, parsed_in_loop: list[bool]) -> None:
    """A thread would cost more than parsing it."""
    assert harness.client.put("/v1/datasets/x", json={}).status_code == 201
    assert harness.client.post("/v1/score", json=SENTENCE).status_code == 422
    assert parsed_in_loop
    assert all(parsed_in_loop)
