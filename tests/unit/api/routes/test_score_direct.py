"""One sentence to `POST /v1/score` is answered without the framework, and gets the same answer."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from service.api.routes import score as route
from tests.support import live_server
from tests.support.api_harness import wait_for
from tests.support.scoring_harness import scoring_harness

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from service.inference.classifier import Classifier, InferenceResult
    from service.inference.pooling import Pooling
    from service.inference.tokenization.encoder import EncodedSentence
    from tests.support.scoring_harness import ScoringHarness

WAIT = 30.0
ONE = {"tokens": ["Paris", "of"], "labels": ["B-LOC", "O"], "id": "a"}
DIRECT, BY_FRAMEWORK = "application/json", "application/json; charset=utf-8"
UNSTABLE_HEADERS = {"date", "server-timing", "x-request-id", "content-length"}


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = json.loads(response.read())

    @property
    def stable(self) -> tuple[int, dict[str, str], Any]:
        """What does not differ from one request to the next."""
        body = json.loads(json.dumps(self.body))
        for part in (body, *body.get("assessments", ())):
            for name in ("scored_at", "request_id"):
                part.pop(name, None)
        return self.status, {name: self.headers[name] for name in self.headers.keys() - UNSTABLE_HEADERS}, body


def ask(port: int, body: bytes, **headers: str) -> Answer:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)) as connection:
        connection.request(
            "POST", "/v1/score", body, {name.replace("_", "-"): value for name, value in headers.items()}
        )
        return Answer(connection.getresponse())


@pytest.fixture
def by_framework(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies of the requests that the framework has answered."""
    bodies, score = [], route.score

    async def record(request: Any) -> Any:
        bodies.append(await request.body())
        return await score(request)

    monkeypatch.setattr(route, "score", record)
    return bodies


@contextmanager
def serve(folder: Path, classifier: Any, **options: Any) -> Iterator[tuple[ScoringHarness, int]]:
    with scoring_harness(folder, classifier, **options) as harness, live_server.serve_app(harness.app) as port:
        yield harness, port


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (ONE, 200),
        ({**ONE, "dataset": "other", "annotator": "ann", "meta": {"a": ["é"]}}, 200),
        ({"tokens": [], "labels": []}, 422),
        ({**ONE, "probabilities": {"classes": ["O", "B-LOC"], "words": [[0.25, 0.75], [1, 0]]}}, 200),
        ({**ONE, "labels": ["B-LOC"]}, 422),
        ({**ONE, "labels": ["NO SUCH", "O"]}, 422),
        ({**ONE, "unknown": 1}, 422),
        ({**ONE, "deleted": True}, 422),
        ({**ONE, "tokens": ["x"] * 60, "labels": ["O"] * 60}, 422),
        ({"data": {"text": "Paris"}, "annotations": []}, 422),
        ("not an object", 422),
    ],
    ids=str,
)
def test_the_answer_is_that_of_the_framework(
    tmp_path: Path, tiny_classifier: Classifier, by_framework: list[bytes], body: Any, status: int
) -> None:
    raw = json.dumps(body).encode()
    with serve(tmp_path, tiny_classifier) as (harness, port):
        direct, other = (ask(port, raw, content_type=kind) for kind in (DIRECT, BY_FRAMEWORK))
        assert len(by_framework) == 1
        counted = {"route": "/v1/score", "method": "POST", "status": f"{status // 100}xx"}
        assert harness.read_metric("labelwatch_http_requests_total", **counted) == 2
        assert harness.read_metric("labelwatch_http_request_seconds_count", route="/v1/score") == 2
    assert direct.status == status
    assert direct.stable == other.stable
    assert direct.headers.keys() == other.headers.keys()
    assert len(direct.headers["x-request-id"]) == len(other.headers["x-request-id"]) == 32


@pytest.mark.parametrize(
    ("raw", "headers", "status"),
    [
        (b'{"tokens": [', {"X-Request-ID": "mine-1"}, 400),
        (b"\xff", {}, 400),
        (b"", {}, 400),
        (json.dumps(ONE).encode(), {"Authorization": "Bearer wrong"}, 401),
        (json.dumps(ONE).encode(), {"Host": "evil.example"}, 403),
        (json.dumps(ONE).encode(), {"Content-Encoding": "gzip"}, 415),
    ],
    ids=["cut", "not UTF-8", "empty", "key", "host", "encoding"],
)
def test_refusals_are_those_of_the_framework(
    tmp_path: Path, tiny_classifier: Classifier, raw: bytes, headers: dict[str, str], status: int
) -> None:
    limits = {"keys": f"ann:admin:{'0' * 64}"} if status == 401 else {}
    with serve(tmp_path, tiny_classifier, **limits) as (_, port):
        direct, other = (ask(port, raw, content_type=kind, **headers) for kind in (DIRECT, BY_FRAMEWORK))
    assert direct.status == status
    assert direct.stable == other.stable
    assert direct.headers["x-request-id"] == direct.body["request_id"]
    if "X-Request-ID" in headers:
        assert direct.body["request_id"] == "mine-1"


def test_other_requests_go_to_the_framework(
    tmp_path: Path, tiny_classifier: Classifier, by_framework: list[bytes]
) -> None:
    bodies = [{"sentences": [ONE]}, {**ONE, "meta": {str(number): 1 for number in range(3_000)}}]
    with serve(tmp_path, tiny_classifier) as (_, port):
        answers = [ask(port, json.dumps(body).encode(), content_type=DIRECT) for body in bodies]
    assert [answer.status for answer in answers] == [200, 200]
    assert len(by_framework) == 2


@pytest.mark.parametrize("limits", [{"cors_origins": "https://a.example"}, {"max_body_bytes": 1_000}], ids=str)
def test_it_is_off_where_the_framework_does_more(
    tmp_path: Path, tiny_classifier: Classifier, limits: dict[str, Any]
) -> None:
    origin = {"Origin": "https://a.example"} if "cors_origins" in limits else {}
    with serve(tmp_path, tiny_classifier, **limits) as (_, port):
        answer = ask(
            port, json.dumps({**ONE, "id": "x" * 100 * (1 if origin else 10)}).encode(), content_type=DIRECT, **origin
        )
    if origin:
        assert answer.headers["access-control-allow-origin"] == "https://a.example"
    else:
        assert (answer.status, answer.headers["connection"]) == (413, "close")


def test_a_connection_stays_open_for_the_next_request_unless_the_client_closes_it(
    tmp_path: Path, tiny_classifier: Classifier
) -> None:
    raw = json.dumps(ONE).encode()
    with (
        serve(tmp_path, tiny_classifier) as (_, port),
        closing(http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)) as connection,
    ):
        connection.connect()
        first = connection.sock
        answers = []
        for headers in ({}, {}, {"Connection": "close"}):
            connection.request("POST", "/v1/score", raw, {"Content-Type": DIRECT, **headers})
            assert connection.sock is first
            answers.append(Answer(connection.getresponse()))
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert [answer.headers.get("connection") for answer in answers] == [None, None, "close"]


class Held:
    """A classifier that waits to be let go on."""

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier
        self.folder, self.batching = classifier.folder, classifier.batching
        self.started, self.go_on = threading.Event(), threading.Event()

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[EncodedSentence]:
        return self._classifier.encode(sentences)

    def run(self, encoded: Sequence[EncodedSentence], *, pooling: Pooling | None = None) -> list[InferenceResult]:
        self.started.set()
        assert self.go_on.wait(WAIT)
        return self._classifier.run(encoded, pooling=pooling)


@pytest.fixture
def through_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that waits to be let would stop the event loop, were it run there."""
    monkeypatch.setattr("service.api.batching.inline.MAX_INLINE_WORDS", 0)


@pytest.mark.usefixtures("through_the_queue")
def test_a_model_that_takes_too_long_gets_504(tmp_path: Path, tiny_classifier: Classifier) -> None:
    held = Held(tiny_classifier)
    with serve(tmp_path, held, timeout_s=0.05) as (harness, port):
        answers = [ask(port, json.dumps(ONE).encode(), content_type=kind) for kind in (DIRECT, BY_FRAMEWORK)]
        held.go_on.set()
        wait_for(lambda: harness.batcher.waiting == 0)
    assert [answer.status for answer in answers] == [504, 504]
    assert answers[0].stable == answers[1].stable


@pytest.mark.usefixtures("through_the_queue")
def test_a_full_queue_gets_429(tmp_path: Path, tiny_classifier: Classifier) -> None:
    held, raw = Held(tiny_classifier), json.dumps(ONE).encode()
    with (
        serve(tmp_path, held, queue={"queue_sentences": 1}) as (harness, port),
        closing(http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)) as first,
    ):
        first.request("POST", "/v1/score", raw, {"Content-Type": DIRECT})
        assert held.started.wait(WAIT)
        refused = ask(port, raw, content_type=DIRECT)
        held.go_on.set()
        assert first.getresponse().status == 200
        assert harness.read_metric("labelwatch_overload_total", reason="queue_full") == 1
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) >= 1


def test_an_error_of_ours_is_logged_and_names_the_request(
    tmp_path: Path, tiny_classifier: Classifier, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("service.api.scoring.scorer._render_assessment", fail)
    with serve(tmp_path, tiny_classifier) as (_, port):
        direct, other = (ask(port, json.dumps(ONE).encode(), content_type=kind) for kind in (DIRECT, BY_FRAMEWORK))
    assert direct.status == 500
    assert direct.stable == other.stable
    assert [record.message for record in caplog.records].count("a request failed") == 2
