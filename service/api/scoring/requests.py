"""Limits of a scoring request with one list of sentences, and its end when the client disconnects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.api.http.connections.disconnect import cancel_on_disconnect
from service.contracts.probabilities import CLASSES_FIELD
from service.contracts.validation import join_path
from service.errors import InvalidInput
from service.judging.class_source import get_external_classes

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from starlette.types import Receive

    from service.api.batching.batcher import MicroBatcher
    from service.api.scoring.scorer import ScoringResult
    from service.contracts import LabelledSentence

MAX_DATASETS_PER_REQUEST: Final = 20  # the response holds settings and thresholds of each
MIN_WATCHED_SENTENCES: Final = 64  # in the queue, with the request's own: fewer are answered before a watch pays


async def watch_client(
    receive: Receive, batcher: MicroBatcher, n_sentences: int, work: Coroutine[Any, Any, ScoringResult]
) -> ScoringResult:
    """Awaits the scores of so many sentences; behind a long queue that ends when the client disconnects."""
    if batcher.waiting + n_sentences > MIN_WATCHED_SENTENCES:
        work = cancel_on_disconnect(receive, work)
    return await work


def check_datasets(sentences: Sequence[LabelledSentence], locations: Sequence[str | None]) -> None:
    """Raises `InvalidInput` if there are too many. `locations`: the path of each sentence in the body, if it is a list."""
    datasets: set[str] = set()
    class_lists: set[tuple[str, tuple[str, ...] | None]] = set()
    for sentence, location in zip(sentences, locations, strict=True):
        datasets.add(sentence.dataset)
        if len(datasets) > MAX_DATASETS_PER_REQUEST:
            raise InvalidInput(
                f"{sentence.dataset!r} is dataset number {len(datasets)} of the request, the limit is "
                f"{MAX_DATASETS_PER_REQUEST}: send several requests",
                field=join_path((location, "dataset")),
            )
        class_lists.add((sentence.dataset, get_external_classes(sentence)))
        if len(class_lists) > MAX_DATASETS_PER_REQUEST:
            raise InvalidInput(
                f"it is number {len(class_lists)} of the class lists and datasets of the request, the limit is "
                f"{MAX_DATASETS_PER_REQUEST}: send the same classes in the same order with every sentence",
                field=join_path((location, CLASSES_FIELD)),
            )
