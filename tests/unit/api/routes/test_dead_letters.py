"""Dead letters over REST: read, corrected, and sent again once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from service.access.key_text import generate_key, hash_key
from service.contracts import DatasetSettings
from service.log.protocol import Output
from tests.support.api_harness import TOPICS

if TYPE_CHECKING:
    from tests.support.api_harness import ApiHarness

GHOST = {"tokens": ["Riga"], "labels": ["B-GHOST"], "dataset": "odd", "id": "g"}
BINARY = b"\xfe<script>"


@pytest.fixture
def letters(harness: ApiHarness) -> ApiHarness:
    """Three dead letters: offsets 0 (binary), 1 (no value), 2 (a label outside the label set)."""
    put_settings(harness, label_set=["PER"])
    messages = [(b"\xffkey", BINARY), (None, json.dumps(GHOST).encode()), (b"k", None)]
    harness.log.append([Output(TOPICS.sentences, key, value, (("trace", b"7"),)) for key, value in messages])
    harness.send()
    assert len(harness.log.read(TOPICS.dead_letters, 0, 10)) == 3
    return harness


def put_settings(harness: ApiHarness, **fields: Any) -> None:
    settings = harness.client.put("/v1/datasets/odd", json=fields).json()
    harness.worker._datasets.put(DatasetSettings.model_validate(settings))


def replay(harness: ApiHarness, letter: str, **body: Any) -> Any:
    return harness.client.post(f"/v1/dead-letters/{letter}/replay", json=body)


def test_letters_are_listed_newest_first_with_reason_and_advice(letters: ApiHarness) -> None:
    page = letters.client.get("/v1/dead-letters").json()
    assert sorted(item["id"] for item in page["items"]) == ["0-0", "0-1", "0-2"]
    assert (page["total"], page["next"], page["older"]) == (3, None, 0)
    times = [item["at"] for item in page["items"]]
    assert times == sorted(times, reverse=True)
    (ghost,) = letters.client.get("/v1/dead-letters", params={"dataset": "odd"}).json()["items"]
    assert (ghost["stage"], ghost["sentence_id"], ghost["origin"]) == ("labels", "g", "labelwatch.sentences-0-1")
    assert "B-GHOST" in ghost["reason"]
    assert "label set" in ghost["advice"]
    assert letters.client.get("/v1/dead-letters", params={"reason": ghost["reason"]}).json()["total"] == 1
    assert {"stage": "labels", "reason": ghost["reason"], "letters": 1} in page["groups"]
    seen: list[str] = []
    after = None
    for _ in range(3):
        query = {"limit": 1, **({} if after is None else {"after": after})}
        part = letters.client.get("/v1/dead-letters", params=query).json()
        seen += [item["id"] for item in part["items"]]
        after = part["next"]
    assert (seen, after) == ([item["id"] for item in page["items"]], None)
    assert letters.client.get("/v1/dead-letters", params={"after": "x"}).json()["field"] == "after"
    assert letters.client.get("/v1/dead-letters", params={"stag": "labels"}).status_code == 422


def test_one_letter_has_its_original_bytes(letters: ApiHarness) -> None:
    binary = letters.client.get("/v1/dead-letters/0-0").json()
    assert (binary["value"]["text"], binary["value"]["base64"]) == (None, "/jxzY3JpcHQ+")
    assert binary["headers"] == [["trace", {"text": "7", "base64": None}]]
    assert binary["problem"]
    ghost = letters.client.get("/v1/dead-letters/0-2").json()
    assert json.loads(ghost["value"]["text"]) == GHOST
    assert (ghost["field"], ghost["dataset"]) == ("labels", "odd")
    empty = letters.client.get("/v1/dead-letters/0-1").json()
    assert (empty["value"], empty["preview"]) == (None, None)
    for unknown in ("0-99", "7-0", "x", "1"):
        assert letters.client.get(f"/v1/dead-letters/{unknown}").status_code == 404


def test_a_corrected_letter_is_checked_sent_and_assessed(letters: ApiHarness) -> None:
    refused = replay(letters, "0-2", sentence={**GHOST, "labels": ["B-LOC"]})
    assert (refused.status_code, refused.json()["field"]) == (422, "sentence.labels")
    refused = replay(letters, "0-2", sentence={**GHOST, "labels": []})
    assert (refused.status_code, refused.json()["field"]) == (422, "sentence.labels")
    refused = replay(letters, "0-2", sentence={**GHOST, "tags": []})
    assert (refused.status_code, refused.json()["field"]) == (422, "sentence.tags")
    fixed = {**GHOST, "labels": ["B-PER"], "update": True}
    assert replay(letters, "0-2", sentence=fixed, dry_run=True).json()["state"] == "valid"
    assert len(letters.log.read(TOPICS.sentences, 0, 10)) == 3
    answer = replay(letters, "0-2", sentence=fixed)
    assert (answer.status_code, answer.json()["state"]) == (200, "replayed")
    record = letters.log.read(TOPICS.sentences, 3, 10)[0]
    assert json.loads(record.value or b"") == fixed
    assert ("labelwatch-replay-of", b"labelwatch.dead-letters-0-2") in record.headers
    letters.send()
    assert letters.client.get("/v1/review/odd/g").json()["labels"] == ["B-PER"]
    again = replay(letters, "0-2", sentence=fixed)
    assert (again.status_code, "`again`" in again.json()["detail"]) == (409, True)
    assert replay(letters, "0-2", sentence=fixed, again=True).status_code == 200
    assert letters.client.get("/v1/dead-letters").json()["total"] == 2
    assert letters.client.get("/v1/dead-letters", params={"replayed": "yes"}).json()["total"] == 1


def test_what_was_sent_again_is_known_after_a_restart(letters: ApiHarness) -> None:
    put_settings(letters, label_set=["PER", "GHOST"], label_map={"GHOST": "MISC"})
    assert replay(letters, "0-2").status_code == 200
    record = letters.log.read(TOPICS.sentences, 3, 10)[0]
    assert (record.key, json.loads(record.value or b"")) == (None, GHOST)  # byte for byte
    index = type(letters.backend.dead_letters)(letters.log, TOPICS)
    letters.serve_with(dead_letters=index)
    assert replay(letters, "0-2").status_code == 409
    index.close()


def test_all_letters_of_a_reason_are_sent_after_a_change_of_settings(letters: ApiHarness) -> None:
    letters.send(*({**GHOST, "id": f"g{number}"} for number in range(3)))
    labels = {"stage": "labels", "dataset": "odd"}

    def replay_all(**body: Any) -> dict[str, Any]:
        answer: dict[str, Any] = letters.client.post("/v1/dead-letters/replay", json={**labels, **body}).json()
        return answer

    letters.client.get("/v1/dead-letters")
    index = letters.backend.dead_letters
    while len(index.list_letters()) < 6:
        pass
    preview = replay_all(dry_run=True)
    assert (preview["replayed"], preview["invalid"]) == (0, 4)
    assert "B-GHOST" in preview["problems"][0]
    put_settings(letters, label_set=["PER", "GHOST"], label_map={"GHOST": "MISC"})
    preview = replay_all(dry_run=True)
    assert (preview["replayed"], preview["invalid"], preview["remaining"]) == (4, 0, 0)
    assert len(letters.log.read(TOPICS.sentences, 0, 100)) == 6
    assert replay_all()["replayed"] == 4
    assert replay_all()["replayed"] == 0
    assert len(letters.log.read(TOPICS.sentences, 0, 100)) == 10
    letters.send()
    assert len(letters.log.read(TOPICS.dead_letters, 0, 100)) == 6


def test_a_letter_that_could_not_be_sent_can_be_sent_later(letters: ApiHarness) -> None:
    put_settings(letters, label_set=["PER", "GHOST"], label_map={"GHOST": "MISC"})

    class BrokenLog:
        def append(self, *_: object, **__: object) -> None:
            raise OSError("no disk")

    log = letters.log
    letters.serve_with(append_to=BrokenLog())
    assert replay(letters, "0-2").status_code >= 500
    letters.serve_with(append_to=log)
    assert replay(letters, "0-2").status_code == 200


def test_a_key_for_one_dataset_sees_and_sends_only_its_letters(letters: ApiHarness) -> None:
    key = generate_key()
    client = letters.serve_with_limits(keys=f"ada:admin:med:{hash_key(key)}")
    headers = {"Authorization": f"Bearer {key}"}
    assert client.get("/v1/dead-letters", headers=headers).json()["total"] == 0
    for letter in ("0-0", "0-2"):
        assert client.get(f"/v1/dead-letters/{letter}", headers=headers).status_code == 403
        assert client.post(f"/v1/dead-letters/{letter}/replay", json={}, headers=headers).status_code == 403
    assert client.post("/v1/dead-letters/replay", json={"dataset": "odd"}, headers=headers).status_code == 403
    assert client.post("/v1/dead-letters/replay", json={"dataset": "med"}, headers=headers).status_code == 200
