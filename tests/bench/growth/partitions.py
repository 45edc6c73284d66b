"""A worker by its partitions: a batch of the same number of sentences, and reading back the state."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from tests.bench.growth.curves import Curve
from tests.bench.growth.isolation import collect_points
from tests.bench.growth.review_data import LABELS
from tests.bench.growth.worker_stream import BATCH_RECORDS, open_stream

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES: Final = (1, 4, 16, 64)
WORDS: Final = 15
ROUNDS: Final = 7


def measure(sizes: Sequence[int], *, isolated: bool = True) -> list[Curve]:
    points = collect_points(measure_size, sizes, isolated=isolated)
    curves = {
        "partition_batch": f"{BATCH_RECORDS} sentences of all partitions are decoded, judged and learned from",
        "partition_restart": "the state of all partitions is read back",
    }
    return [Curve(name, "partitions", "ms of CPU", what, points[name]) for name, what in curves.items()]


def measure_size(size: int) -> dict[str, float]:
    with open_stream(LABELS, words=WORDS, partitions=size) as stream:
        stream.run(2 * BATCH_RECORDS)
        batches = [stream.process(stream.build_batch(BATCH_RECORDS)) for _ in range(ROUNDS)]
        restored = [stream.restore() for _ in range(ROUNDS)]
    return {
        "partition_batch": 1000 * statistics.median(batches),
        "partition_restart": 1000 * statistics.median(restored),
    }
