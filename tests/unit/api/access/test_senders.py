"""Sentences carry the name of the key whose request sent them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from service.access.key_text import generate_key, hash_key
from service.log.codec import get_header
from service.log.protocol import Output
from tests.support import platform_bodies as bodies
from tests.support.api_harness import TOPICS

if TYPE_CHECKING:
    from tests.support.api_harness import ApiHarness

ANNA = generate_key()
SENTENCE = {"tokens": ["Riga"], "labels": ["O"]}
HEADERS = {"Authorization": f"Bearer {ANNA}", "X-Sent-By": "somebody else"}
NDJSON = {"Content-Type": "application/x-ndjson"}


def list_senders(harness: ApiHarness) -> list[str | None]:
    return [get_header(record.headers, "x-sent-by") for record in harness.log.read(TOPICS.sentences, 0, 100)]


def test_a_sentence_carries_the_name_of_its_key(harness: ApiHarness) -> None:
    client = harness.serve_with_limits(keys=f"anna:admin:{hash_key(ANNA)}")
    client.headers.update(HEADERS)
    answers = [
        client.post("/v1/sentences", json=SENTENCE),
        client.post("/v1/sentences", content=json.dumps(SENTENCE), headers=NDJSON),
        client.post("/v1/webhooks/label-studio", json=bodies.make_event()),
    ]
    assert [answer.status_code for answer in answers] == [202] * 3
    harness.log.append([Output(TOPICS.sentences, b"k", b"no sentence")])  # by a producer on Kafka
    harness.send()
    (letter,) = client.get("/v1/dead-letters").json()["items"]
    corrected = client.post(f"/v1/dead-letters/{letter['id']}/replay", json={"sentence": SENTENCE})
    assert corrected.status_code == 200, corrected.text
    assert list_senders(harness) == ["anna", "anna", "anna", None, "anna"]


def test_without_keys_nobody_is_named(harness: ApiHarness) -> None:
    assert harness.client.post("/v1/sentences", json=SENTENCE, headers={"X-Sent-By": "anna"}).status_code == 202
    assert list_senders(harness) == [None]
