"""labelwatch as an external recommender of an INCEpTION project, with the key in the path."""

from __future__ import annotations

import sys
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from service.access.key_text import generate_key, hash_key
from service.log.topics import Topics
from tests.support.inception_documents import make_request, read_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.testclient import TestClient

    from tests.support.api_harness import ApiHarness

TOPICS = Topics()
KEY = generate_key()
KEYS = f"inception:inception:trips:{hash_key(KEY)}"
ADDRESS = f"/inception/trips/{KEY}"
TEXT = ("the quick brown fox jumps over the lazy dog in Oslo", "the dog jumps", "Oslo", "the quick fox in Oslo")
LABELS = ("PER", "ORG", "LOC")


@pytest.fixture
def client(harness: ApiHarness) -> Iterator[TestClient]:
    stop = threading.Event()
    thread = threading.Thread(target=harness.backend.batcher.run, args=(stop,))
    thread.start()
    harness.serve_with_limits().patch("/v1/datasets/trips", json={"label_set": list(LABELS)})
    yield harness.serve_with_limits(keys=KEYS)
    stop.set()
    thread.join()


def predict(client: TestClient, request: dict[str, Any]) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    answer = client.post(f"{ADDRESS}/predict", json=request)
    assert answer.status_code == 200, answer.text
    return read_answer(request, answer.json()["document"])


def test_a_document_without_annotations_gets_what_the_model_finds(client: TestClient) -> None:
    suggested, given = predict(client, make_request(*TEXT))
    assert suggested
    assert given == []
    for each in suggested:
        assert each["value"] in LABELS
        assert 0 <= each["_score"] <= 1
        assert "there is no annotation" in each["_score_explanation"]
        assert each["words"] == each["words"].strip()
    spans = sorted((each["begin"], each["end"]) for each in suggested)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
    one, _ = predict(client, make_request(*TEXT, range={"begin": 0, "end": 5}))
    assert one == [each for each in suggested if each["end"] <= len(TEXT[0])]


def test_doubts_about_annotations_are_suggestions_that_differ(harness: ApiHarness, client: TestClient) -> None:
    suggested, _ = predict(client, make_request(*TEXT))
    target = suggested[0]
    wrong = next(label for label in LABELS if label != target["value"])
    request = make_request(*TEXT, given=((target["words"], wrong),))
    found, given = predict(client, request)
    assert given == [(target["words"], wrong)]
    sentence = next(line for line in TEXT if target["words"] in line)
    tokens, entity = sentence.split(" "), target["words"].split(" ")
    start = next(i for i in range(len(tokens)) if tokens[i : i + len(entity)] == entity)
    labels = ["O"] * len(tokens)
    labels[start : start + len(entity)] = [f"{'B' if k == 0 else 'I'}-{wrong}" for k in range(len(entity))]
    body = {"tokens": tokens, "labels": labels, "dataset": "trips"}
    scored = harness.serve_with_limits().post("/v1/score", json=body).json()["assessments"][0]
    doubted = {
        (" ".join(tokens[span["start"] : span["end"]]), span["type"], suspect["confidence"])
        for suspect in scored["suspects"]
        if (span := suspect.get("suggested_span"))
    }
    answered = {
        (each["words"], each["value"], each["_score"]) for each in found if "doubts" in each["_score_explanation"]
    }
    assert answered == doubted
    overlapping = [each for each in found if each["begin"] < target["end"] and target["begin"] < each["end"]]
    assert all("doubts" in each["_score_explanation"] for each in overlapping)
    assert harness.read_messages(TOPICS.sentences) == []


def test_an_annotation_outside_the_label_set_leaves_the_suggestions(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    suggested, given = predict(client, make_request(*TEXT, given=(("jumps over", "VERB"),)))
    assert given == [("jumps over", "VERB")]
    assert suggested
    assert "can't be judged" in caplog.text


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"metadata": {"layer": "x"}}, "metadata.feature"),
        ({"document": {}}, "document.xmi"),
        ({"typeSystem": "<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>"}, "typeSystem"),
        ({"document": {"xmi": "<!DOCTYPE a><a/>"}}, "document.xmi"),
    ],
)
def test_a_request_that_cannot_be_read_names_the_field(client: TestClient, change: dict[str, Any], field: str) -> None:
    answer = client.post(f"{ADDRESS}/predict", json=make_request(*TEXT) | change)
    assert answer.status_code in (400, 422)
    assert answer.json()["field"] == field


def test_a_sentence_that_is_too_long_is_left_out(
    harness: ApiHarness, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    """One word of a whole body would take gigabytes."""
    long = "x" * 10_001
    suggested, _ = predict(client, make_request(TEXT[0], long, " ".join(["word"] * 25_000)))
    assert suggested == predict(client, make_request(TEXT[0]))[0]
    assert "2 sentences of a document of INCEpTION are too long" in caplog.text


def test_requests_are_bounded(harness: ApiHarness) -> None:
    client = harness.serve_with_limits(keys=KEYS, max_sentences=2)
    answer = client.post(f"{ADDRESS}/predict", json=make_request(*TEXT))
    assert (answer.status_code, answer.json()["field"]) == (413, "document.xmi")
    small = harness.serve_with_limits(keys=KEYS, max_body_bytes=1_000)
    assert small.post(f"{ADDRESS}/predict", json=make_request(*TEXT)).status_code == 413


def test_without_the_library_the_answer_says_how_to_install_it(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = make_request(*TEXT)
    monkeypatch.setitem(sys.modules, "cassis", None)
    answer = client.post(f"{ADDRESS}/predict", json=request)
    assert answer.status_code == 503
    assert "pip install 'labelwatch[inception]'" in answer.json()["detail"]


def test_training_is_asked_for(harness: ApiHarness, client: TestClient) -> None:
    request = make_request(*TEXT)
    body = {"metadata": request["metadata"], "documents": [request["document"]], "typeSystem": request["typeSystem"]}
    answer = client.post(f"{ADDRESS}/train", json=body)
    assert (answer.status_code, answer.content) == (204, b"")
    assert len(harness.read_messages(TOPICS.models)) == 1
    assert harness.read_messages(TOPICS.sentences) == []


def test_the_key_is_for_one_dataset_and_nothing_shows_it(
    harness: ApiHarness, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    request = make_request(TEXT[0])
    assert client.post(f"/inception/other/{KEY}/predict", json=request).status_code == 403
    assert client.post(f"/label-studio/trips/{KEY}/predict", json={"tasks": []}).status_code == 403
    assert client.post("/inception/trips/lw_wrong/predict", json=request).status_code == 401
    assert client.get("/v1/datasets", headers={"X-API-Key": KEY}).status_code == 403
    predict(client, request)
    # The client of the tests logs the addresses that it asks for; it is no part of the service.
    logged = "".join(str(record.__dict__) for record in caplog.records if not record.name.startswith("http"))
    metrics = harness.backend.telemetry.render_exposition()[0].decode()
    assert KEY not in logged + metrics
    assert 'route="/inception/{dataset}/{key}/predict"' in metrics
