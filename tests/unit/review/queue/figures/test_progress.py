"""The progress of the day, and the histogram of priorities."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.review.queue.figures.priority_bins import EDGES, add_sentences
from service.statistics.histogram import UNIT_EDGES, PriorityHistogram
from tests.support.review_queue import NOW, decide_item, make_scored_output

if TYPE_CHECKING:
    from datetime import datetime

    from service.review.queue.figures.progress import Progress
    from tests.support.review_queue import QueueHarness


def read_progress(harness: QueueHarness, since: datetime, **fields: str) -> Progress:
    dataset, reviewer = fields.get("dataset"), fields.get("reviewer")
    return harness.queue.read_progress(dataset=dataset, reviewer=reviewer, since=since, now=NOW)


def test_decisions_of_the_day(harness: QueueHarness) -> None:
    harness.write(*(make_scored_output(f"s{number}", 0.1) for number in range(6)))
    harness.write(make_scored_output("s0", 0.1, dataset="other"))
    hours = {"s0": 30, "s1": 5, "s2": 0.5, "s3": 0.2}
    for sentence_id, ago in hours.items():
        item = harness.get_item(sentence_id)
        verdict = "unsure" if sentence_id == "s3" else "error"
        harness.write(decide_item(item, verdict, decided_at=NOW - timedelta(hours=ago)))
    item = harness.get_item("s2")
    harness.write(decide_item(item, "ok", reviewer="bob", decided_at=NOW - timedelta(hours=2)))
    harness.write(decide_item(harness.get_item("s4"), "ok", reviewer="bob", decided_at=NOW, withdrawn=True))
    midnight = NOW - timedelta(hours=12)
    found = read_progress(harness, midnight, reviewer="ann")
    assert (found.decided, found.decided_by_reviewer, found.last_hour) == (4, 3, 2)
    assert (found.open, found.unsure) == (3, 1)
    everybody = read_progress(harness, midnight)
    assert (everybody.decided, everybody.decided_by_reviewer, everybody.last_hour) == (4, None, 2)
    other = read_progress(harness, midnight, dataset="other", reviewer="ann")
    assert (other.decided, other.decided_by_reviewer, other.open, other.unsure) == (0, 0, 1, 0)


def test_a_dataset_whose_name_is_part_of_another_is_not_counted(harness: QueueHarness) -> None:
    for dataset in ("news", "news-2"):
        harness.write(make_scored_output("s0", 0.1, dataset=dataset))
    assert read_progress(harness, NOW, dataset="news-2").open == 1


def test_priorities_of_items_and_of_all_sentences_share_their_bins(harness: QueueHarness) -> None:
    harness.write(*(make_scored_output(f"s{number}", p) for number, p in enumerate((0.02, 0.3, 0.31))))
    bins = harness.queue.build_overview("default").priorities
    assert sum(entry.items for entry in bins) == 3
    for entry in bins:
        priorities = [item.priority or 0 for item in map(harness.get_item, ("s0", "s1", "s2"))]
        assert entry.items == sum(entry.low <= priority < entry.high for priority in priorities)
    sentences = np.random.default_rng(1).beta(0.3, 0.3, 10_000)
    counts = PriorityHistogram.empty().update(sentences).count_by_unit()
    merged = add_sentences(bins, counts)
    assert [entry.sentences for entry in merged] == np.histogram(sentences, EDGES)[0].tolist()
    assert [entry.items for entry in merged] == [entry.items for entry in bins]
    assert len(UNIT_EDGES) == 19
    assert UNIT_EDGES[9] == 0.5
    with pytest.raises(ValueError, match="zip"):
        add_sentences(bins, counts[1:])
