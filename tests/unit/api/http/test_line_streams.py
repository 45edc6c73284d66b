"""Streams of lines over a real server and bare sockets: clients that stop, hold on or come in crowds."""

from __future__ import annotations

import json
import re
import socket
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from tests.support import live_server
from tests.support.api_harness import wait_for
from tests.support.live_server import STOP_TIMEOUT_S
from tests.support.scoring_harness import ScoringHarness, scoring_harness
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINE = json.dumps({"tokens": ["Timber", "said"], "labels": ["B-PER", "O"], "id": "a"}).encode() + b"\n"
PATHS = pytest.mark.parametrize("path", ["/v1/score", "/v1/sentences"])


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return Classifier(ModelFolder.load(make_model(tmp_path_factory.mktemp("tiny") / "model", "wordpiece")))


@dataclass
class Served:
    harness: ScoringHarness
    port: int

    @property
    def open(self) -> int:
        return int(self.harness.app.state.stream_limiter.open_streams)

    def client(self, **options: Any) -> Client:
        return Client(self.port, **options)


@contextmanager
def served(folder: Path, classifier: Classifier, **limits: Any) -> Iterator[Served]:
    with scoring_harness(folder, classifier, **limits) as harness, live_server.serve_app(harness.app) as port:
        yield Served(harness, port)


@dataclass
class Client:
    """A connection over which bytes are sent as they are."""

    port: int
    room: int | None = None
    heard: bytes = b""
    socket: socket.socket = field(init=False)

    def __enter__(self) -> Client:
        self.socket = socket.socket()
        self.socket.settimeout(STOP_TIMEOUT_S)
        if self.room is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.room)
        self.socket.connect(("127.0.0.1", self.port))
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def begin(self, path: str) -> None:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n"
        )
        self.socket.sendall(head.encode() + b"\r\n")

    def say(self, data: bytes) -> None:
        self.socket.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        self.socket.sendall(b"0\r\n\r\n")

    def hear(self, until: bytes) -> str:
        while until not in self.heard:
            data = self.socket.recv(65536)
            assert data, self.heard
            self.heard += data
        return self.heard.decode()

    def hear_all(self) -> str:
        """Up to the end of the connection."""
        while data := self.socket.recv(65536):
            self.heard += data
        return self.heard.decode()


def lines_of(answer: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in re.findall(r"^\{.*\}$", answer, re.MULTILINE)]


@PATHS
def test_a_client_that_sends_no_body_gets_a_problem(tmp_path: Path, classifier: Classifier, path: str) -> None:
    with served(tmp_path, classifier, idle_s=0.1) as service, service.client() as silent:
        silent.begin(path)
        answer = silent.hear_all()
        assert answer.startswith("HTTP/1.1 408 ")
        assert "connection: close" in answer.lower()
        assert lines_of(answer)[0]["type"] == "urn:labelwatch:problem:idle"
        wait_for(lambda: service.open == 0)


@PATHS
def test_a_client_that_stops_halfway_gets_its_answers_and_a_problem(
    tmp_path: Path, classifier: Classifier, path: str
) -> None:
    with served(tmp_path, classifier, idle_s=0.1) as service, service.client() as client:
        client.begin(path)
        client.say(LINE + LINE + LINE[:10])
        *answers, problem = lines_of(client.hear(b"\r\n0\r\n\r\n"))
        assert [answer["id"] for answer in answers] == ["a", "a"]
        assert (problem["status"], problem["line"]) == (408, 3)
        wait_for(lambda: service.open == 0)


def test_a_client_that_reads_no_answers_is_disconnected(tmp_path: Path, classifier: Classifier) -> None:
    long = json.dumps({"tokens": ["Timber"], "labels": ["B-PER"], "id": "a", "meta": {"x": "y" * 50_000}})
    with served(tmp_path, classifier, idle_s=0.2) as service, service.client(room=4096) as client:
        client.begin("/v1/score")
        for _ in range(400):
            client.say(long.encode() + b"\n")
        client.end()
        counted = {"route": "/v1/score", "method": "POST", "status": "2xx"}
        wait_for(lambda: service.harness.read_metric("labelwatch_http_requests_total", **counted) == 1)
        assert (service.open, service.harness.app.state.stream_limiter.spooled_bytes) == (0, 0)
        assert b"\r\n0\r\n\r\n" not in client.socket.recv(1 << 20)  # it was left, not served


@PATHS
def test_one_stream_too_many_is_rejected_until_another_ends(tmp_path: Path, classifier: Classifier, path: str) -> None:
    with served(tmp_path, classifier, max_streams=1) as service:
        with service.client() as first:
            first.begin(path)
            first.say(LINE)
            first.hear(b'"a"')
            with service.client() as second:
                second.begin(path)
                answer = second.hear_all()
                assert answer.startswith("HTTP/1.1 429 ")
                assert re.search(r"^retry-after: \d+", answer, re.IGNORECASE | re.MULTILINE)
                assert "connection: close" in answer.lower()
            first.say(LINE)
            first.end()
            assert len(lines_of(first.hear(b"\r\n0\r\n\r\n"))) == 2
        wait_for(lambda: service.open == 0)
        with service.client() as third:
            third.begin(path)
            third.say(LINE)
            third.end()
            assert len(lines_of(third.hear(b"\r\n0\r\n\r\n"))) == 1
        assert service.harness.read_metric("labelwatch_overload_total", reason="streams_full") == 1


def test_a_client_that_disconnects_frees_its_stream(tmp_path: Path, classifier: Classifier) -> None:
    with served(tmp_path, classifier, max_streams=1) as service:
        with service.client() as first:
            first.begin("/v1/sentences")
            first.say(LINE)
            first.hear(b'"a"')
            assert service.open == 1
        wait_for(lambda: service.open == 0)
