"""Checks the sums of annotators in the state topic after a chaos run: they must be those of one pass."""

from __future__ import annotations

from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING

from service.contracts.defaults import MAX_ANNOTATORS
from service.judging.agreement import learn_annotators
from service.judging.types import StatsUpdate
from service.stream.state.annotators import AnnotatorDraft, AnnotatorRecord
from service.stream.state.reader import read_state_record
from service.stream.state.snapshot import StatsKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from service.judging.judge import Judge
    from service.judging.types import Observation
    from tests.chaos.reading import TopicDump

ARRIVED_AT = datetime(1970, 1, 1, tzinfo=UTC)  # after each `annotated_at`, so the moment itself plays no part


def check_annotators(
    state: TopicDump, observations: Mapping[tuple[int, int], Observation | None], get_judge: Callable[[str], Judge]
) -> Iterator[str]:
    actual, expected = AnnotatorDraft({}), AnnotatorDraft({})
    for (_, key), value in state.compact().items():
        record = read_state_record("the state topic", key, value) if (key or b"").startswith(b'["annotator"') else None
        if isinstance(record, AnnotatorRecord):
            actual.apply(record)
    for (partition, _), observation in sorted(observations.items(), key=itemgetter(0)):
        if observation is not None:
            judge = get_judge(observation.sentence.dataset)
            stats_key = StatsKey.from_judge(judge)
            before = expected.get(partition, stats_key)
            update = StatsUpdate(observation, None, ARRIVED_AT)
            sums = learn_annotators(judge.span_comparer, [update], before, max_annotators=MAX_ANNOTATORS)
            expected.put(partition, stats_key, sums)
    if actual.to_mapping() != expected.to_mapping():
        yield "the sums of annotators are not those of one pass"
