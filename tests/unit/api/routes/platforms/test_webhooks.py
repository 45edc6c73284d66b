from __future__ import annotations

import asyncio
import base64
import json
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from service.access.key_text import hash_key
from service.api.ingest.delivery_file import DeliveryFile
from service.api.ingest.webhook_deliveries import WebhookDeliveries
from service.contracts import read_sentence
from service.errors import InvalidInput, StateError, StreamError
from service.formats.platforms.webhook_signatures import (
    ID_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    parse_secret,
    sign,
    verify,
)
from service.log.codec import get_header
from service.log.topics import Topics
from service.settings import ApiSettings
from tests.support import platform_bodies as bodies

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from starlette.testclient import TestClient

    from service.log.protocol import Output
    from tests.support.api_harness import ApiHarness

TOPICS = Topics()
LABEL_STUDIO, ARGILLA = "/v1/webhooks/label-studio", "/v1/webhooks/argilla"
SECRET = "whsec_" + base64.b64encode(b"not so secret here").decode()


# -- Label Studio ------------------------------------------------------------------------------------------------------


def test_an_event_is_in_the_log_when_it_is_answered(harness: ApiHarness) -> None:
    client = harness.serve_with_limits(label_studio_url="https://ls.example.org")
    answer = client.post(f"{LABEL_STUDIO}?dataset=trips", json=bodies.make_event(), headers={"X-Request-ID": "ls-1"})
    assert answer.status_code == 202
    assert answer.json() == {
        "event": "ANNOTATION_CREATED", "ids": ["label-studio:41"], "ignored": None, "request_id": "ls-1",
    }  # fmt: skip
    (record,) = harness.log.read(TOPICS.sentences, 0, 10)
    assert record.key == b"trips/d"  # the document that the task's data names
    assert get_header(record.headers, "x-request-id") == "ls-1"
    message = json.loads(record.value or b"")
    assert (message["dataset"], message["labels"][:2]) == ("trips", ["B-PER", "I-PER"])
    assert message["source"] == "https://ls.example.org/projects/3/data?task=7"


def test_updates_and_deletions_follow(harness: ApiHarness) -> None:
    for action in ("ANNOTATION_UPDATED", "ANNOTATIONS_DELETED"):
        assert harness.client.post(LABEL_STUDIO, json=bodies.make_event(action)).status_code == 202
    updated, gone, other = harness.read_messages(TOPICS.sentences)
    assert updated["update"] is True
    assert (gone["id"], gone["deleted"]) == (updated["id"], True)
    assert gone["revision"] > updated["revision"]
    assert other["id"] == "label-studio:42"


def test_an_annotation_from_its_webhook_to_the_queue_and_out_of_it(harness: ApiHarness) -> None:
    """The tiny model knows nothing: what matters is that an item opens, and that the deletion closes it."""
    harness.client.put("/v1/datasets/trips", json={"flag_policy": {"kind": "below", "cut": 2.0}})
    harness.worker._datasets.apply_records(harness.log.read(TOPICS.datasets, 0, 10))  # as its thread would
    harness.client.post(f"{LABEL_STUDIO}?dataset=trips", json=bodies.make_event())
    harness.send()
    assert harness.read_messages(TOPICS.dead_letters) == []
    (item,) = harness.client.get("/v1/review?dataset=trips").json()["items"]
    assert (item["id"], item["annotator"]) == ("label-studio:41", "5")
    harness.client.post(f"{LABEL_STUDIO}?dataset=trips", json=bodies.make_event("ANNOTATIONS_DELETED"))
    harness.send()
    assert harness.client.get("/v1/review?dataset=trips").json()["items"] == []


def test_annotations_go_with_their_task(harness: ApiHarness) -> None:
    """Label Studio names the tasks only: the queue knows what came from them."""
    harness.client.put("/v1/datasets/trips", json={"flag_policy": {"kind": "below", "cut": 2.0}})
    harness.worker._datasets.apply_records(harness.log.read(TOPICS.datasets, 0, 10))  # as its thread would
    for number, task in ((41, 7), (42, 7), (43, 8)):
        annotation = bodies.make_annotation(bodies.make_region("Riga", "LOC"), id=number, task=task)
        harness.client.post(
            f"{LABEL_STUDIO}?dataset=trips",
            json=bodies.make_event(annotation=annotation, task=bodies.make_task(id=task)),
        )
    harness.send()
    deleted = {"action": "TASKS_DELETED", "tasks": [{"id": 7}, {"id": 9}]}
    tasks = ["label-studio:task:7", "label-studio:task:9"]
    assert harness.client.post(f"{LABEL_STUDIO}?dataset=others", json=deleted).json()["ids"] == tasks
    answer = harness.client.post(f"{LABEL_STUDIO}?dataset=trips", json=deleted).json()
    assert (answer["ids"], answer["ignored"]) == ([*tasks, "label-studio:41", "label-studio:42"], None)
    harness.send()
    assert open_items(harness) == ["label-studio:43"]
    again = harness.client.post(f"{LABEL_STUDIO}?dataset=trips", json=deleted)
    assert (again.status_code, again.json()["ids"]) == (202, tasks)
    none = harness.client.post(LABEL_STUDIO, json={"action": "TASKS_DELETED", "tasks": []})
    assert (none.status_code, none.json()["ignored"]) == (202, "it names none")


def open_items(harness: ApiHarness) -> list[str]:
    return [one["id"] for one in harness.client.get("/v1/review?dataset=trips").json()["items"]]


def flags_all(harness: ApiHarness) -> None:
    harness.client.put("/v1/datasets/trips", json={"flag_policy": {"kind": "below", "cut": 2.0}})
    harness.worker._datasets.apply_records(harness.log.read(TOPICS.datasets, 0, 10))  # as its thread would


def test_a_task_may_go_before_its_annotation_was_judged(harness: ApiHarness) -> None:
    """The queue does not know the annotation yet: it closes when it comes."""
    flags_all(harness)
    harness.client.post(f"{LABEL_STUDIO}?dataset=trips", json=bodies.make_event())
    deleted = {"action": "TASKS_DELETED", "tasks": [{"id": 7}], "project": {"id": 3}}
    assert harness.client.post(f"{LABEL_STUDIO}?dataset=trips", json=deleted).json()["ids"] == ["label-studio:task:7"]
    harness.send()
    assert open_items(harness) == []
    closed = harness.client.get("/v1/review/trips/label-studio:41").json()
    assert (closed["state"], closed["closed_by"]) == ("closed", "deleted")


def test_deletions_are_accepted_while_the_queue_is_being_built(harness: ApiHarness) -> None:
    class Building:
        version = 0

        def find_task_item_ids(self, dataset: str, platform: str, task: str) -> list[str]:
            raise StateError("the review queue's file is gone")

        def get_revisions(self, dataset: str, ids: list[str]) -> dict[str, int]:
            raise StateError("the review queue's file is gone")

    queue = harness.backend.queue
    flags_all(harness)
    harness.client.post(f"{LABEL_STUDIO}?dataset=trips", json=bodies.make_event())
    harness.send()
    assert open_items(harness) == ["label-studio:41"]
    harness.serve_with(queue=Building())
    deleted = {"action": "TASKS_DELETED", "tasks": [{"id": 7}]}
    for body in (deleted, bodies.make_event("ANNOTATIONS_DELETED", annotations=[{"id": 99}])):
        assert harness.client.post(f"{LABEL_STUDIO}?dataset=trips", json=body).status_code == 202
    harness.serve_with(queue=queue)
    harness.send()
    assert open_items(harness) == []


@pytest.mark.parametrize("judged", [True, False])
@pytest.mark.parametrize("body", [
    bodies.make_event("ANNOTATIONS_DELETED", annotations=[{"id": 41}]), {"action": "TASKS_DELETED", "tasks": [{"id": 7}]},
])  # fmt: skip
def test_a_deletion_is_newer_than_what_it_deletes_whatever_our_clock_says(
    harness: ApiHarness, body: dict[str, Any], judged: bool
) -> None:
    """Label Studio's clock may be ahead of ours. The annotation is in the queue, or still on its way there."""
    flags_all(harness)
    ahead = datetime.now(UTC) + timedelta(hours=3)
    late = bodies.make_annotation(bodies.make_region("Riga", "LOC"), updated_at=ahead.isoformat())
    harness.client.post(f"{LABEL_STUDIO}?dataset=trips", json=bodies.make_event(annotation=late))
    if judged:
        harness.send()
        assert open_items(harness) == ["label-studio:41"]
        harness.serve_with(deliveries=WebhookDeliveries())  # another replica, or this one started anew
    harness.client.post(f"{LABEL_STUDIO}?dataset=trips", json=body)
    harness.send()
    assert open_items(harness) == []
    # What is annotated after that is newer by Label Studio's clock, and opens again.
    later = late | {"updated_at": (ahead + timedelta(seconds=1)).isoformat()}
    harness.client.post(f"{LABEL_STUDIO}?dataset=trips", json=bodies.make_event("ANNOTATION_UPDATED", annotation=later))
    harness.send()
    assert open_items(harness) == ["label-studio:41"]


def test_a_deletion_with_the_highest_revision_there_is(harness: ApiHarness) -> None:
    harness.backend.deliveries.record_revisions(
        [read_sentence({"tokens": ["a"], "labels": ["O"], "revision": 2**63 - 1})]
    )
    assert harness.client.post(LABEL_STUDIO, json=bodies.make_event("ANNOTATIONS_DELETED")).status_code == 202
    assert {one["revision"] for one in harness.read_messages(TOPICS.sentences)} == {2**63 - 1}


def counted(harness: ApiHarness, name: str, **labels: str) -> float | None:
    return harness.backend.telemetry.registry.get_sample_value(f"labelwatch_{name}_total", labels)


def test_what_became_of_events_is_counted(trusting: ApiHarness) -> None:
    def post(path: str, **request: Any) -> None:
        trusting.client.post(path, headers={"x-api-key": "write-key"} | request.pop("headers", {}), **request)

    post(LABEL_STUDIO, json=bodies.make_event())
    post(LABEL_STUDIO, json={"action": "ANNOTATION_CREATED"})
    post(LABEL_STUDIO, json=overlapping())
    post(LABEL_STUDIO, content=b"{", headers={"Content-Type": "application/json"})
    request = signed(bodies.make_argilla_event())
    for _ in range(2):
        post(ARGILLA, **request)
    updated = bodies.make_argilla_event("response.updated")
    post(ARGILLA, **signed(updated, sent=datetime.now(UTC) - timedelta(hours=1)))
    expected = {("label-studio", "refused"): 2.0, ("argilla", "ignored"): 0.0, ("argilla", "refused"): 0.0}
    expected |= dict.fromkeys([("label-studio", "taken"), ("label-studio", "ignored")], 1.0)
    expected |= dict.fromkeys([("argilla", "taken"), ("argilla", "repeated"), ("argilla", "late")], 1.0)
    for (platform, outcome), number in expected.items():
        found = counted(trusting, "webhook_events", platform=platform, outcome=outcome)
        assert found == number, (platform, outcome)
    stages = {"decode": 1.0, "validate": 2.0, "labels": 0.0}
    assert {stage: counted(trusting, "dead_letters", stage=stage) for stage in stages} == stages
    assert len(trusting.read_messages(TOPICS.sentences)) == 2


@pytest.mark.parametrize("tasks", [{"id": 7}, [7], [{"id": "7"}], [{}]])
def test_tasks_that_cannot_be_read_are_refused(harness: ApiHarness, tasks: object) -> None:
    answer = harness.client.post(LABEL_STUDIO, json={"action": "TASKS_DELETED", "tasks": tasks})
    assert answer.status_code == 422
    assert answer.json()["field"].startswith("tasks")


@pytest.mark.parametrize(
    "body", [{"action": "ANNOTATION_CREATED"}, {"action": "TASKS_DELETED"}, bodies.make_event("TASKS_CREATED")]
)
def test_what_says_nothing_new_is_answered_and_ignored(harness: ApiHarness, body: dict[str, Any]) -> None:
    answer = harness.client.post(LABEL_STUDIO, json=body)
    assert (answer.status_code, answer.json()["ids"]) == (202, [])
    assert answer.json()["ignored"]
    assert harness.read_messages(TOPICS.sentences) == []


def overlapping() -> dict[str, Any]:
    both = (bodies.make_region("Mara Quill", "PER"), bodies.make_region("Mara", "ORG"))
    return bodies.make_event(annotation=bodies.make_annotation(*both))


def test_an_unreadable_event_is_refused_and_stored(harness: ApiHarness) -> None:
    answer = harness.client.post(LABEL_STUDIO, json=overlapping())
    assert answer.status_code == 422
    assert answer.json()["field"] == "annotation.result.0.value"
    (letter,) = harness.log.read(TOPICS.dead_letters, 0, 10)
    assert json.loads(letter.value or b"") == overlapping()
    assert get_header(letter.headers, "__connect.errors.topic") == "webhook:label-studio"
    assert "it overlaps" in str(get_header(letter.headers, "__connect.errors.exception.message"))
    assert harness.read_messages(TOPICS.sentences) == []


def test_the_readable_part_of_an_event_is_ingested_and_the_event_stored(harness: ApiHarness) -> None:
    twice = bodies.make_annotation(bodies.make_region("Riga", "LOC"), bodies.make_region("Riga", "ORG"), id=42)
    event = bodies.make_event(
        "ANNOTATIONS_CREATED", annotation=[twice, bodies.make_annotation()], task=[bodies.make_task()]
    )
    answer = harness.client.post(LABEL_STUDIO, json=event)
    assert (answer.status_code, answer.json()["ids"]) == (202, ["label-studio:41"])
    assert answer.json()["ignored"].startswith(
        "1 of 2 can't be read: the event is stored as a dead letter; the first: "
    )
    assert [one["id"] for one in harness.read_messages(TOPICS.sentences)] == ["label-studio:41"]
    (letter,) = harness.log.read(TOPICS.dead_letters, 0, 10)
    assert json.loads(letter.value or b"") == event
    outcomes = {
        one: counted(harness, "webhook_events", outcome=one, platform="label-studio") for one in ("taken", "refused")
    }
    assert outcomes == {"taken": 0.0, "refused": 1.0}


def test_a_sentence_over_the_limit_is_refused(harness: ApiHarness) -> None:
    body = bodies.make_event(annotation=bodies.make_annotation(), task=bodies.make_task(data={"text": "a " * 51}))
    answer = harness.client.post(LABEL_STUDIO, json=body)
    assert answer.status_code == 422
    assert "51 words, the limit is 50" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("query", "field"), [("dataset=No%20Way", "dataset"), ("dataset=" + "x" * 65, "dataset"), ("control=" + "x" * 300, "control")]
)  # fmt: skip
def test_queries_are_checked(harness: ApiHarness, query: str, field: str) -> None:
    answer = harness.client.post(f"{LABEL_STUDIO}?{query}", json=bodies.make_event())
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_field_and_control_can_be_named(harness: ApiHarness) -> None:
    body = bodies.make_event(task=bodies.make_task(data={"body": bodies.TEXT}))
    body["annotation"]["result"].append(bodies.make_region("Tallinn", "VERB", from_name="pos"))
    assert harness.client.post(f"{LABEL_STUDIO}?field=body&control=label", json=body).status_code == 202
    assert harness.read_messages(TOPICS.sentences)[0]["labels"].count("O") == 5


def test_labels_are_written_in_the_datasets_scheme(harness: ApiHarness) -> None:
    assert harness.client.put("/v1/datasets/trips", json={"scheme": "biluo"}).status_code == 201
    while harness.backend.state_view.get_settings("trips").scheme != "biluo":
        pass  # its thread reads the log
    harness.client.post(f"{LABEL_STUDIO}?dataset=trips", json=bodies.make_event())
    assert harness.read_messages(TOPICS.sentences)[0]["labels"][:2] == ["B-PER", "L-PER"]


class Broken:
    def append(self, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:
        raise StreamError("no broker")


def test_a_log_that_does_not_answer(harness: ApiHarness) -> None:
    client = harness.serve_with(append_to=Broken())
    answer = client.post(LABEL_STUDIO, json=bodies.make_event())
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers
    assert client.post(LABEL_STUDIO, json=overlapping()).status_code == 422


def test_a_key_is_needed_where_keys_are_set(harness: ApiHarness) -> None:
    keys = f"w:write:{hash_key('write-key')},r:read:{hash_key('read-key')}"
    client = harness.serve_with_limits(keys=keys)

    def post(**headers: str) -> int:
        return client.post(LABEL_STUDIO, json=bodies.make_event(), headers=headers).status_code

    assert post() == 401
    assert post(authorization="Bearer read-key") == 403
    assert post(authorization="Bearer write-key") == 202
    assert post(**{"x-api-key": "write-key"}) == 202
    assert client.post(ARGILLA, json=bodies.make_argilla_event()).status_code == 401
    assert client.post(ARGILLA, json=bodies.make_argilla_event(), headers={"x-api-key": "write-key"}).status_code == 202


@pytest.mark.parametrize(("body", "status"), [(b"{", 400), (b"[]", 400), (b'{"action": 3}', 422), (b"{}", 422)])
@pytest.mark.parametrize("path", [LABEL_STUDIO, ARGILLA])
def test_bodies_that_are_no_events_are_refused_and_stored(
    harness: ApiHarness, path: str, body: bytes, status: int
) -> None:
    answer = harness.client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    (letter,) = harness.log.read(TOPICS.dead_letters, 0, 10)
    assert letter.value == body


def test_a_message_larger_than_the_topic_allows_is_refused_and_stored(harness: ApiHarness) -> None:
    region = bodies.make_region("Mara Quill", "x" * (1 << 20))
    body = bodies.make_event(annotation=bodies.make_annotation(region), task=bodies.make_task())
    answer = harness.client.post(LABEL_STUDIO, json=body)
    assert answer.status_code == 413
    (letter,) = harness.log.read(TOPICS.dead_letters, 0, 10)
    assert json.loads(letter.value or b"") == body
    assert get_header(letter.headers, "__connect.errors.stage") == "validate"
    assert "the limit is" in str(get_header(letter.headers, "__connect.errors.exception.message"))


def test_of_an_event_larger_than_a_dead_letter_the_beginning_is_stored(harness: ApiHarness) -> None:
    raw = b'{"action": "' + b"a" * (9 << 20)
    answer = harness.client.post(LABEL_STUDIO, content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    (letter,) = harness.log.read(TOPICS.dead_letters, 0, 10)
    assert letter.value is not None
    assert 7 << 20 < len(letter.value) < 8 << 20
    assert raw.startswith(letter.value)


# -- Argilla -----------------------------------------------------------------------------------------------------------


def signed(
    body: dict[str, Any],
    *,
    secret: str = SECRET,
    sent: datetime | None = None,
    at: datetime | None = None,
    identity: str | None = None,
) -> dict[str, Any]:
    """A request as Argilla sends it; `at` is signed, `sent` stands in the header."""
    raw = json.dumps(body).encode()
    sent = sent or datetime.now(UTC)
    identity = identity or f"msg_{uuid.uuid4()}"
    signature = sign(parse_secret(secret), identity, int((at or sent).timestamp()), raw)
    headers = {
        ID_HEADER: identity,
        TIMESTAMP_HEADER: str(int(sent.timestamp())),
        SIGNATURE_HEADER: f"v1a,abc {signature}",
    }
    return {"content": raw, "headers": {**headers, "Content-Type": "application/json"}}


@pytest.fixture
def trusting(harness: ApiHarness) -> ApiHarness:
    harness.serve_with_limits(
        keys=f"w:write:{hash_key('write-key')}", argilla_secrets=SECRET, argilla_url="https://a.example.org"
    )
    return harness


def test_a_signed_event_has_a_small_limit(trusting: ApiHarness) -> None:
    """Anybody may send a body there: the signature is checked when all of it has arrived."""
    answer = trusting.client.post(ARGILLA, content=b" " * 1_000_001, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["connection"]) == (413, "close")
    assert "larger than 1,000,000 bytes" in answer.json()["detail"]


def test_a_signed_event_needs_no_key(trusting: ApiHarness) -> None:
    answer = trusting.client.post(f"{ARGILLA}?dataset=trips", **signed(bodies.make_argilla_event()))
    assert (answer.status_code, answer.json()["ids"]) == (202, ["argilla:r-1"])
    (message,) = trusting.read_messages(TOPICS.sentences)
    assert (message["dataset"], message["annotator"]) == ("trips", "nadia")
    assert message["source"].startswith("https://a.example.org/dataset/d-1/")


def test_argilla_signs_the_events_time_and_sends_another(trusting: ApiHarness) -> None:
    happened = datetime.now(UTC) - timedelta(seconds=90)
    body = bodies.make_argilla_event() | {"timestamp": happened.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    assert trusting.client.post(ARGILLA, **signed(body, at=happened)).status_code == 202


def test_a_wrong_signature_is_refused_whatever_the_key(trusting: ApiHarness) -> None:
    def refused(request: dict[str, Any]) -> str:
        request["headers"]["x-api-key"] = "write-key"
        answer = trusting.client.post(ARGILLA, **request)
        assert answer.status_code == 401
        return str(answer.json()["detail"])

    other = "whsec_" + base64.b64encode(b"another").decode()
    assert "it matches no secret that is configured" in refused(signed(bodies.make_argilla_event(), secret=other))
    changed = signed(bodies.make_argilla_event())
    changed["content"] = changed["content"].replace(b"PER", b"ORG")
    assert "it matches no secret that is configured" in refused(changed)
    for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER):
        request = signed(bodies.make_argilla_event())
        del request["headers"][name]
        assert f"`{name}`: the header is missing" in refused(request)
    assert trusting.read_messages(TOPICS.sentences) == []


@pytest.mark.parametrize("minutes", [-6, 6])
def test_a_late_event_is_stored_and_not_requested_again(trusting: ApiHarness, minutes: int) -> None:
    """Only who knows the secret can have signed it: what the platform had no way to send earlier is not lost."""
    late = signed(bodies.make_argilla_event(), sent=datetime.now(UTC) + timedelta(minutes=minutes))
    answer = trusting.client.post(ARGILLA, **late)
    assert (answer.status_code, answer.json()["ids"]) == (202, [])
    assert "more than 300 seconds from now" in answer.json()["ignored"]
    assert trusting.client.post(ARGILLA, **late).json()["ignored"] == "it was delivered before"
    (letter,) = trusting.log.read(TOPICS.dead_letters, 0, 10)
    assert letter.value == late["content"]
    assert get_header(letter.headers, "__connect.errors.topic") == "webhook:argilla"
    assert "300 seconds" in str(get_header(letter.headers, "__connect.errors.exception.message"))
    assert trusting.read_messages(TOPICS.sentences) == []


def test_a_late_event_that_cannot_be_stored_is_requested_again(trusting: ApiHarness) -> None:
    late = signed(bodies.make_argilla_event(), sent=datetime.now(UTC) - timedelta(hours=1))
    trusting.serve_with(append_to=Broken())
    assert trusting.client.post(ARGILLA, **late).status_code == 503
    trusting.serve_with(append_to=trusting.log)
    assert trusting.client.post(ARGILLA, **late).status_code == 202
    assert len(trusting.read_messages(TOPICS.dead_letters)) == 1


def test_an_event_that_is_delivered_again_teaches_once(trusting: ApiHarness) -> None:
    first = signed(bodies.make_argilla_event())
    # A new attempt of Argilla's has a new id, and the same body.
    attempts = (first, first, signed(bodies.make_argilla_event()))
    answers = [trusting.client.post(f"{ARGILLA}?dataset=trips", **one).json() for one in attempts]
    assert [one["ids"] for one in answers] == [["argilla:r-1"], [], []]
    assert {one["ignored"] for one in answers[1:]} == {"it was delivered before"}
    assert len(trusting.read_messages(TOPICS.sentences)) == 1
    # Two webhooks of one event, for two datasets of ours.
    other = signed(bodies.make_argilla_event())
    assert trusting.client.post(f"{ARGILLA}?dataset=others", **other).json()["ids"] == ["argilla:r-1"]


def test_a_recorded_event_is_ingested_once_whatever_its_query(trusting: ApiHarness) -> None:
    """The query is not signed: one event was accepted 52 times with `?x=N`, and into other datasets."""
    recorded = signed(bodies.make_argilla_event())
    assert trusting.client.post(f"{ARGILLA}?dataset=trips", **recorded).json()["ids"] == ["argilla:r-1"]
    unknown = trusting.client.post(f"{ARGILLA}?dataset=trips&x=1", **recorded)
    assert (unknown.status_code, unknown.json()["field"]) == (422, "x")
    for query in ("?dataset=others", "?field=text&dataset=trips", ""):
        answer = trusting.client.post(f"{ARGILLA}{query}", **recorded)
        assert (answer.status_code, answer.json()["ids"]) == (202, []), query
    assert len(trusting.read_messages(TOPICS.sentences)) == 1


def test_a_secret_of_one_dataset_signs_for_no_other(harness: ApiHarness) -> None:
    other = "whsec_" + base64.b64encode(b"the secret of others").decode()
    client = harness.serve_with_limits(
        argilla_secrets=f"trips:{SECRET},{other}", keys=f"w:write:{hash_key('write-key')}"
    )
    for dataset, secret, status in (
        ("others", SECRET, 401),
        ("trips", SECRET, 202),
        ("others", other, 202),
    ):
        event = signed(bodies.make_argilla_event(), secret=secret)
        assert client.post(f"{ARGILLA}?dataset={dataset}", **event).status_code == status
    assert [message["dataset"] for message in harness.read_messages(TOPICS.sentences)] == ["trips", "others"]


def serve_anew(harness: ApiHarness, file: DeliveryFile | None = None) -> TestClient:
    """Another process of the API, or this one started anew."""
    return harness.serve_with(
        settings=ApiSettings(argilla_secrets=SecretStr(SECRET)), deliveries=WebhookDeliveries(file)
    )


def test_an_event_that_reaches_two_replicas_is_one_item(harness: ApiHarness) -> None:
    """Replicas without a common folder remember their own deliveries: it is appended twice, with the same id and revision."""
    event = signed(bodies.make_argilla_event())
    everything = {"flag_policy": {"kind": "below", "cut": 2.0}}
    harness.client.put("/v1/datasets/trips", json=everything).raise_for_status()
    harness.worker._datasets.apply_records(harness.log.read(TOPICS.datasets, 0, 10))  # as its thread would
    for _ in range(2):
        assert serve_anew(harness).post(f"{ARGILLA}?dataset=trips", **event).json()["ids"] == ["argilla:r-1"]
    first, second = harness.read_messages(TOPICS.sentences)
    assert first == second
    harness.send()
    (item,) = harness.client.get("/v1/review?dataset=trips").json()["items"]
    assert item["id"] == "argilla:r-1"


def test_an_event_that_is_replayed_to_another_process_is_recognised(harness: ApiHarness, tmp_path: Path) -> None:
    event = signed(bodies.make_argilla_event())
    with closing(DeliveryFile(tmp_path / "deliveries.sqlite")) as file:
        assert serve_anew(harness, file).post(ARGILLA, **event).json()["ids"] == ["argilla:r-1"]
        with closing(DeliveryFile(tmp_path / "deliveries.sqlite")) as other:
            for _ in range(2):
                answer = serve_anew(harness, other).post(ARGILLA, **event)
                assert (answer.status_code, answer.json()["ignored"]) == (202, "it was delivered before")
    assert len(harness.read_messages(TOPICS.sentences)) == 1


def test_what_the_log_did_not_take_is_not_in_the_file(harness: ApiHarness, tmp_path: Path) -> None:
    event = signed(bodies.make_argilla_event())
    with closing(DeliveryFile(tmp_path / "deliveries.sqlite")) as file:
        log = harness.log
        serve_anew(harness, file)
        assert harness.serve_with(append_to=Broken()).post(ARGILLA, **event).status_code == 503
        harness.serve_with(append_to=log)
        assert serve_anew(harness, file).post(ARGILLA, **event).json()["ids"] == ["argilla:r-1"]


def test_a_file_of_deliveries_that_fails_is_done_without(
    harness: ApiHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "deliveries.sqlite"
    path.write_bytes(b"no database at all" * 100)
    with closing(DeliveryFile(path)) as file:
        client = serve_anew(harness, file)
        for number in range(3):
            event = signed(bodies.make_argilla_event(), identity=f"msg_{number}")
            assert client.post(f"{ARGILLA}?dataset=d{number}", **event).json()["ids"] == ["argilla:r-1"]
            assert client.post(f"{ARGILLA}?dataset=d{number}", **event).json()["ids"] == []
    (warning,) = [record.getMessage() for record in caplog.records if "deliveries.sqlite" in record.getMessage()]
    assert "is recognised again by this process only" in warning


def test_what_the_log_did_not_take_may_be_delivered_again(trusting: ApiHarness) -> None:
    request = signed(bodies.make_argilla_event())
    trusting.serve_with(append_to=Broken())
    assert trusting.client.post(ARGILLA, **request).status_code == 503
    trusting.serve_with(append_to=trusting.log)
    assert trusting.client.post(ARGILLA, **request).json()["ids"] == ["argilla:r-1"]


def test_deliveries_at_the_same_time_and_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.ingest.webhook_deliveries.MAX_EVENT_KEYS", 2)
    monkeypatch.setattr("service.api.ingest.webhook_deliveries.MAX_TRACKED_DATASETS", 1)
    deliveries = WebhookDeliveries()

    async def deliver() -> None:
        async with deliveries.deduplicate(["a"]) as new:
            assert new
            with pytest.raises(StreamError, match="at this moment"):
                async with deliveries.deduplicate(["a", "b"]):
                    pass
        for name in ("b", "c"):
            async with deliveries.deduplicate([name]) as new:
                assert new
        async with deliveries.deduplicate(["c"]) as new:
            assert not new
        async with deliveries.deduplicate(["a"]) as new:
            assert new  # forgotten since

    asyncio.run(deliver())
    for dataset in ("one", "two"):
        deliveries.record_revisions(
            [read_sentence({"tokens": ["a"], "labels": ["O"], "dataset": dataset, "revision": 3})]
        )
    assert (deliveries.get_newest_revision("one"), deliveries.get_newest_revision("two")) == (None, 3)


def test_one_of_argillas_datasets_can_be_picked(trusting: ApiHarness) -> None:
    gone = bodies.make_argilla_event("response.deleted")  # it does not tell of which it was
    for path, body, ids in (
        ("?argilla_dataset=others", bodies.make_argilla_event(), []),
        ("?argilla_dataset=trips", bodies.make_argilla_event(), ["argilla:r-1"]),
        ("?argilla_dataset=others", gone, ["argilla:r-1"]),
    ):
        answer = trusting.client.post(ARGILLA + path, **signed(body)).json()
        assert answer["ids"] == ids
        assert (answer["ignored"] == "it is about the dataset trips") == (not ids)


def test_deleted_and_ignored_responses(trusting: ApiHarness) -> None:
    for body in (bodies.make_argilla_event("response.deleted"), bodies.make_argilla_event(status="draft")):
        assert trusting.client.post(ARGILLA, **signed(body)).status_code == 202
    (message,) = trusting.read_messages(TOPICS.sentences)
    assert (message["id"], message["deleted"]) == ("argilla:r-1", True)


def test_responses_go_with_their_record(harness: ApiHarness) -> None:
    flags_all(harness)
    harness.client.post(f"{ARGILLA}?dataset=trips", json=bodies.make_argilla_event())
    harness.send()
    assert open_items(harness) == ["argilla:r-1"]
    deleted = {"type": "record.deleted", "timestamp": "2026-02-01T10:00:00Z", "data": {"id": "rec-1"}}  # a slow clock
    answer = harness.client.post(f"{ARGILLA}?dataset=trips&argilla_dataset=field-reports", json=deleted)
    assert (answer.status_code, answer.json()["ids"]) == (202, ["argilla:task:rec-1"])
    harness.send()
    assert open_items(harness) == []
    assert harness.client.get("/v1/review?dataset=trips&state=closed").json()["items"][0]["closed_by"] == "deleted"


def test_the_signature_of_the_specification() -> None:
    """The example of the Standard Webhooks specification."""
    secret = parse_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == expected
    headers = {
        ID_HEADER: "msg_p5jXN8AQM9LWM0D4loKWxJek",
        TIMESTAMP_HEADER: "1614265330",
        SIGNATURE_HEADER: f"v1,xyz {expected}",
    }
    now = datetime.fromtimestamp(1614265330 + 299, UTC)
    assert verify(body, headers, [b"other", secret], now=now) == ("msg_p5jXN8AQM9LWM0D4loKWxJek", None)
    later = now + timedelta(seconds=2)
    assert "more than 300 seconds" in str(verify(body, headers, [secret], now=later).late_reason)
    with pytest.raises(InvalidInput, match="it matches no secret"):
        verify(body, headers | {TIMESTAMP_HEADER: "1614265331"}, [secret], now=now)
    with pytest.raises(InvalidInput, match="it matches no secret"):
        verify(body, headers | {TIMESTAMP_HEADER: "²" * 3}, [secret], now=now)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_=", "not base64!", "abcde"])
def test_unusable_secrets(secret: str) -> None:
    with pytest.raises(InvalidInput, match="base64"):
        parse_secret(secret)
