"""A server that answers like Label Studio's REST API, as far as the client uses it."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from tests.support import platform_bodies as bodies

if TYPE_CHECKING:
    from collections.abc import Iterator

JWT = "eyJh.eyJz.sig"


class FakeLabelStudio(ThreadingHTTPServer):
    """A project and its predictions in memory. It knows both kinds of tokens, and refuses the tasks it is given."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.predictions: dict[int, dict[str, Any]] = {}
        self.config: Any = bodies.CONFIG
        self.access = "access-1"
        self.refuse_tasks: set[int] = set()
        self.calls: list[tuple[str, str]] = []
        self.redirect: str | None = None
        self.page_size: int | None = None
        self.endless = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeLabelStudio

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called
        pass

    def _answer(self, status: int, body: object = None, **headers: str) -> None:
        raw = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _handle(self) -> None:  # noqa: PLR0911 - one for each answer
        server, path = self.server, self.path
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        server.calls.append((self.command, path))
        if server.redirect is not None:
            return self._answer(302, Location=server.redirect)
        if path == "/api/token/refresh/":
            return self._answer(200, {"access": server.access}) if body == {"refresh": JWT} else self._answer(401)
        if self.headers["Authorization"] not in ("Token right", f"Bearer {server.access}"):
            return self._answer(401, {"detail": "Invalid token."})
        match self.command, path:
            case "GET", "/api/projects/3/":
                return self._answer(200, {"id": 3, "parsed_label_config": server.config})
            case "GET", _ if path.startswith("/api/predictions/?"):
                return self._list(parse_qs(path.partition("?")[2]))
            case "POST", "/api/predictions/":
                if body["task"] in server.refuse_tasks:
                    return self._answer(400, {"task": ["Invalid pk - object does not exist."]})
                number = max(server.predictions, default=0) + 1
                server.predictions[number] = {"id": number, "project": 3, **body}
                return self._answer(201, server.predictions[number])
            case "DELETE", _ if path.startswith("/api/predictions/"):
                deleted = server.predictions.pop(int(path.rstrip("/").rpartition("/")[2]), None)
                return self._answer(204 if deleted else 404)
        return self._answer(404, {"detail": "Not found."})

    def _list(self, query: dict[str, list[str]]) -> None:
        """All predictions in one list, as version 1.23 answers, or in pages like its other lists."""
        server = self.server
        assert query["project"] == ["3"]
        predictions, size = list(server.predictions.values()), server.page_size
        if size is None:
            return self._answer(200, predictions)
        page = int(query.get("page", ["1"])[0])
        more = page * size < len(predictions)
        # Behind a proxy, Label Studio may not know the address that the client uses.
        next_url = f"http://inside.example.org/api/predictions/?page={page + 1}&project=3" if more else None
        if server.endless:
            next_url = f"{server.url}{self.path}"
        results = predictions[(page - 1) * size : page * size]
        return self._answer(200, {"count": len(predictions), "next": next_url, "previous": None, "results": results})

    do_GET = do_POST = do_DELETE = _handle  # noqa: N815 - as http.server looks for them


@contextmanager
def serve(server: FakeLabelStudio) -> Iterator[FakeLabelStudio]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
