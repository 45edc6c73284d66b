"""A sentence by its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.bench.growth.curves import Curve
from tests.bench.growth.isolation import collect_points
from tests.bench.growth.review_data import LABELS
from tests.bench.growth.worker_stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES: Final = (5, 50, 500, 5_000)
TOTAL_WORDS: Final = 40_000
MIN_SENTENCES: Final = 8


def measure(sizes: Sequence[int], *, isolated: bool = True) -> list[Curve]:
    points = collect_points(measure_size, sizes, isolated=isolated)["words"]
    what = "one sentence with probabilities is decoded, judged and learned from, without a log and a model"
    return [Curve("words", "words per sentence", "ms of CPU per sentence", what, points)]


def measure_size(size: int) -> dict[str, float]:
    sentences = max(MIN_SENTENCES, TOTAL_WORDS // size)
    with open_stream(LABELS, words=size) as stream:
        stream.run(MIN_SENTENCES)
        return {"words": 1000 * stream.run(sentences, batch=max(MIN_SENTENCES, 2_000 // size)) / sentences}
