"""The review queue for a command: built from the topics, as an API process does when it starts."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.review.projection.projector import ReviewProjector
from service.review.projection.queue_file import MEMORY
from service.review.queue.queue import ReviewQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.log.protocol import Log
    from service.log.topics import Topics


@contextmanager
def build_review_queue(log: Log, topics: Topics) -> Iterator[ReviewQueue]:
    """A queue in a temporary file, up to the end that the topics have now."""
    queue = ReviewQueue(MEMORY)
    try:
        projector = ReviewProjector(log, topics, queue.file)
        try:
            while not projector.caught_up:
                projector.step()
        finally:
            projector.close()
        yield queue
    finally:
        queue.close()
