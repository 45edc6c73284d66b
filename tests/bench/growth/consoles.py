"""Consoles that listen to the queue: what one change of the queue costs the API.

The streams of events run in one event loop without sockets: each is the generator that a response sends.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from service.api.routes.review.events import QueueWatcher, stream_queue_events
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from tests.bench.growth.curves import Curve
from tests.bench.growth.isolation import collect_points
from tests.bench.growth.review_data import DATASET, LABELS, get_source
from tests.support.api_harness import ApiHarness, api_harness
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

SIZES: Final = (1, 10, 100, 500)
ROUNDS: Final = 9
ITEMS: Final = 100


def measure(sizes: Sequence[int], *, isolated: bool = True) -> list[Curve]:
    points = collect_points(measure_size, sizes, isolated=isolated)["console_event"]
    what = "the event of one change of the queue is made for all open consoles"
    return [Curve("console_event", "open consoles", "ms of CPU", what, points)]


def measure_size(size: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="labelwatch-growth-") as name:
        folder = Path(name)
        classifier = Classifier(ModelFolder.load(make_model(folder / "model", "wordpiece", labels=LABELS)))
        with api_harness(folder, classifier) as harness:
            harness.log.append([get_source().build_output(number) for number in range(ITEMS)])
            harness.project()
            return {"console_event": 1000 * statistics.median(asyncio.run(measure_events(harness, size)))}


async def measure_events(harness: ApiHarness, size: int) -> list[float]:
    """Processor time until all listeners have the event of a change."""
    watcher = QueueWatcher(harness.backend, poll_interval=0.0)
    streams = [stream_queue_events(harness.backend, watcher, DATASET) for _ in range(size)]
    for stream in streams:
        await wait_for_event(stream)
    seconds = []
    for number in range(ROUNDS):
        harness.log.append([get_source().build_output(ITEMS + number)])
        harness.project()
        started = time.process_time()
        await asyncio.gather(*map(wait_for_event, streams))
        seconds.append(time.process_time() - started)
    return seconds


async def wait_for_event(stream: AsyncIterator[str]) -> None:
    async for text in stream:
        if text.startswith("event: queue"):
            return
