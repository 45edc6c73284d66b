"""Sends one kind of costly requests until it is ended, as a client with a read or write key could.

python -m tests.attack.send conversions 8765
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HOST = "127.0.0.1"
MEGABYTE = 1_000_000
TIMEOUT_S = 60.0
RETRY_S = 0.05
SENTENCE = {"tokens": ["wolf"] * 1_200, "labels": ["O"] * 1_200}


def request(port: int, method: str, path: str, body: bytes) -> int:
    """The status of the answer; 0 if the service closes the connection."""
    connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException):
        return 0
    else:
        return answer.status
    finally:
        connection.close()


def repeat(send: Callable[[], Any], clients: int) -> None:
    """So many clients, each of which sends again as soon as it has its answer."""

    def run() -> None:
        while True:
            if send() in (0, 429, 503):
                time.sleep(RETRY_S)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def send_label_maps(port: int) -> None:
    body = json.dumps({"label_map": {f"LABEL-{n}": f"TYPE-{n}" for n in range(65_000)}}).encode()
    repeat(lambda: request(port, "PATCH", "/v1/datasets/attack", body), 2)


def send_conversions(port: int) -> None:
    annotations = [{"id": n, "result": []} for n in range(1_000)]
    body = json.dumps({"id": 1, "data": {"text": "word " * 39_000}, "annotations": annotations}).encode()
    repeat(lambda: request(port, "POST", "/v1/score?format=label-studio", body), 6)


def send_long_words(port: int) -> None:
    body = json.dumps({"tokens": ["a" * (15 * MEGABYTE)], "labels": ["O"]}).encode()
    repeat(lambda: request(port, "POST", "/v1/score", body), 4)


def hold_back_bodies(port: int) -> None:
    part = b" " * (16 * MEGABYTE - 1)

    def hold() -> int:
        try:
            with socket.create_connection((HOST, port), timeout=TIMEOUT_S) as client:
                head = f"POST /v1/score HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
                client.sendall(f"{head}Content-Length: {16 * MEGABYTE}\r\n\r\n".encode())
                client.sendall(part)
                client.recv(65_536)
        except OSError:
            pass
        return 0

    repeat(hold, 100)


def send_many_decisions(port: int) -> None:
    request(port, "POST", "/v1/sentences", json.dumps({"id": "one", "tokens": ["Oslo"], "labels": ["B-PER"]}).encode())
    numbers = iter(range(10**9))

    def send() -> int:
        first = next(numbers) * 100
        decisions = [{"id": "one", "reviewer": f"reviewer {first + n}", "verdict": "ok"} for n in range(100)]
        return request(port, "POST", "/v1/decisions", json.dumps({"decisions": decisions}).encode())

    repeat(send, 2)


def send_large_json(port: int) -> None:
    bodies = [
        json.dumps({"sentences": [SENTENCE] * 800}).encode(),
        b'{"tokens": [' + b"1," * (7 * MEGABYTE) + b'1], "labels": []}',
        b'{"sentences": [' + b"[]," * (5 * MEGABYTE) + b"[]]}",
        b"{" + b",".join(b'"%x":1' % n for n in range(1_400_000)) + b"}",
    ]
    numbers = iter(range(10**9))
    repeat(lambda: request(port, "POST", "/v1/score", bodies[next(numbers) % len(bodies)]), 8)


def open_halfway(port: int) -> None:
    def hold() -> int:
        try:
            with socket.create_connection((HOST, port), timeout=TIMEOUT_S) as client:
                client.sendall(b"POST /v1/score HTTP/1.1\r\nHost: ")
                client.recv(65_536)
        except OSError:
            pass
        return 0

    repeat(hold, 1_200)


def send_long_sentences(port: int) -> None:
    body = json.dumps({"tokens": ["wolf"] * 5_000, "labels": ["O"] * 5_000}).encode()
    while True:
        threading.Thread(target=request, args=(port, "POST", "/v1/score", body), daemon=True).start()
        time.sleep(1.0)


ATTACKS: dict[str, Callable[[int], None]] = {
    "label-maps": send_label_maps,
    "conversions": send_conversions,
    "long-words": send_long_words,
    "held-bodies": hold_back_bodies,
    "decisions": send_many_decisions,
    "large-json": send_large_json,
    "half-open": open_halfway,
    "long-sentences": send_long_sentences,
}

if __name__ == "__main__":
    ATTACKS[sys.argv[1]](int(sys.argv[2]))
