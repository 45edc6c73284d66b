from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from service.runtime.scoring.channel import (
    MAX_PART_BYTES,
    Channel,
    ChannelClosedError,
    ChannelMessage,
    Kind,
    open_channel,
)
from tests.support.api_harness import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    ours, theirs = open_channel()
    other = Channel(theirs)
    for end in (ours, other):
        os.set_blocking(end.fileno(), False)  # as an event loop does
    yield ours, other
    ours.close()
    other.close()


@pytest.mark.parametrize("size", [0, 1, MAX_PART_BYTES, MAX_PART_BYTES + 1, 20 * MAX_PART_BYTES])
def test_a_message_of_any_size_arrives_whole(ends: tuple[Channel, Channel], size: int) -> None:
    ours, other = ends
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    # A large message waits for the receiver, part by part.
    sender = threading.Thread(target=ours.send, args=(Kind.METRICS,), kwargs={"data": data}, daemon=True)
    sender.start()
    received: list[ChannelMessage] = []

    def has_arrived() -> bool:
        received.extend(other.receive())
        return bool(received)

    wait_for(has_arrived)
    sender.join()
    assert received == [ChannelMessage(Kind.METRICS, 0, data, None)]
    assert list(other.receive()) == []


def test_messages_stay_apart_and_in_order(ends: tuple[Channel, Channel]) -> None:
    ours, other = ends
    for number in range(10):
        ours.send(Kind.CLOSED, number)
    assert [message.number for message in other.receive()] == list(range(10))


def test_a_connection_arrives_with_what_was_read_of_it(ends: tuple[Channel, Channel]) -> None:
    ours, other = ends
    client, served = socket.socketpair()
    with client, served:
        ours.send(Kind.HANDOVER, 7, b"GET / ", descriptor=served.fileno())
    [message] = other.receive()
    assert message.descriptor is not None
    assert (message.number, message.data, os.get_inheritable(message.descriptor)) == (7, b"GET / ", False)
    os.close(message.descriptor)


def test_a_full_channel_refuses_instead_of_waiting(ends: tuple[Channel, Channel]) -> None:
    ours, _ = ends

    def send_without_end() -> None:
        while True:
            ours.send(Kind.METRICS, data=bytes(MAX_PART_BYTES), wait=False)

    with pytest.raises(BlockingIOError):
        send_without_end()


def test_a_sender_waits_until_there_is_space(ends: tuple[Channel, Channel]) -> None:
    ours, other = ends
    held = fill(ours)

    def send() -> None:
        for number in range(held, 1_000):
            ours.send(Kind.CLOSED, number)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    received: list[int] = []

    def have_arrived() -> bool:
        received.extend(message.number for message in other.receive())
        return len(received) == 1_000

    wait_for(have_arrived)
    sender.join()
    assert received == list(range(1_000))


def test_a_sender_that_waits_ends_when_the_other_side_stops_receiving(ends: tuple[Channel, Channel]) -> None:
    ours, other = ends
    number, errors = fill(ours), []

    def send() -> None:
        try:
            ours.send(Kind.CLOSED, number)
        except ChannelClosedError as error:
            errors.append(error)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    other.stop_receiving()
    wait_for(lambda: not sender.is_alive())
    assert len(errors) == 1


def fill(channel: Channel) -> int:
    """How many messages the channel holds."""
    for number in range(1_000):
        try:
            channel.send(Kind.CLOSED, number, wait=False)
        except BlockingIOError:
            return number
    raise AssertionError("the channel is never full")


def test_the_end_comes_after_what_was_sent(ends: tuple[Channel, Channel]) -> None:
    ours, other = ends
    ours.send(Kind.CLOSED, 1)
    ours.end()
    received = []
    with pytest.raises(ChannelClosedError):
        received += list(other.receive())
    other.send(Kind.CLOSED, 2)
    assert [message.number for message in ours.receive()] == [2]
