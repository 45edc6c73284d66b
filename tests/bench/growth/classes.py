"""A sentence by the classes of its dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.bench.growth.curves import Curve
from tests.bench.growth.isolation import collect_points
from tests.bench.growth.worker_stream import build_labels, open_stream

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES: Final = (3, 9, 33, 99, 201)
WORDS: Final = 15
SENTENCES: Final = 1_024


def measure(sizes: Sequence[int], *, isolated: bool = True) -> list[Curve]:
    points = collect_points(measure_size, sizes, isolated=isolated)["classes"]
    what = (
        f"one sentence of {WORDS} words with a probability of each class is decoded, judged and learned from, in batches of 128,"
        " without a log and a model"
    )
    return [Curve("classes", "classes", "ms of CPU per sentence", what, points)]


def measure_size(size: int) -> dict[str, float]:
    with open_stream(build_labels(size), words=WORDS) as stream:
        stream.run(128, batch=128)
        return {"classes": 1000 * stream.run(SENTENCES, batch=128) / SENTENCES}
