"""A key of one dataset sends something that names no dataset, and learns how to name it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from service.access.key_text import generate_key, hash_key
from service.api.access.caller import NAME_IN_BODY, Caller
from service.api.http.problems import ForbiddenError
from tests.support import platform_bodies as bodies

if TYPE_CHECKING:
    from starlette.testclient import TestClient

    from tests.support.api_harness import ApiHarness

KEY, LEAD = generate_key(), generate_key()
SENTENCE = {"tokens": ["Riga"], "labels": ["O"]}
DECISION = {"id": "a", "verdict": "ok"}
NDJSON = {"Content-Type": "application/x-ndjson"}
IN_BODY = (
    'without a `dataset` it is for dataset default, and the key \'prod\' is only for news: add `"dataset": "news"`'
)
IN_QUERY = "without a `dataset` it is for dataset default, and the key 'prod' is only for news: add `?dataset=news`"
NAMED = "the key 'prod' is not for dataset default: it is for news"


@pytest.fixture
def client(harness: ApiHarness) -> TestClient:
    keys = [f"prod:admin:news:{hash_key(KEY)}", f"lead:reviewer:news:{hash_key(LEAD)}"]
    client = harness.serve_with_limits(keys=",".join(keys))
    client.headers["Authorization"] = f"Bearer {KEY}"
    return client


def refuse(client: TestClient, path: str, body: Any, **query: str) -> tuple[str, str]:
    answer = client.post(path, json=body, params=query)
    assert answer.status_code == 403, answer.text
    return answer.json()["field"], answer.json()["detail"]


@pytest.mark.parametrize("path", ["/v1/sentences", "/v1/score"])
def test_a_sentence_without_a_dataset(client: TestClient, path: str) -> None:
    named = {**SENTENCE, "dataset": "news"}
    assert refuse(client, path, SENTENCE) == ("dataset", IN_BODY)
    assert refuse(client, path, {"sentences": [named, SENTENCE]}) == ("sentences.1.dataset", IN_BODY)
    assert refuse(client, path, {**SENTENCE, "dataset": "default"}) == ("dataset", NAMED)
    assert refuse(client, path, SENTENCE, dataset="default") == ("dataset", NAMED)
    (line,) = client.post(path, content=json.dumps(SENTENCE), headers=NDJSON).text.splitlines()
    assert IN_BODY in line.replace("\\", "")


def test_a_record_of_a_platform_has_no_place_for_it(client: TestClient) -> None:
    field, detail = refuse(
        client,
        "/v1/sentences",
        bodies.make_task(annotations=[bodies.make_annotation(bodies.make_region("Riga", "LOC"))]),
        format="label-studio",
    )
    assert (field, detail) == ("dataset", IN_QUERY)


def test_a_decision_and_a_query(client: TestClient) -> None:
    client.headers["Authorization"] = f"Bearer {LEAD}"
    field, detail = refuse(client, "/v1/decisions", DECISION)
    assert (field, detail) == ("dataset", IN_BODY.replace("prod", "lead"))
    answer = client.get("/v1/export")
    assert (answer.status_code, answer.json()["detail"]) == (403, IN_QUERY.replace("prod", "lead"))


def test_of_several_datasets_none_is_chosen() -> None:
    caller = Caller("prod", "send", frozenset({"news", "med"}))
    with pytest.raises(ForbiddenError, match='is only for med, news: add `"dataset": "…"` with one of them'):
        caller.check_dataset("default", field="dataset", naming=NAME_IN_BODY)
