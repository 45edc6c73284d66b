"""Several processes of the API, as clients and operators see them. All of it is real: processes, sockets, signals."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from service.api.http.media_types import NDJSON_ALIASES
from service.runtime.scoring.channel import ChannelClosedError, Kind
from service.runtime.scoring.process import ScoringProcess
from tests.support.service_process import STOP_TIMEOUT_S, ServiceProcess, run_service, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SENTENCES: list[dict[str, Any]] = [
    {"tokens": ["Jane", "Smith", "visited", "Oslo", "."], "labels": ["B-PER", "I-PER", "O", "O", "O"], "id": "a"},
    {"tokens": ["The", "day", "in", "Paris"], "labels": ["O", "O", "O", "B-LOC"], "id": "b", "annotator": "ann"},
    {"tokens": ["said"], "labels": ["B-ORG"], "id": "c", "dataset": "other"},
]


class Client:
    """One connection, on which requests are sent in any pieces."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=STOP_TIMEOUT_S)
        self._received = b""

    def send(self, *pieces: bytes) -> None:
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            self.socket.sendall(piece)

    def receive(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the next answer."""
        while b"\r\n\r\n" not in self._received:
            self._read()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:])
        while len(self._received) < int(headers["content-length"]):
            self._read()
        length = int(headers["content-length"])
        body, self._received = self._received[:length], self._received[length:]
        return int(lines[0].split()[1]), headers, body

    def _read(self) -> None:
        data = self.socket.recv(1 << 16)
        assert data, "the service closed the connection"
        self._received += data

    def ask(self, request: bytes) -> tuple[int, bytes]:
        self.send(request)
        status, _, body = self.receive()
        return status, body

    def close(self) -> None:
        self.socket.close()


def build_request(path: str, body: object = None, *, content_type: str = "application/json") -> bytes:
    if body is None:
        return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(content) + content


def read_counter(service: ServiceProcess, name: str, **labels: str) -> float:
    text = httpx.get(f"{service.url}/metrics").text
    for series, value in re.findall(r"^([^#\s][^ ]*) (\S+)$", text, re.MULTILINE):
        if series.partition("{")[0] == name and all(f'{key}="{label}"' in series for key, label in labels.items()):
            return float(value)
    raise AssertionError(f"{name} {labels} is not there")


def find_owner(service: ServiceProcess, client: Client) -> int:
    wait_until(lambda: service.find_owner(client.socket) is not None)
    owner = service.find_owner(client.socket)
    assert owner is not None
    return owner


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[ServiceProcess]:
    with run_service(tmp_path_factory.mktemp("service"), tiny_model, API_PROCESSES="2") as running:
        yield running


@pytest.fixture
def first(service: ServiceProcess) -> Iterator[Client]:
    """A connection in the first process."""
    with closing(Client(service.port)) as client:
        assert client.ask(build_request("/v1/me"))[0] == 200
        wait_until(lambda: service.find_owner(client.socket) == service.process.pid)
        yield client


@pytest.fixture
def scoring(service: ServiceProcess, first: Client) -> Iterator[Client]:
    """A connection in the scoring process, which has fewer than the first one."""
    client = Client(service.port)
    while find_owner(service, client) == service.process.pid:  # it has not seen yet that earlier ones have ended
        client.close()
        client = Client(service.port)
    with closing(client):
        yield client


def test_readiness_names_each_process(service: ServiceProcess) -> None:
    assert httpx.get(f"{service.url}/readyz").json()["conditions"]["scoring-1"] == ""
    assert len(service.list_children()) == 1


@pytest.mark.parametrize("body", [*SENTENCES, {"sentences": SENTENCES, "method": "worst-token-softmin"}])
def test_every_process_answers_the_same_to_the_bit(
    service: ServiceProcess, first: Client, scoring: Client, body: dict[str, Any]
) -> None:
    answers = []
    for client in (first, scoring):
        status, answer = client.ask(build_request("/v1/score", body))
        assert status == 200, answer
        answers.append(re.sub(rb'"(scored_at|request_id)":"[^"]*"', b"", answer))
    assert answers[0] == answers[1]
    assert service.find_owner(scoring.socket) in service.list_children()


@pytest.mark.parametrize(
    ("body", "status"), [({"tokens": ["a"], "labels": []}, 422), (b"{", 400), ({"tokens": ["a"], "labels": ["?"]}, 422)]
)
def test_every_process_explains_errors_in_the_same_words(
    first: Client, scoring: Client, body: object, status: int
) -> None:
    answers = [client.ask(build_request("/v1/score", body)) for client in (first, scoring)]
    assert [code for code, _ in answers] == [status, status]
    assert json.loads(answers[0][1])["detail"] == json.loads(answers[1][1])["detail"]


def test_a_connection_goes_to_the_first_process_with_its_first_other_request(
    service: ServiceProcess, scoring: Client
) -> None:
    assert scoring.ask(build_request("/v1/score", SENTENCES[0]))[0] == 200
    assert service.find_owner(scoring.socket) in service.list_children()
    assert scoring.ask(build_request("/v1/datasets"))[0] == 200
    wait_until(lambda: service.find_owner(scoring.socket) == service.process.pid)
    assert scoring.ask(build_request("/v1/score", SENTENCES[0]))[0] == 200


def test_a_request_in_pieces_is_handed_over_whole(service: ServiceProcess, scoring: Client) -> None:
    sentences = [{"tokens": ["word"] * 50, "labels": ["O"] * 50, "id": f"many-{number}"} for number in range(900)]
    request = build_request("/v1/sentences", {"sentences": sentences})
    assert len(request) > 500_000
    scoring.send(request[:3], request[3:40], request[40:100_000], request[100_000:])
    status, _, body = scoring.receive()
    assert status == 202, body
    assert len(json.loads(body)["ids"]) == 900
    wait_until(lambda: service.find_owner(scoring.socket) == service.process.pid)


def test_a_scoring_request_in_pieces_is_answered(service: ServiceProcess, scoring: Client) -> None:
    request = build_request("/v1/score", SENTENCES[0])
    scoring.send(*(request[index : index + 1] for index in range(30)), request[30:-5], request[-5:])
    assert scoring.receive()[0] == 200
    assert service.find_owner(scoring.socket) in service.list_children()


@pytest.mark.parametrize("content_type", sorted(NDJSON_ALIASES))
def test_lines_are_answered_by_the_first_process(service: ServiceProcess, scoring: Client, content_type: str) -> None:
    line = json.dumps(SENTENCES[0]).encode() + b"\n"
    scoring.send(build_request("/v1/score", line, content_type=content_type))
    wait_until(lambda: service.find_owner(scoring.socket) == service.process.pid)
    assert scoring.socket.recv(1 << 12).startswith(b"HTTP/1.1 200")


def test_another_request_that_does_not_wait_for_its_turn_is_refused(scoring: Client) -> None:
    scoring.send(build_request("/v1/score", SENTENCES[0]) + build_request("/v1/datasets"))
    assert scoring.receive()[0] == 200
    status, headers, body = scoring.receive()
    assert (status, headers["connection"], headers["retry-after"]) == (503, "close", "1"), body


def test_lines_that_do_not_wait_for_their_turn_are_refused(scoring: Client) -> None:
    """NDJSON requests share limits, which only the first process knows."""
    lines = build_request("/v1/score", json.dumps(SENTENCES[0]).encode(), content_type="application/x-ndjson")
    scoring.send(build_request("/v1/score", SENTENCES[0]) + lines)
    assert scoring.receive()[0] == 200
    status, headers, body = scoring.receive()
    assert (status, headers["connection"]) == (503, "close"), body


def test_a_head_without_carriage_returns_is_refused_at_once(scoring: Client) -> None:
    """Its end would never be found. It is half of a head for as long as heads may take, and then there is no answer."""
    scoring.send(build_request("/v1/score", SENTENCES[0]).replace(b"\r\n", b"\n"))
    assert scoring.socket.recv(1 << 12).startswith(b"HTTP/1.1 400")


def test_one_scrape_has_the_requests_of_all_processes(service: ServiceProcess, first: Client, scoring: Client) -> None:
    def count() -> tuple[float, ...]:
        return (
            read_counter(service, "labelwatch_http_requests_total", route="/v1/score", status="2xx"),
            read_counter(service, "labelwatch_http_request_seconds_count", route="/v1/score"),
            read_counter(service, "labelwatch_stage_seconds_count", role="api", stage="judge"),
        )

    before = count()
    for client, requests in ((first, 2), (scoring, 3)):
        for _ in range(requests):
            assert client.ask(build_request("/v1/score", SENTENCES[0]))[0] == 200
    assert [after - former for after, former in zip(count(), before, strict=True)] == [5, 5, 5]


def test_sigterm_lets_open_requests_finish(tmp_path: Path, tiny_model: Path) -> None:
    request = build_request("/v1/score", SENTENCES[0])
    with run_service(tmp_path, tiny_model, API_PROCESSES="2") as service, closing(Client(service.port)) as client:
        [child] = service.list_children()
        wait_until(lambda: service.find_owner(client.socket) == child)
        assert client.ask(request)[0] == 200
        client.send(request[:-5])
        wait_until(
            lambda: read_counter(service, "labelwatch_http_requests_total", route="/v1/score", status="2xx") == 1
        )
        service.process.terminate()
        wait_until(lambda: is_refused(service.port))
        client.send(request[-5:])
        assert client.receive()[0] == 200
        assert service.process.wait(STOP_TIMEOUT_S) == 0
        assert not Path(f"/proc/{child}").exists()


def test_sigterm_closes_many_idle_connections(tmp_path: Path, tiny_model: Path) -> None:
    """More than the channel holds messages about."""
    with run_service(tmp_path, tiny_model, API_PROCESSES="2") as service, ExitStack() as stack:
        [child] = service.list_children()
        for _ in range(700):
            stack.enter_context(closing(Client(service.port)))
        wait_until(lambda: len(list(Path(f"/proc/{child}/fd").iterdir())) > 350)
        service.process.terminate()
        assert service.process.wait(STOP_TIMEOUT_S) == 0
        log = service.log.read_text()
        assert "exit code" not in log
        assert "Traceback" not in log


def is_refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_dead_process_ends_the_service(tmp_path: Path, tiny_model: Path) -> None:
    with run_service(tmp_path, tiny_model, API_PROCESSES="2") as service:
        [child] = service.list_children()
        os.kill(child, signal.SIGKILL)
        assert service.process.wait(STOP_TIMEOUT_S) != 0
        assert "the scoring process scoring-1 was ended by SIGKILL" in service.log.read_text()


def test_a_stopped_process_ends_the_service(tmp_path: Path, tiny_model: Path) -> None:
    """No part of it runs, so it can't say so itself."""
    with run_service(tmp_path, tiny_model, API_PROCESSES="2") as service:
        [child] = service.list_children()
        os.kill(child, signal.SIGSTOP)
        assert service.process.wait(STOP_TIMEOUT_S) != 0
        log = service.log.read_text()
        assert "the scoring process scoring-1 has not answered for 10 s: it gets no new connections" in log
        assert "the scoring process scoring-1 has not answered for 20 s" in log
        assert "still run" not in log  # it need not be ended by force
        assert not Path(f"/proc/{child}").exists()


def test_a_process_ends_when_its_channel_does(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the first process is killed: the operating system closes its end."""
    monkeypatch.setenv("LABELWATCH_LOG_PATH", str(tmp_path / "log.sqlite"))
    monkeypatch.setenv("LABELWATCH_MODEL_FOLDER", str(tiny_model))
    monkeypatch.setenv("LABELWATCH_API_PROCESSES", "2")
    with ScoringProcess(1) as process:
        reported: list[str] = []

        def is_ready() -> bool:
            reported.extend(
                message.data.decode() for message in process.channel.receive() if message.kind is Kind.STATUS
            )
            return reported[-1:] == [""]

        wait_until(is_ready)
        process.channel.end()
        wait_until(lambda: has_ended(process))


def has_ended(process: ScoringProcess) -> bool:
    try:
        list(process.channel.receive())
    except ChannelClosedError:
        return True
    return False
