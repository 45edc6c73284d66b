"""POST /v1/sentences: what is answered with 202 is in the log, with its id, key and request."""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import read_sentence
from service.errors import StreamError
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.codec import get_header
from tests.support.scoring_harness import AsgiExchange, ScoringHarness, scoring_harness
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import httpx

    from service.log.protocol import Output, Record

ONE = {"tokens": ["the", "wolves"], "labels": ["O", "O"]}
GONE = {"id": "a/b", "deleted": True, "dataset": "other", "revision": 4}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return Classifier(ModelFolder.load(make_model(tmp_path_factory.mktemp("tiny") / "model", "wordpiece")))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, classifier: Classifier) -> Iterator[ScoringHarness]:
    with scoring_harness(
        tmp_path_factory.mktemp("log"), classifier, max_sentences=20, max_line_bytes=2_000_000
    ) as harness:
        yield harness


@dataclass
class TopicHarness:
    """The API, and where the log ended before the test."""

    api: ScoringHarness
    start: int

    @property
    def records(self) -> list[Record]:
        return self.api.stream.read(self.api.topics.sentences, self.start, 10_000)


@pytest.fixture
def harness(shared: ScoringHarness) -> TopicHarness:
    return TopicHarness(shared, len(shared.stream.read(shared.topics.sentences, 0, 10_000)))


def test_a_sentence_is_in_the_log_when_it_is_answered(harness: TopicHarness) -> None:
    response = harness.api.post("/v1/sentences", ONE, x_request_id="abc")
    assert response.status_code == 202
    body = response.json()
    (identity,) = body["ids"]
    assert str(uuid.UUID(identity)) == identity
    assert body["request_id"] == response.headers["x-request-id"] == "abc"
    (record,) = harness.records
    assert record.key == f"default/{identity}".encode()
    assert record.value is not None
    assert json.loads(record.value) == {**ONE, "id": identity}
    assert get_header(record.headers, "x-request-id") == "abc"
    assert get_header(record.headers, "ce_type") == "labelwatch.sentence.v1"


def test_many_keep_their_ids_and_their_order(harness: TopicHarness) -> None:
    sentence = {
        **ONE,
        "id": "7",
        "update": True,
        "revision": 3,
        "annotator": "kim",
        "annotated_at": "2024-05-31T12:00:00Z",
    }
    body = harness.api.post("/v1/sentences", {"sentences": [sentence, GONE, ONE]}).json()
    assert body["ids"][:2] == ["7", "a/b"]
    records = harness.records
    assert [record.key for record in records][:2] == [b"default/7", b"other/a/b"]
    assert [read_sentence(record.value or b"") for record in records][:2] == [
        read_sentence(sentence),
        read_sentence(GONE),
    ]
    assert len({get_header(record.headers, "ce_id") for record in records}) == 3


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"nonsense", 400, None),
        ({**ONE, "labels": []}, 422, "labels"),
        ({"sentences": [ONE, {**ONE, "lables": []}]}, 422, "sentences.1.lables"),
        ({"sentences": [ONE], "method": "product"}, 422, "method"),
        ({"sentences": [ONE] * 21}, 413, "sentences"),
        ({"sentences": [ONE, {**ONE, "meta": {"a": "x" * 1_100_000}}]}, 413, "sentences.1"),
    ],
)
def test_one_invalid_sentence_rejects_the_list(
    harness: TopicHarness, body: Any, status: int, field: str | None
) -> None:
    response = harness.api.post("/v1/sentences", body)
    assert response.status_code == status
    assert response.json().get("field") == field
    assert harness.records == []


def test_valid_lines_are_appended_and_invalid_ones_get_a_problem(harness: TopicHarness) -> None:
    large = {**ONE, "meta": {"a": "x" * 1_100_000}}
    response = harness.api.post_lines("/v1/sentences", {**ONE, "id": "1"}, b"", b"{", large, GONE)
    assert response.status_code == 202
    lines_answered = [json.loads(line) for line in response.text.splitlines()]
    assert lines_answered[0] == {"line": 1, "id": "1"}
    assert [(each["line"], each["status"]) for each in lines_answered[1:3]] == [(3, 400), (4, 413)]
    assert lines_answered[3] == {"line": 5, "id": "a/b"}
    assert [record.key for record in harness.records] == [b"default/1", b"other/a/b"]
    assert {get_header(record.headers, "x-request-id") for record in harness.records} == {
        response.headers["x-request-id"]
    }


def test_long_lists_stay_in_order(harness: TopicHarness) -> None:
    lines = [{**ONE, "id": str(number)} for number in range(1_000)]
    ids = [json.loads(line)["id"] for line in harness.api.post_lines("/v1/sentences", *lines).text.splitlines()]
    assert ids == [str(number) for number in range(1_000)]
    assert [record.key for record in harness.records] == [f"default/{number}".encode() for number in range(1_000)]


class Broken:
    """A log that takes some messages, then none."""

    def __init__(self, takes: int = 0) -> None:
        self.left = takes
        self.threads: list[str] = []
        self.timeouts: list[float] = []

    def append(self, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:
        self.threads.append(threading.current_thread().name)
        self.timeouts.append(timeout)
        self.left -= len(outputs)
        if self.left < 0:
            raise StreamError("the broker did not answer")


def test_a_log_that_does_not_answer_is_503_and_does_not_block_the_loop(tmp_path: Path, classifier: Classifier) -> None:
    broken = Broken()
    with scoring_harness(tmp_path, classifier, append_to=broken, timeout_s=10) as harness:
        for response in (harness.post("/v1/sentences", ONE), harness.post_lines("/v1/sentences", ONE)):
            assert response.status_code == 503
            assert int(response.headers["retry-after"]) >= 1
            assert "did not answer" in response.json()["detail"]
        assert harness.post("/v1/score", ONE).status_code == 200
    assert threading.current_thread().name not in broken.threads
    assert max(broken.timeouts) < 10  # the log times out before the request does


def test_a_log_that_fails_later_ends_the_answers_at_the_first_line_not_appended(
    tmp_path: Path, classifier: Classifier
) -> None:
    broken = Broken(takes=1)
    with scoring_harness(tmp_path, classifier, append_to=broken) as harness:

        async def talk(_: httpx.AsyncClient) -> None:
            async with AsgiExchange(harness.app, "/v1/sentences") as talk:
                talk.send_lines({**ONE, "id": "1"})
                assert (await talk.receive())["status"] == 202
                answers = talk.iter_response_lines()
                assert await anext(answers) == {"line": 1, "id": "1"}
                talk.send_lines(*[ONE] * 200, last=True)
                (problem,) = [each async for each in answers]
                assert (problem["line"], problem["status"]) == (2, 503)

        harness.run_with_client(talk)
    assert len(broken.threads) == 2


@pytest.mark.parametrize("path", ["/v1/sentences", "/v1/score"])
def test_lines_over_the_limit_of_the_body_get_a_problem(tmp_path: Path, classifier: Classifier, path: str) -> None:
    with scoring_harness(tmp_path, classifier, max_stream_bytes=3_000) as api:

        async def talk(_: httpx.AsyncClient) -> list[dict[str, Any]]:
            async with AsgiExchange(api.app, path) as talk:
                talk.send_lines(ONE, b"", ONE)
                assert (await talk.receive())["status"] in (200, 202)
                answers = talk.iter_response_lines()
                answers_read = [await anext(answers), await anext(answers)]
                talk.send_lines(*[ONE] * 30)
                talk.send_lines(*[ONE] * 30)  # the limit is passed here, and none of these is read
                answers_read += [each async for each in answers]
                await talk.task
                return answers_read

        *answers, problem = api.run_with_client(talk)
        assert len(answers) == 32
        assert all("status" not in each for each in answers)
        assert (problem["status"], problem["line"]) == (413, 34)
        assert "33 lines are answered, continue with line 34" in problem["detail"]
        assert "MAX_STREAM_BYTES" in problem["detail"]
        written = api.stream.read(api.topics.sentences, 0, 100)
        assert len(written) == (32 if path == "/v1/sentences" else 0)


def test_a_first_line_over_the_limit_of_the_body_is_a_status(tmp_path: Path, classifier: Classifier) -> None:
    with scoring_harness(tmp_path, classifier, max_stream_bytes=1_000) as api:

        async def talk(_: httpx.AsyncClient) -> dict[str, Any]:
            async with AsgiExchange(api.app, "/v1/sentences") as talk:
                talk.send_lines(b"x" * 1_000)
                return await talk.receive()

        answered = api.run_with_client(talk)
        assert answered["status"] == 413
        assert (b"connection", b"close") in answered["headers"]
