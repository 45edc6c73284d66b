from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.review.queue.queue import ReviewQueue
from tests.support.review_queue import MemoryLog, QueueHarness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[QueueHarness]:
    queue_harness = QueueHarness(MemoryLog(), ReviewQueue(tmp_path / "queue.sqlite"))
    yield queue_harness
    queue_harness.close()
