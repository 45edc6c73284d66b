"""What goes over the socket, and in how many writes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from service.api.http.connections.joined_writes import JoinedWrites

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class RecordingTransport(asyncio.Transport):
    """Keeps what each call sends."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.sent.append(b"".join(list_of_data))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


def run(work: Callable[[JoinedWrites], None], *, steps: int) -> RecordingTransport:
    transport = RecordingTransport()

    async def main() -> None:
        work(JoinedWrites(transport, asyncio.get_running_loop()))
        for _ in range(steps):
            await asyncio.sleep(0)

    asyncio.run(main())
    return transport


def test_head_and_body_are_one_write() -> None:
    def write(joined: JoinedWrites) -> None:
        joined.write(b"head ")
        joined.write(b"body")

    assert run(write, steps=0).sent == [b"head body"]


def test_a_head_without_a_body_is_sent_in_the_next_step() -> None:
    assert run(lambda joined: joined.write(b"head"), steps=2).sent == [b"head"]


def test_order_is_kept_over_any_number_of_writes() -> None:
    def write(joined: JoinedWrites) -> None:
        for number in range(5):
            joined.write(b"%d" % number)
        joined.writelines([b"5", b"6"])

    assert b"".join(run(write, steps=2).sent) == b"0123456"


def test_closing_sends_what_is_held_and_aborting_does_not() -> None:
    def close(joined: JoinedWrites) -> None:
        joined.write(b"last")
        assert joined.get_write_buffer_size() == 4
        joined.close()

    def abort(joined: JoinedWrites) -> None:
        joined.write(b"last")
        joined.abort()

    closed, aborted = run(close, steps=2), run(abort, steps=2)
    assert closed.sent == [b"last"]
    assert aborted.sent == []
    assert closed.closed
    assert aborted.closed
