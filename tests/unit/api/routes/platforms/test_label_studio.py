"""labelwatch as a model of a Label Studio project: what Label Studio calls, with the key in the path."""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from service.access.key_text import generate_key, hash_key
from service.log.topics import Topics
from tests.support import platform_bodies as bodies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.testclient import TestClient

    from tests.support.api_harness import ApiHarness

TOPICS = Topics()
KEY = generate_key()
ADDRESS = f"/label-studio/trips/{KEY}"
LABELS = ("PER", "ORG", "LOC")


def make_interface(*labels: str, control: str = "label") -> str:
    values = "".join(f'<Label value="{label}"/>' for label in labels)
    return f'<View><Labels name="{control}" toName="text">{values}</Labels><Text name="text" value="$text"/></View>'


INTERFACE = make_interface(*LABELS)


@pytest.fixture
def client(harness: ApiHarness) -> Iterator[TestClient]:
    stop = threading.Event()
    thread = threading.Thread(target=harness.backend.batcher.run, args=(stop,))
    thread.start()
    yield harness.serve_with_limits(keys=f"studio:label-studio:trips:{hash_key(KEY)}")
    stop.set()
    thread.join()


def set_up(client: TestClient, interface: str = INTERFACE) -> Any:
    body = {"project": "3.1772359200", "schema": interface, "hostname": "http://ls", "access_token": "theirs"}
    return client.post(f"{ADDRESS}/setup", json={**body, "extra_params": None})


def predict(client: TestClient, *tasks: object, interface: str = INTERFACE) -> Any:
    params = {"login": None, "password": None, "context": None}
    body = {"tasks": list(tasks), "project": "3.1772359200", "label_config": interface, "params": params}
    return client.post(f"{ADDRESS}/predict", json=body)


def get_label_set(harness: ApiHarness) -> tuple[str, ...] | None:
    return harness.backend.state_view.get_settings_state("trips").in_force.label_set


# -- health and setup --------------------------------------------------------------------------------------------------


def test_health_says_whether_the_service_is_ready(harness: ApiHarness, client: TestClient) -> None:
    assert client.get(f"{ADDRESS}/health").json()["status"] == "UP"
    keys = f"studio:label-studio:trips:{hash_key(KEY)}"
    unready = harness.serve_with(conditions=lambda: {"model": "the model is being loaded"})
    assert harness.backend.settings.keys.get_secret_value() == keys
    answer = unready.get(f"{ADDRESS}/health")
    assert (answer.status_code, answer.json()["detail"]) == (503, "the model is being loaded")


def test_setup_takes_the_label_set_of_the_project(harness: ApiHarness, client: TestClient) -> None:
    answer = set_up(client)
    assert answer.status_code == 200
    assert answer.json()["model_version"].startswith("labelwatch-backend ")
    assert client.get(f"{ADDRESS}/versions").json() == {"versions": [answer.json()["model_version"]]}
    assert get_label_set(harness) == LABELS
    # Label Studio sets the model up again whenever somebody looks at it.
    set_up(client, make_interface(*reversed(LABELS)))
    assert len(harness.read_messages(TOPICS.datasets)) == 1
    set_up(client, make_interface("PER", "ORG", "LOC", "MISC"))
    assert get_label_set(harness) == ("PER", "ORG", "LOC", "MISC")


def test_setup_keeps_the_other_settings(harness: ApiHarness, client: TestClient) -> None:
    harness.serve_with_limits().patch("/v1/datasets/trips", json={"control_share": 0.25})
    client = harness.serve_with_limits(keys=f"studio:label-studio:trips:{hash_key(KEY)}")
    assert set_up(client).status_code == 200
    assert harness.backend.state_view.get_settings_state("trips").in_force.control_share == 0.25


@pytest.mark.parametrize(
    ("interface", "problem"),
    [
        ("<View><Text name='text' value='$text'/></View>", "no <Labels> control over a <Text>"),
        ("<View>", "is not XML"),
        ("<!DOCTYPE x><View/>", "leave the line with <!DOCTYPE out"),
        (make_interface(), "has no <Label>: name the labels there"),
        (
            make_interface("X").replace("<View>", "<View><Labels name='b' toName='text'><Label value='Y'/></Labels>"),
            "several controls for spans, b, label: keep one",
        ),
    ],
)
def test_a_labelling_interface_that_does_not_fit_is_explained(
    harness: ApiHarness, client: TestClient, caplog: pytest.LogCaptureFixture, interface: str, problem: str
) -> None:
    answer = set_up(client, interface)
    assert answer.status_code in (400, 422)
    assert (answer.json()["field"], problem in answer.json()["detail"]) == ("schema", True)
    # Label Studio shows the status only.
    assert problem in caplog.text
    assert get_label_set(harness) is None


def test_a_setup_without_a_labelling_interface(client: TestClient) -> None:
    answer = client.post(f"{ADDRESS}/setup", json={"project": "3.1"})
    assert (answer.status_code, answer.json()["field"]) == (422, "schema")


# -- predictions -------------------------------------------------------------------------------------------------------


def test_a_task_without_annotations_gets_what_the_model_finds(client: TestClient) -> None:
    version = set_up(client).json()["model_version"]
    texts = [bodies.TEXT, "🚢 Riga greeted Mara Quill and the quick brown fox in Oslo."]
    tasks = [bodies.make_task(id=number, data={"text": text}) for number, text in enumerate(texts)]
    answer = predict(client, *tasks)
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    assert len(results) == 2
    assert all(result["result"] for result in results)
    for result, text in zip(results, texts, strict=True):
        assert result["model_version"] == version
        assert 0 < result["score"] < 1
        ends = [0]
        for region in result["result"]:
            value = region["value"]
            assert (region["from_name"], region["to_name"], region["type"]) == ("label", "text", "labels")
            assert text[value["start"] : value["end"]] == value["text"]
            assert set(value["labels"]) < set(LABELS)
            assert 0 < region["score"] <= 1
            assert value["start"] >= ends[-1]
            ends.append(value["end"])


def test_only_labels_of_the_project_are_suggested(client: TestClient) -> None:
    """The dataset's label set may be another one."""
    set_up(client)
    found = predict(client, bodies.make_task(), interface=make_interface("OTHER")).json()["results"][0]
    assert found["result"] == []


def test_a_task_with_an_annotation_gets_the_doubts_about_it(harness: ApiHarness, client: TestClient) -> None:
    set_up(client)
    older = bodies.make_annotation(bodies.make_region("Tallinn", "PER"), id=40, updated_at="2026-02-01T10:00:00Z")
    skipped = bodies.make_annotation(id=43, was_cancelled=True, updated_at="2026-04-01T10:00:00Z")
    given = bodies.make_annotation(bodies.make_region("Mara Quill", "PER"), bodies.make_region("Riga", "LOC"))
    task = bodies.make_task(annotations=[older, given, skipped])
    (found,) = predict(client, task).json()["results"]
    open_client = harness.serve_with_limits()
    record = {"id": 7, "data": task["data"], "annotations": [given]}
    scored = open_client.post("/v1/score?format=label-studio&dataset=trips", json=[record]).json()["assessments"][0]
    assert scored["labels"][:2] == ["B-PER", "I-PER"]
    assert found["score"] == scored["score"]
    suggested = {
        (span["start"], span["end"], span["type"])
        for suspect in scored["suspects"]
        if (span := suspect.get("suggested_span"))
    }
    assert len([region for region in found["result"] if "score" in region]) == len(suggested)
    assert all(region["id"].startswith("lw-41-") for region in found["result"])


def test_a_draft_counts_if_it_is_newer(client: TestClient) -> None:
    set_up(client)
    annotation = bodies.make_annotation(bodies.make_region("Mara Quill", "PER"))
    draft = {
        "id": 9,
        "result": [bodies.make_region("Riga", "LOC")],
        "created_at": "2026-03-01T09:00:00Z",
        "updated_at": "2026-03-01T11:00:00Z",
    }
    drafted = predict(client, bodies.make_task(annotations=[annotation], drafts=[draft])).json()["results"][0]
    alone = predict(client, bodies.make_task(annotations=[], drafts=[draft])).json()["results"][0]
    assert drafted == alone
    old = {**draft, "updated_at": "2026-02-01T11:00:00Z"}
    annotated = predict(client, bodies.make_task(annotations=[annotation], drafts=[old])).json()["results"][0]
    assert annotated == predict(client, bodies.make_task(annotations=[annotation])).json()["results"][0]
    assert annotated["score"] != drafted["score"]


def test_a_prediction_changes_nothing(harness: ApiHarness, client: TestClient) -> None:
    set_up(client)
    predict(client, bodies.make_task(annotations=[bodies.make_annotation(bodies.make_region("Riga", "LOC"))]))
    assert harness.read_messages(TOPICS.sentences) == []


def test_a_task_that_cannot_be_judged_leaves_the_others_alone(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    set_up(client)
    empty, long = bodies.make_task(data={"text": " "}), bodies.make_task(data={"text": "word " * 51})
    overlapping = bodies.make_annotation(bodies.make_region("Mara Quill", "PER"), bodies.make_region("Quill", "LOC"))
    answer = predict(client, empty, bodies.make_task(), long, bodies.make_task(annotations=[overlapping]))
    results = answer.json()["results"]
    assert [results[0], results[2], results[3]] == [[], [], []]
    assert results[1]["result"] is not None
    assert "3 of 4 tasks get no prediction; the first: `task.data.text`" in caplog.text
    # Alone it is an error of the request.
    refused = predict(client, empty)
    assert (refused.status_code, refused.json()["field"]) == (422, "task.data.text")


@pytest.mark.parametrize("tasks", [None, [], "x", {}])
def test_a_request_without_tasks(client: TestClient, tasks: object) -> None:
    answer = client.post(f"{ADDRESS}/predict", json={"tasks": tasks, "label_config": INTERFACE})
    assert (answer.status_code, answer.json()["field"]) == (422, "tasks")


def test_requests_are_bounded(harness: ApiHarness) -> None:
    keys = f"studio:label-studio:trips:{hash_key(KEY)}"
    client = harness.serve_with_limits(keys=keys, max_sentences=2, max_body_bytes=2_000)
    answer = predict(client, *[{"id": number} for number in range(3)])
    assert (answer.status_code, answer.json()["field"]) == (413, "tasks")
    assert "select fewer tasks, or raise LABELWATCH_API_MAX_SENTENCES" in answer.json()["detail"]
    assert predict(client, bodies.make_task(data={"text": "x" * 2_000})).status_code == 413


# -- events ------------------------------------------------------------------------------------------------------------


def test_an_event_is_in_the_log_when_it_is_answered(harness: ApiHarness, client: TestClient) -> None:
    """Label Studio registers this webhook itself, and sends no headers of ours."""
    answer = client.post(f"{ADDRESS}/webhook", json=bodies.make_event())
    assert (answer.status_code, answer.json()["ids"]) == (202, ["label-studio:41"])
    assert client.post(f"{ADDRESS}/webhook", json=bodies.make_event("ANNOTATIONS_DELETED")).status_code == 202
    created, deleted, other = harness.read_messages(TOPICS.sentences)
    assert {each["dataset"] for each in (created, deleted, other)} == {"trips"}
    assert (created["labels"][:2], deleted["deleted"], deleted["id"]) == (["B-PER", "I-PER"], True, created["id"])
    assert client.post(f"{ADDRESS}/webhook?dataset=other", json=bodies.make_event()).status_code == 202
    assert harness.read_messages(TOPICS.sentences)[-1]["dataset"] == "trips"


def test_an_event_that_cannot_be_read_is_a_dead_letter(harness: ApiHarness, client: TestClient) -> None:
    event = bodies.make_event()
    event["annotation"]["result"][0]["value"]["end"] = 10_000
    assert client.post(f"{ADDRESS}/webhook", json=event).status_code == 422
    headers = {"Content-Type": "application/json"}
    broken = b'{"action": "START_TRAINING"'
    assert client.post(f"{ADDRESS}/webhook", content=broken, headers=headers).status_code == 400
    letters = harness.log.read(TOPICS.dead_letters, 0, 10)
    assert len(letters) == 2
    assert not any(KEY in str(letter) for letter in letters)


def test_a_changed_labelling_interface_changes_the_label_set(
    harness: ApiHarness, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    set_up(client)
    project = {"id": 3, "label_config": make_interface("PER", "LOC")}
    answer = client.post(f"{ADDRESS}/webhook", json={"action": "PROJECT_UPDATED", "project": project})
    assert answer.status_code == 202
    assert get_label_set(harness) == ("PER", "LOC")
    project["label_config"] = "<View/>"
    assert client.post(f"{ADDRESS}/webhook", json={"action": "PROJECT_UPDATED", "project": project}).status_code == 202
    assert get_label_set(harness) == ("PER", "LOC")
    assert "the label set of dataset trips stays as it is" in caplog.text


def test_training_that_is_asked_for(harness: ApiHarness, client: TestClient) -> None:
    event = {"action": "START_TRAINING", "project": {"id": 3}}
    for _ in range(2):
        answer = client.post(f"{ADDRESS}/webhook", json=event)
        assert (answer.status_code, answer.json()["state"]) == (202, "requested")
    assert [message["dataset"] for message in harness.read_messages(TOPICS.models)] == ["trips"]
    assert harness.read_messages(TOPICS.datasets) == []
    # A sentence about it is no request.
    text = bodies.TEXT + " START_TRAINING"
    answer = client.post(f"{ADDRESS}/webhook", json=bodies.make_event(task=bodies.make_task(data={"text": text})))
    assert answer.json()["ids"] == ["label-studio:41"]


# -- the key -----------------------------------------------------------------------------------------------------------


def test_nothing_shows_the_key(harness: ApiHarness, client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret_bodies = [
        client.get(f"{ADDRESS}/health"),
        set_up(client),
        set_up(client, "<View/>"),
        predict(client, bodies.make_task()),
        predict(client),
        client.post(f"{ADDRESS}/webhook", json=bodies.make_event()),
        client.post(f"{ADDRESS}/webhook", json={"action": 1}),
        client.post(f"{ADDRESS}/webhook", content=b"x"),
        client.get(f"{ADDRESS}/nothing"),
        client.get(f"{ADDRESS}/predict"),
        client.get(f"/label-studio/other/{KEY}/health"),
        client.get(f"/label-studio/Not A Name/{KEY}/health"),
        client.get(f"/label-studio/{KEY}"),
        client.get(f"/v1/label-studio/trips/{KEY}/health"),
    ]
    assert [answer.status_code for answer in secret_bodies] == [
        200, 200, 422, 200, 422, 202, 422, 415, 404, 405, 403, 403, 401, 401,
    ]  # fmt: skip
    for answer in secret_bodies:
        assert KEY not in answer.text + str(dict(answer.headers))
    paths = [record.__dict__["path"] for record in caplog.records if record.getMessage() == "answered"]
    assert len(paths) == len(secret_bodies)
    assert "/label-studio/trips/***/predict" in paths
    # The client of the tests logs the addresses that it asks for; it is no part of the service.
    logged = [str(record.__dict__) for record in caplog.records if not record.name.startswith("http")]
    metrics = harness.backend.telemetry.render_exposition()[0].decode()
    stored = [str(record) for spec in TOPICS.list_specs() for record in harness.log.read(spec.name, 0, 1_000)]
    assert KEY not in "".join([*logged, metrics, *stored])
    assert "theirs" not in "".join([*logged, *stored])  # the token of Label Studio's user, in every setup
    assert 'route="/label-studio/{dataset}/{key}/predict"' in metrics


def test_without_keys_the_address_is_open(harness: ApiHarness) -> None:
    assert harness.client.get("/label-studio/trips/-/health").status_code == 200


def test_a_body_must_be_json(client: TestClient) -> None:
    """A page of another site can't send it without asking first."""
    headers = {"Content-Type": "text/plain"}
    answer = client.post(f"{ADDRESS}/webhook", content=json.dumps(bodies.make_event()), headers=headers)
    assert answer.status_code == 415


def test_a_service_that_stops_takes_no_events(harness: ApiHarness, client: TestClient) -> None:
    harness.backend.draining.set()
    assert client.post(f"{ADDRESS}/webhook", json=bodies.make_event()).status_code == 503
