"""The review queue by its decisions: five about each item, and 2,000 items that are open.

The thread of the projection applies a decision and refits the ranker. No request does either: a request writes the decision to
the log, and reads what the thread has written.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from service.log.sqlite.log import SqliteLog
from service.review.projection.projector import ReviewProjector
from service.review.queue.queue import QueueFilter, ReviewQueue
from service.review.ranker import round_down_to_batch
from tests.bench.growth.curves import Curve
from tests.bench.growth.isolation import collect_points
from tests.bench.growth.queue import PAGE_SIZE, catch_up, measure_median_ms, measure_seconds
from tests.bench.growth.review_data import DATASET, NOW, TOPICS, append_all, append_queue, get_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from service.log.protocol import Output

SIZES: Final = (100, 1_000, 10_000, 100_000)
REVIEWERS: Final = 5
ROUNDS: Final = 15
MORE_ITEMS: Final = 2_000  # open ones, for pages and further decisions

CURVES: Final = {
    "decision_apply": ("ms (p50)", "the projection applies one more decision, off the request path"),
    "ranker_refit": (
        "ms",
        "the decision that completes a step: a new fit, and new ranks of all items, off the request path",
    ),
    "page_during_refit": ("ms (p50)", "the first page of 50 items while the projection fits and ranks"),
    "decision_page": ("ms (p50)", "the first page of 50 items, just after a decision"),
    "decision_overview": ("ms (p50)", "the numbers of the overview page"),
}


def measure(sizes: Sequence[int], *, isolated: bool = True) -> list[Curve]:
    points = collect_points(measure_size, sizes, isolated=isolated)
    return [Curve(name, "decisions", unit, what, points[name]) for name, (unit, what) in CURVES.items()]


def measure_size(size: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="labelwatch-growth-") as folder:
        log = SqliteLog(Path(folder) / "log.sqlite", TOPICS)
        queue = ReviewQueue(Path(folder) / "queue.sqlite")
        projector = ReviewProjector(log, TOPICS, queue.file)
        try:
            append_queue(log, size // REVIEWERS + MORE_ITEMS, decided_share=0)
            append_all(log, list_decisions(0, size))
            catch_up(projector)
            return measure_decisions(log, queue, projector, size)
        finally:
            projector.close()
            queue.close()
            log.close()


def list_decisions(start: int, end: int) -> Iterator[Output]:
    """The n-th decision of all."""
    return (
        get_source().build_decision(number // REVIEWERS, f"reviewer-{number % REVIEWERS}")
        for number in range(start, end)
    )


def measure_refit(queue: ReviewQueue, projector: ReviewProjector) -> tuple[float, list[float]]:
    """Seconds until the projection has applied everything, and of the pages that another thread reads meanwhile."""
    done = threading.Event()
    seconds = []

    def project() -> None:
        started = time.perf_counter()
        while projector.step():
            pass
        seconds.append(time.perf_counter() - started)
        done.set()

    thread = threading.Thread(target=project)
    pages: list[float] = []
    thread.start()
    while not (done.is_set() and pages):
        pages.append(measure_seconds(lambda: queue.get_page(QueueFilter(dataset=DATASET), limit=PAGE_SIZE, now=NOW)))
    thread.join()
    return seconds[0], pages


def measure_decisions(log: SqliteLog, queue: ReviewQueue, projector: ReviewProjector, size: int) -> dict[str, float]:
    applied: list[float] = []
    pages: list[float] = []
    for number in range(size, size + ROUNDS):
        log.append([next(list_decisions(number, number + 1))])
        applied.append(measure_seconds(projector.step))
        pages.append(measure_seconds(lambda: queue.get_page(QueueFilter(dataset=DATASET), limit=PAGE_SIZE, now=NOW)))
    end = size + ROUNDS
    while round_down_to_batch(end) == round_down_to_batch(size + ROUNDS):
        end += 1
    append_all(log, list_decisions(size + ROUNDS, end))
    refit_s, during = measure_refit(queue, projector)
    return {
        "decision_apply": 1000 * statistics.median(applied),
        "ranker_refit": 1000 * refit_s,
        "page_during_refit": 1000 * statistics.median(during),
        "decision_page": 1000 * statistics.median(pages),
        "decision_overview": measure_median_ms(lambda: queue.build_overview(DATASET)),
    }
