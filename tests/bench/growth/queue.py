"""The review queue by its items: pages, filters, search, the overview, and building it from the topics."""

from __future__ import annotations

import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from service.log.sqlite.log import SqliteLog
from service.review.projection.projector import ReviewProjector
from service.review.queue.queue import QueueFilter, ReviewQueue
from tests.bench.growth.curves import Curve, Goal
from tests.bench.growth.isolation import collect_points
from tests.bench.growth.review_data import COMMON_PREFIX, COMMON_WORD, DATASET, NOW, RARE_WORD, TOPICS, append_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
PAGE_SIZE: Final = 50
ROUNDS: Final = 9
SLOW_S: Final = 0.5

QUERIES: Final = {
    "page": ("the first page of 50 open items", QueueFilter(dataset=DATASET, viewer="reviewer-1")),
    "page_of_free_items": (
        "the first page of 50 items that a reviewer can work on",
        QueueFilter(dataset=DATASET, reviewer="reviewer-1"),
    ),
    "filter_common": ("a page of the items with a given label PER", QueueFilter(dataset=DATASET, given="PER")),
    "filter_batch": ("a page of one of 50 batches", QueueFilter(dataset=DATASET, batch="batch-7")),
    "filter_two": (
        "a page of one of 20 annotators and one kind of suspect",
        QueueFilter(dataset=DATASET, annotator="annotator-3", kind="spurious"),
    ),
    "filter_three": (
        "a page of one of 20 annotators, one kind of suspect and one given label",
        QueueFilter(dataset=DATASET, annotator="annotator-3", kind="type", given="PER"),
    ),
    "filter_none": (
        "no item: one of 50 batches and an annotator who has none of it",
        QueueFilter(dataset=DATASET, batch="batch-7", annotator="annotator-3"),
    ),
    "page_of_all_states": ("the first page of 50 items in all states", QueueFilter(dataset=DATASET, state="all")),
    "filter_verdict": (
        "a page of the decided items with the verdict error",
        QueueFilter(dataset=DATASET, state="decided", verdict="error"),
    ),
    "search_rare": ("a page of the items with a rare word", QueueFilter(dataset=DATASET, q=RARE_WORD)),
    "search_common": ("a page of the items with a word of most sentences", QueueFilter(dataset=DATASET, q=COMMON_WORD)),
    "search_prefix": (
        "a page of the items with words that begin with a letter",
        QueueFilter(dataset=DATASET, q=COMMON_PREFIX),
    ),
    "search_filtered": (
        "a page of the items with a word of most sentences, one of 20 annotators and one kind of suspect",
        QueueFilter(dataset=DATASET, q=COMMON_WORD, annotator="annotator-3", kind="spurious"),
    ),
}


def measure(sizes: Sequence[int], *, isolated: bool = True) -> list[Curve]:
    return list(build_curves(collect_points(measure_size, sizes, isolated=isolated)))


def measure_size(size: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="labelwatch-growth-") as folder:
        log = SqliteLog(Path(folder) / "log.sqlite", TOPICS)
        queue = ReviewQueue(Path(folder) / "queue.sqlite")
        projector = ReviewProjector(log, TOPICS, queue.file)
        try:
            append_queue(log, size)
            started = time.process_time()
            seconds = measure_seconds(lambda: catch_up(projector))
            found = {"queue_rebuild": size / (time.process_time() - started), "queue_restart": seconds}
            found["queue_bytes"] = queue.file.path.stat().st_size
            return found | measure_queries(queue)
        finally:
            projector.close()
            queue.close()
            log.close()


def catch_up(projector: ReviewProjector) -> None:
    while not projector.caught_up:
        projector.step()


def measure_seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def measure_median_ms(run: Callable[[], object]) -> float:
    """The median of a few runs after a first one; a slow one is not repeated as often."""
    first = measure_seconds(run)
    rounds = ROUNDS if first < SLOW_S else 2
    return 1000 * statistics.median(measure_seconds(run) for _ in range(rounds))


def measure_queries(queue: ReviewQueue) -> dict[str, float]:
    first = queue.get_page(QueueFilter(dataset=DATASET), limit=PAGE_SIZE, now=NOW)
    found = {
        f"queue_{name}": measure_median_ms(partial(queue.get_page, chosen, limit=PAGE_SIZE, now=NOW))
        for name, (_, chosen) in QUERIES.items()
    }
    found["queue_next_page"] = measure_median_ms(
        lambda: queue.get_page(QueueFilter(dataset=DATASET), limit=PAGE_SIZE, after=first.next, now=NOW)
    )
    found["queue_overview"] = measure_median_ms(lambda: queue.build_overview(DATASET))
    found["queue_facets"] = measure_median_ms(lambda: queue.count_facets(DATASET, "open"))
    found["queue_progress"] = measure_median_ms(
        lambda: queue.read_progress(dataset=DATASET, reviewer="reviewer-1", since=NOW, now=NOW)
    )
    found["queue_counts"] = measure_median_ms(queue.count_items)
    return found


def build_curves(values: dict[str, list[dict[str, float]]]) -> Iterator[Curve]:
    largest = SIZES[-1]
    others = {
        "queue_next_page": "the second page",
        "queue_overview": "the numbers of the overview page",
        "queue_facets": "the counts of the filters",
        "queue_progress": "the progress of a reviewer's day",
        "queue_counts": "the items by state, as each event of the console has them",
    }
    for name, points in values.items():
        if name == "queue_rebuild":
            goal = Goal(largest, 5_000, at_least=True)
            what = "building the queue from the topics of the embedded log"
            yield Curve(name, "items", "items per second of CPU", what, points, linear_exponent=0.0, goal=goal)
        elif name == "queue_restart":
            yield Curve(name, "items", "seconds", "from the start of an API to a complete queue", points)
        elif name == "queue_bytes":
            yield Curve(name, "items", "bytes", "the file of the queue", points)
        else:
            query = QUERIES.get(name.removeprefix("queue_"))
            what = others[name] if query is None else query[0]
            limit = Goal(largest, 20 if "page" in name else 100) if "page" in name or name == "queue_overview" else None
            yield Curve(name, "items", "ms (p50)", what, points, goal=limit)
