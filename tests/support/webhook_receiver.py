"""A receiver of webhooks on a loopback address that does what a test asks for: answers, fails, hangs, redirects, drips."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Self

Behaviour = Literal["ok", "fail", "hang", "redirect", "drip", "huge", "garbage", "gone"]
ANSWERS: dict[str, bytes] = {
    "ok": b"HTTP/1.1 204 No Content\r\n\r\n",
    "fail": b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
    "gone": b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n",
    "garbage": b"\x00\x01\x02 nothing like HTTP\r\n\r\n",
}


@dataclass
class WebhookReceiver:
    behaviour: Behaviour = "ok"
    redirect_to: str = ""
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    sent_bytes: int = 0

    def __enter__(self) -> Self:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._stop = threading.Event()
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/hook?x=1"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._socket.shutdown(socket.SHUT_RDWR)  # ends `accept`
        self._socket.close()

    def _accept(self) -> None:
        while not self._stop.is_set():
            with suppress(OSError):
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            head, _, body = self._read(connection).partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
            self.requests.append((headers, body))
            self._answer(connection)

    def _read(self, connection: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65_536)
        head = data.partition(b"\r\n\r\n")[0].lower()
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
        while len(data) < len(head) + 4 + length:
            data += connection.recv(65_536)
        return data

    def _answer(self, connection: socket.socket) -> None:
        if self.behaviour == "hang":
            self._stop.wait(30)
        elif self.behaviour == "redirect":
            connection.sendall(f"HTTP/1.1 302 Found\r\nLocation: {self.redirect_to}\r\n\r\n".encode())
        elif self.behaviour == "drip":
            for byte in b"HTTP/1.1 200 OK\r\n" + b"X-Slow: 1\r\n" * 1_000:
                connection.sendall(bytes([byte]))
                if self._stop.wait(0.02):
                    return
        elif self.behaviour == "huge":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
            for _ in range(10_000):
                self.sent_bytes += connection.send(b"x" * 65_536)
        else:
            connection.sendall(ANSWERS[self.behaviour])
