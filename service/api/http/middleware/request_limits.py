"""The limits of one request: bytes of its body, and time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders

from service.api.http.media_types import is_ndjson
from service.api.http.problems import BodyTimeoutError, OverloadedError, ResponseTimeoutError, TooLargeError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from service.api.backend import ScoringBackend
    from service.api.http.body_budget import BodyBudget
    from service.api.http.problems import RequestError

MAX_LENGTH_DIGITS: Final = 18  # of Content-Length: more digits are no number of bytes
BODY_TOO_LARGE_KEY: Final = "too_large"  # in the state of an NDJSON request over its limit: the error


class RequestLimits:
    """Counts the bytes of one request's body, and ends the request when it takes too long."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        backend: ScoringBackend,
        budget: BodyBudget,
        *,
        max_body_bytes: int | None = None,
    ) -> None:
        """`max_body_bytes`: of a JSON body, if it is less than the setting. Raises if the body is declared too large."""
        headers = Headers(scope=scope)
        settings = backend.settings
        self._scope, self._receive, self._send = scope, receive, send
        self._is_ndjson = is_ndjson(headers)
        self._max_bytes = settings.max_stream_bytes if self._is_ndjson else max_body_bytes or settings.max_body_bytes
        self._is_own_limit = max_body_bytes is not None and not self._is_ndjson
        self._budget = budget
        self._counted_bytes = 0
        self._telemetry = backend.telemetry
        self._timeout = settings.timeout_s
        self._deadline: asyncio.Timeout | None = None
        self._bytes_read = 0
        self._body_complete = self._awaiting_body = False
        self._refusal: RequestError | None = None
        self._response_started = False
        length = headers.get("content-length", "")
        declared = int(length[:MAX_LENGTH_DIGITS]) if length.isascii() and length.isdigit() else 0
        if declared > self._max_bytes:
            raise self._build_too_large_error()
        if not self._is_ndjson and not budget.can_hold(declared):
            raise self._build_overload_error()

    def _build_too_large_error(self) -> TooLargeError:
        kind, setting = ("NDJSON body", "STREAM") if self._is_ndjson else ("body", "BODY")
        limit = "" if self._is_own_limit else f" (the limit is LABELWATCH_API_MAX_{setting}_BYTES)"
        return TooLargeError(f"the {kind} is larger than {self._max_bytes:,} bytes: send it in parts{limit}")

    def _build_overload_error(self) -> OverloadedError:
        self._telemetry.count_overload("bodies_full")
        return OverloadedError(
            f"the bodies of all requests have {self._budget.max_bytes:,} bytes already: try again, or send less at once"
            " (the limit is LABELWATCH_API_MAX_PENDING_BODY_BYTES)",
            close=True,
        )

    async def run(self, app: ASGIApp) -> None:
        try:
            async with asyncio.timeout(self._timeout) as deadline:
                self._deadline = deadline
                await app(self._scope, self._receive_limited, self._send_limited)
        except TimeoutError:
            if self._response_started or self._deadline is None or not self._deadline.expired():
                raise
            if self._awaiting_body:
                raise BodyTimeoutError(
                    f"the body did not arrive within {self._timeout:g} seconds: send all of it, or less at once"
                    " (the limit is LABELWATCH_API_TIMEOUT_S)",
                    close=True,
                ) from None
            raise build_timeout_error(self._timeout) from None
        except Exception:
            if self._refusal is None or self._response_started:
                raise
        finally:
            self._budget.release(self._counted_bytes)
        if self._refusal is not None and not self._response_started:
            raise self._refusal

    async def _receive_limited(self) -> Message:
        if self._refusal is not None:
            return {"type": "http.disconnect"}
        self._awaiting_body = not (self._body_complete or self._is_ndjson)  # NDJSON is read while lines are answered
        message = await self._receive()
        self._awaiting_body = False
        self._body_complete = self._body_complete or not message.get("more_body", False)
        self._bytes_read += len(message.get("body", b""))
        if self._bytes_read > self._max_bytes:
            # The app sees a disconnect, the client gets 413. An NDJSON response may have answered some lines already:
            # it finds the error in the state and sends it as the last line.
            self._refusal = self._build_too_large_error()
            if self._is_ndjson:
                self._scope["state"][BODY_TOO_LARGE_KEY] = self._refusal
            return {"type": "http.disconnect"}
        if not self._is_ndjson:
            if not self._budget.grow(self._counted_bytes, self._bytes_read):
                self._refusal = self._build_overload_error()
                return {"type": "http.disconnect"}
            self._counted_bytes = self._bytes_read
        if self._is_ndjson and self._deadline is not None and not self._response_started:
            self._deadline.reschedule(asyncio.get_running_loop().time() + self._timeout)  # the client is sending
        return message

    async def _send_limited(self, message: Message) -> None:
        if self._refusal is not None and not self._response_started and not self._is_ndjson:
            return
        if message["type"] == "http.response.start":
            self._response_started = True
            if self._refusal is not None:  # the rest of the body is not read
                MutableHeaders(scope=message)["Connection"] = "close"
            if self._deadline is not None:
                self._deadline.reschedule(None)  # a response that has begun may take any time
        await self._send(message)


def build_timeout_error(seconds: float) -> ResponseTimeoutError:
    return ResponseTimeoutError(f"no answer within {seconds:g} seconds: try again, or send less at once")
