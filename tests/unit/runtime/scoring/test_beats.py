"""A scoring process beats once a second, however long a tick of its event loop takes."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
import uvicorn

from service.runtime.scoring.channel import Channel, Kind, open_channel
from service.runtime.scoring.child import LoopWatch, ScoringServer
from service.telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import Iterator


TICKS = 40


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    ours, theirs = open_channel()
    other = Channel(theirs)
    yield ours, other
    ours.close()
    other.close()


@pytest.mark.parametrize("tick_s", [0.125, 1.0, 2.0, 5.0])
def test_it_beats_once_a_second_and_at_every_slower_tick(
    ends: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch, tick_s: float
) -> None:
    receiving, sending = ends
    server = ScoringServer(
        uvicorn.Config("no:app", log_config=None), threading.Event(), sending, Telemetry(), LoopWatch()
    )
    beats = []
    for counter in range(TICKS + 1):
        moment = 100.0 + counter * tick_s
        with monkeypatch.context() as patch:
            patch.setattr("service.runtime.scoring.child.time.monotonic", moment.__float__)
            asyncio.run(server.on_tick(counter))
        beats += [moment for message in receiving.receive() if message.kind is Kind.ALIVE]
    interval_s = max(1.0, tick_s)
    assert beats == [100.0 + index * interval_s for index in range(1 + int(TICKS * tick_s / interval_s))]
