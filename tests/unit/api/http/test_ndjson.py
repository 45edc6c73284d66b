"""Lines in and out: cut right, bounded, never waiting for each other for ever."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect

from service.api.http.ndjson import upload
from service.api.http.ndjson.limiter import StreamLimiter
from service.api.http.ndjson.lines import BodyLine, LineSplitter
from service.api.http.ndjson.response import MAX_BATCH_LINES, NdjsonResponse
from service.api.http.ndjson.spool import Spool
from service.api.http.problems import BodyTimeoutError, OverloadedError
from service.errors import StreamError
from service.settings import ApiSettings
from tests.support.scoring_harness import AsgiExchange

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from starlette.types import Receive, Scope, Send

WAIT = 30.0


def done(work: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        await asyncio.wait_for(work, WAIT)

    asyncio.run(within())


class App:
    """Answers each line with its number, its length, and whether it was among the first."""

    def __init__(self, *, ahead: bool = False, max_line_bytes: int = 1_000, **limits: Any) -> None:
        self.ahead = ahead
        self.streams = StreamLimiter(ApiSettings(**limits).model_copy(update={"max_line_bytes": max_line_bytes}))
        self.error: Exception | None = None
        self.fails_from = 1
        self.portions: list[int] = []
        self.running = self.most_running = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def handle(self, lines: Sequence[BodyLine], first: bool) -> list[bytes]:
        self.portions.append(len(lines))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(0)
            await self.gate.wait()
        finally:
            self.running -= 1
        if self.error is not None and lines[-1].number >= self.fails_from:
            raise self.error
        return [
            json.dumps(
                {"line": line.number, "size": None if line.raw is None else len(line.raw), "first": first}
            ).encode()
            + b"\n"
            for line in lines
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = NdjsonResponse(
            self.handle, limiter=self.streams, request_id="r", status_code=202, concurrent=self.ahead
        )
        await response(scope, receive, send)


def conversation(app: App) -> AsgiExchange:
    return AsgiExchange(app, "/")  # type: ignore[arg-type]  # any ASGI app will do


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=40)), st.integers(1, 50), st.integers(1, 60))
def test_lines_do_not_depend_on_the_chunks_of_the_body(parts: list[bytes], piece: int, limit: int) -> None:
    body = b"\n".join(parts)
    splitter = LineSplitter(limit)
    lines = [line for start in range(0, len(body), piece) for line in splitter.feed(body[start : start + piece])]
    lines += splitter.flush()
    expected = []
    for number, raw in enumerate(body.split(b"\n"), 1):
        if len(raw) > limit:
            expected.append(BodyLine(number, None))
        elif raw.strip():
            expected.append(BodyLine(number, raw.strip()))
    assert lines == expected


def test_a_line_that_is_too_long_is_not_buffered() -> None:
    splitter = LineSplitter(10)
    for _ in range(1_000):
        splitter.feed(b"x" * 1_000)
    assert not splitter._parts
    assert splitter.feed(b"\nok\n") == [BodyLine(1, None), BodyLine(2, b"ok")]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.binary(min_size=1, max_size=30), st.integers(1, 40))))
def test_a_spool_returns_its_bytes_in_order(steps: list[bytes | int]) -> None:
    streams = StreamLimiter(ApiSettings())
    spool, expected, received = Spool(streams, max_memory_bytes=20, segment_bytes=50), b"", b""
    for step in steps:
        if isinstance(step, bytes):
            spool.write(step)
            expected += step
        else:
            received += spool.read(step)
        assert len(spool) == len(expected) - len(received)
        assert len(spool) <= streams.spooled_bytes <= len(spool) + 80  # what is read is given back piece by piece
    while len(spool):
        received += spool.read(7)
    assert (received, streams.spooled_bytes) == (expected, 0)
    spool.write(b"left")
    spool.close()
    assert streams.spooled_bytes == 0


@pytest.mark.parametrize("ahead", [True, False])
def test_a_client_that_reads_gets_each_answer_before_it_sends_the_next_line(ahead: bool) -> None:
    async def talk() -> None:
        async with conversation(App(ahead=ahead)) as talk:
            talk.send_lines({"n": 1})
            start = await talk.receive()
            assert start["status"] == 202
            answers = talk.iter_response_lines()
            for number in range(1, 6):
                assert (await anext(answers)) == {"line": number, "size": 8, "first": number == 1}
                talk.send_lines({"n": number}, last=number == 5)
            assert [each async for each in answers] == [{"line": 6, "size": 8, "first": False}]
            await talk.task

    done(talk())


@pytest.mark.parametrize("ahead", [True, False])
def test_answers_have_the_order_of_the_lines(ahead: bool) -> None:
    app = App(ahead=ahead)

    async def talk() -> None:
        async with conversation(app) as talk:
            talk.send_lines(*[b"x" * size for size in range(1, 301)], last=True)
            await talk.receive()
            assert [(each["line"], each["size"]) async for each in talk.iter_response_lines()] == [
                (n, n) for n in range(1, 301)
            ]

    done(talk())
    assert max(app.portions) <= MAX_BATCH_LINES
    assert app.most_running == (2 if ahead else 1)


def test_a_client_that_reads_nothing_before_it_has_sent_all_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "MAX_READ_AHEAD_BYTES", 2_000)
    lines = [b"x" * 500] * 400

    async def talk() -> None:
        async with conversation(App(ahead=True)) as talk:
            talk.reading.clear()
            for line in lines:
                talk.send_lines(line)
            talk.send_lines(last=True)
            while talk.received_bytes < sum(
                len(line) + 1 for line in lines
            ):  # all of it is taken although nothing is read
                await asyncio.sleep(0)
            talk.reading.set()
            await talk.receive()
            assert len([each async for each in talk.iter_response_lines()]) == len(lines)

    done(talk())


def test_a_client_that_sends_faster_than_it_is_answered_is_slowed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "MAX_READ_AHEAD_BYTES", 2_000)
    app = App(ahead=True)

    async def talk() -> None:
        app.gate.clear()
        async with conversation(app) as talk:
            for _ in range(400):
                talk.send_lines(b"x" * 500)
            talk.send_lines(last=True)
            for _ in range(2_000):
                await asyncio.sleep(0)
            assert 2_000 <= talk.received_bytes <= 6_000
            app.gate.set()
            await talk.receive()
            assert len([each async for each in talk.iter_response_lines()]) == 400

    done(talk())


def test_an_error_before_the_first_answer_is_the_requests_own() -> None:
    app = App()
    app.error = StreamError("gone")

    async def talk() -> None:
        async with conversation(app) as talk:
            talk.send_lines(b"a", last=True)
            with pytest.raises(StreamError):
                await talk.task

    done(talk())


@pytest.mark.parametrize("ahead", [True, False])
def test_a_later_error_ends_the_answers_with_a_problem(ahead: bool) -> None:
    app = App(ahead=ahead)
    app.error, app.fails_from = StreamError("the log is gone"), 2

    async def talk() -> None:
        async with conversation(app) as talk:
            talk.send_lines(b"a")
            await talk.receive()
            answers = talk.iter_response_lines()
            assert (await anext(answers))["line"] == 1
            talk.send_lines(*[b"b"] * 500, last=True)
            (problem,) = [each async for each in answers]
            assert (problem["status"], problem["line"], problem["request_id"]) == (503, 2, "r")
            await talk.task

    done(talk())
    assert len(app.portions) <= 3  # nothing is begun behind it


def test_blank_lines_count_but_are_not_answered() -> None:
    async def talk() -> None:
        async with conversation(App(max_line_bytes=3)) as talk:
            talk.send_lines(b"", b"ab", b"  ", b"abcd", b"abc", last=True)
            await talk.receive()
            assert [(each["line"], each["size"]) async for each in talk.iter_response_lines()] == [
                (2, 2),
                (4, None),
                (5, 3),
            ]

    done(talk())


def test_an_empty_body_has_an_empty_response() -> None:
    async def talk() -> None:
        async with conversation(App()) as talk:
            talk.send_lines(last=True)
            assert (await talk.receive())["status"] == 202
            assert [each async for each in talk.iter_response_lines()] == []

    done(talk())


@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_work_for_a_disconnected_client_is_dropped(when: str) -> None:
    app = App(ahead=True)

    async def talk() -> None:
        app.gate.clear()
        async with conversation(app) as talk:
            if when != "before":
                talk.send_lines(*[b"x"] * 200, last=when == "after")
                while not app.running:
                    await asyncio.sleep(0)
            talk.disconnect()
            with pytest.raises(ClientDisconnect):
                await talk.task
        assert app.running == 0

    done(talk())


def test_a_full_disk_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Spool, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Spool, "write", full)

    async def talk() -> None:
        async with conversation(App()) as talk:
            talk.send_lines(b"a", last=True)
            with pytest.raises(Exception, match="no space left to buffer the body"):
                await talk.task

    done(talk())


def test_a_disk_that_fills_up_later_loses_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    real, remaining = Spool.write, [2]

    def nearly_full(self: Spool, data: bytes) -> None:
        remaining[0] -= 1
        if remaining[0] == -1:
            raise OSError(28, "No space left on device")
        real(self, data)  # there is room again: but the lines would have a gap

    monkeypatch.setattr(Spool, "write", nearly_full)

    async def talk() -> None:
        async with conversation(App()) as talk:
            talk.send_lines(b"a")
            await talk.receive()
            answers = talk.iter_response_lines()
            assert (await anext(answers))["line"] == 1
            for word in (b"bb", b"ccc", b"dddd"):
                talk.send_lines(word)
            talk.send_lines(last=True)
            *answers_before, problem = [each async for each in answers]
            assert [(each["line"], each["size"]) for each in answers_before] == [(2, 2)]
            assert (problem["status"], problem["line"]) == (413, 3)
            assert "2 lines are answered, continue with line 3" in problem["detail"]

    done(talk())


def test_a_client_that_sends_nothing_gets_408() -> None:
    async def talk() -> None:
        app = App(idle_s=0.05)
        async with conversation(app) as talk:
            with pytest.raises(BodyTimeoutError, match=r"nothing was sent for 0\.05 s"):
                await talk.task
        assert app.streams.open_streams == 0

    done(talk())


def test_before_the_first_answer_the_request_timeout_counts_too() -> None:
    streams = StreamLimiter(ApiSettings(idle_s=60, timeout_s=10))
    assert (streams.first_idle_timeout_s, streams.idle_timeout_s) == (8, 60)


@pytest.mark.parametrize("ahead", [True, False])
def test_a_client_that_stops_sending_gets_a_problem_as_the_last_line(ahead: bool) -> None:
    async def talk() -> None:
        app = App(ahead=ahead, idle_s=0.05)
        async with conversation(app) as talk:
            talk.send_lines(b"a", b"b")
            await talk.receive()
            *answers, problem = [each async for each in talk.iter_response_lines()]
            assert [each["line"] for each in answers] == [1, 2]
            assert (problem["status"], problem["line"], problem["type"]) == (408, 3, "urn:labelwatch:problem:idle")
            await talk.task
        assert app.streams.open_streams == 0

    done(talk())


def test_a_client_that_waits_for_a_slow_answer_is_not_idle() -> None:
    async def talk() -> None:
        app = App(idle_s=0.05)
        app.gate.clear()
        async with conversation(app) as talk:
            talk.send_lines(b"a")
            while not app.running:
                await asyncio.sleep(0)
            await asyncio.sleep(0.25)  # several times as long as a client may be idle
            app.gate.set()
            assert (await talk.receive())["status"] == 202
            answers = talk.iter_response_lines()
            assert (await anext(answers))["line"] == 1
            talk.send_lines(b"b", last=True)
            assert [each["line"] async for each in answers] == [2]

    done(talk())


def test_a_client_that_neither_reads_nor_sends_is_disconnected() -> None:
    async def talk() -> None:
        app = App(idle_s=0.05)
        async with conversation(app) as talk:
            talk.reading.clear()
            talk.send_lines(b"a", last=True)
            with pytest.raises(ClientDisconnect):
                await talk.task
        assert (app.streams.open_streams, app.streams.spooled_bytes) == (0, 0)

    done(talk())


def test_the_number_of_open_streams_is_limited() -> None:
    async def talk() -> None:
        app = App(max_streams=2)
        turned_away = []
        app.streams._on_reject = lambda: turned_away.append(1)
        async with conversation(app) as first, conversation(app) as other:
            for each in (first, other):
                each.send_lines(b"a")
                assert (await each.receive())["status"] == 202
            async with conversation(app) as third:
                with pytest.raises(OverloadedError, match="2 NDJSON bodies") as refused:
                    await third.task
            assert refused.value.headers == {"Connection": "close"}
            assert turned_away == [1]
            other.disconnect()
            with pytest.raises(ClientDisconnect):
                await other.task
            async with conversation(app) as fourth:
                fourth.send_lines(b"a", last=True)
                assert (await fourth.receive())["status"] == 202

    done(talk())


def test_the_bytes_of_all_spools_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "MAX_READ_AHEAD_BYTES", 2_000)
    app = App(max_spool_bytes=20_000)

    async def talk() -> None:
        async with conversation(app) as greedy:
            greedy.reading.clear()
            for _ in range(200):
                greedy.send_lines(b"x" * 500)
            greedy.send_lines(last=True)
            while greedy.received_bytes < 200 * 501:
                await asyncio.sleep(0)
            assert app.streams.spooled_bytes <= 20_000
            greedy.reading.set()
            await greedy.receive()
            *answers, problem = [each async for each in greedy.iter_response_lines()]
            assert (problem["status"], problem["line"]) == (413, len(answers) + 1)
            assert "read answers while you send" in problem["detail"]
        assert app.streams.spooled_bytes == 0

    done(talk())
