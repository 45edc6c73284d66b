"""Sends one kind of costly requests until standard input ends, as a client with a read or write key could.

python -m tests.attack.send conversions 8765

It then prints how often each status was answered; 0 stands for a connection that the service closed.
"""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HOST = "127.0.0.1"
MEGABYTE = 1_000_000
TIMEOUT_S = 60.0
RETRY_S = 0.05
CLOSED = 0
REFUSED = frozenset({429, 503})  # too much to do now
SENTENCE = {"tokens": ["wolf"] * 1_200, "labels": ["O"] * 1_200}


def request(port: int, method: str, path: str, body: bytes) -> int:
    """The status of the answer."""
    connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException):
        return CLOSED
    else:
        return answer.status
    finally:
        connection.close()


class Attacker:
    """Repeats requests and counts the statuses of their answers."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.statuses: Counter[int] = Counter()

    def repeat(self, send: Callable[[], int], clients: int) -> None:
        """So many clients, each of which sends again as soon as it has its answer."""

        def run() -> None:
            while True:
                status = send()
                self.statuses[status] += 1
                if status == CLOSED or status in REFUSED:
                    time.sleep(RETRY_S)

        for _ in range(clients):
            threading.Thread(target=run, daemon=True).start()

    def send_every(self, seconds: float, send: Callable[[], int]) -> None:
        """At this interval, whether earlier requests are answered or not."""

        def run() -> None:
            self.statuses[send()] += 1

        def start() -> None:
            while True:
                threading.Thread(target=run, daemon=True).start()
                time.sleep(seconds)

        threading.Thread(target=start, daemon=True).start()


def exchange(port: int, parts: list[bytes]) -> int:
    """Sends these bytes and waits for the status of an answer."""
    try:
        with socket.create_connection((HOST, port), timeout=TIMEOUT_S) as client:
            for part in parts:
                client.sendall(part)
            answer = client.recv(65_536)
    except OSError:
        return CLOSED
    return int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else CLOSED


def send_label_maps(attacker: Attacker) -> None:
    body = json.dumps({"label_map": {f"LABEL-{n}": f"TYPE-{n}" for n in range(65_000)}}).encode()
    attacker.repeat(lambda: request(attacker.port, "PATCH", "/v1/datasets/attack", body), 2)


def send_conversions(attacker: Attacker) -> None:
    annotations = [{"id": n, "result": []} for n in range(1_000)]
    body = json.dumps({"id": 1, "data": {"text": "word " * 39_000}, "annotations": annotations}).encode()
    attacker.repeat(lambda: request(attacker.port, "POST", "/v1/score?format=label-studio", body), 6)


def send_long_words(attacker: Attacker) -> None:
    body = json.dumps({"tokens": ["a" * (15 * MEGABYTE)], "labels": ["O"]}).encode()
    attacker.repeat(lambda: request(attacker.port, "POST", "/v1/score", body), 4)


def hold_back_bodies(attacker: Attacker) -> None:
    head = f"POST /v1/score HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    parts = [f"{head}Content-Length: {16 * MEGABYTE}\r\n\r\n".encode(), b" " * (16 * MEGABYTE - 1)]
    attacker.repeat(lambda: exchange(attacker.port, parts), 100)


def send_many_decisions(attacker: Attacker) -> None:
    """A hundred reviewers per request decide about one item, of which 20 may."""
    port = attacker.port
    flag_all = {"flag_policy": {"kind": "below", "cut": 2.0}}
    assert request(port, "PATCH", "/v1/datasets/attack", json.dumps(flag_all).encode()) in (200, 201)
    sentence = {"dataset": "attack", "id": "one", "tokens": ["Oslo"], "labels": ["B-PER"]}
    while request(port, "GET", "/v1/review/attack/one", b"") != 200:
        assert request(port, "POST", "/v1/sentences", json.dumps(sentence).encode()) == 202
        time.sleep(0.2)
    numbers = itertools.count()

    def send() -> int:
        first = next(numbers) * 100
        decisions = [
            {"dataset": "attack", "id": "one", "reviewer": f"reviewer {first + n}", "verdict": "ok"} for n in range(100)
        ]
        return request(port, "POST", "/v1/decisions", json.dumps({"decisions": decisions, "partial": True}).encode())

    attacker.repeat(send, 2)


def send_large_json(attacker: Attacker) -> None:
    bodies = [
        json.dumps({"sentences": [SENTENCE] * 800}).encode(),
        b'{"tokens": [' + b"1," * (7 * MEGABYTE) + b'1], "labels": []}',
        b'{"sentences": [' + b"[]," * (5 * MEGABYTE) + b"[]]}",
        b"{" + b",".join(b'"%x":1' % n for n in range(1_400_000)) + b"}",
    ]
    numbers = itertools.count()
    attacker.repeat(lambda: request(attacker.port, "POST", "/v1/score", bodies[next(numbers) % len(bodies)]), 8)


def open_halfway(attacker: Attacker) -> None:
    attacker.repeat(lambda: exchange(attacker.port, [b"POST /v1/score HTTP/1.1\r\nHost: "]), 1_200)


def send_long_sentences(attacker: Attacker) -> None:
    body = json.dumps({"tokens": ["wolf"] * 5_000, "labels": ["O"] * 5_000}).encode()
    attacker.send_every(1.0, lambda: request(attacker.port, "POST", "/v1/score", body))


@dataclass(frozen=True, slots=True)
class Attack:
    begin: Callable[[Attacker], None]
    expected: frozenset[int]  # statuses that the service may answer


ATTACKS: dict[str, Attack] = {
    "label-maps": Attack(send_label_maps, frozenset({422})),
    "conversions": Attack(send_conversions, frozenset({413, 422}) | REFUSED),
    "long-words": Attack(send_long_words, frozenset({413, 422}) | REFUSED),
    "held-bodies": Attack(hold_back_bodies, frozenset({408, CLOSED}) | REFUSED),
    "decisions": Attack(send_many_decisions, frozenset({202, 409}) | REFUSED),
    "large-json": Attack(send_large_json, frozenset({413, 422}) | REFUSED),
    "half-open": Attack(open_halfway, frozenset({408, CLOSED}) | REFUSED),
    "long-sentences": Attack(send_long_sentences, frozenset({200}) | REFUSED),
}


def main() -> None:
    name, port = sys.argv[1], int(sys.argv[2])
    attacker = Attacker(port)
    ATTACKS[name].begin(attacker)
    sys.stdin.read()
    print(json.dumps(attacker.statuses))


if __name__ == "__main__":
    main()
