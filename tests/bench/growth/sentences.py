"""A worker by the sentences that it has judged: the cost of one, and its memory."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Final

from tests.bench.growth.curves import Curve
from tests.bench.growth.isolation import collect_points
from tests.bench.growth.review_data import LABELS
from tests.bench.growth.worker_stream import open_stream, read_rss_mb

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
WORDS: Final = 6
WARM_UP: Final = 1_024


def measure(sizes: Sequence[int], *, isolated: bool = True) -> list[Curve]:
    points = collect_points(measure_size, sizes, isolated=isolated)
    what = (
        f"sentences of {WORDS} words with probabilities are decoded, judged and learned from, without a log and a model"
    )
    return [
        Curve("sentence_cpu", "sentences", "µs of CPU per sentence", what, points["sentence_cpu"], linear_exponent=0.0),
        Curve(
            "worker_memory",
            "sentences",
            "MB",
            "the memory of the process that judged them; constant is the goal",
            points["worker_memory"],
            linear_exponent=0.0,
        ),
    ]


def measure_size(size: int) -> dict[str, float]:
    with open_stream(LABELS, words=WORDS) as stream:
        stream.run(WARM_UP)
        seconds = stream.run(size)
        gc.collect()
        return {"sentence_cpu": 1e6 * seconds / size, "worker_memory": read_rss_mb()}
