"""Which sentences of a batch are judged and which wait, and the counts of what arrives."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from service.datasets.waiting import LabelFit, may_wait
from service.labels import OUTSIDE
from service.log.codec import to_arrivals_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from service.contracts import LabelledSentence
    from service.judging.judge import Judge
    from service.log.protocol import StoredRecord
    from service.statistics.arrivals import ArrivalCounts, FlagCounts
    from service.stream.state.snapshot import StateDraft, StatsKey

logger = logging.getLogger(__name__)


class Intake:
    """Decides record by record, in their order, and counts in the draft of the batch.

    A sentence waits if its dataset does not fit the model. It also waits behind stored sentences of its partition, so that
    a dataset is judged in the order of offsets.
    """

    def __init__(self, draft: StateDraft) -> None:
        self._draft = draft
        self._fits: dict[str, LabelFit] = {}
        self._changed: set[tuple[int, str]] = set()

    def admit(self, partition: int, sentence: LabelledSentence, judge: Judge) -> bool:
        """Counts a new sentence. Returns whether it is judged now; if not, the caller must store it.

        `judge` is that of the dataset's model. A sentence with probabilities of its own needs no model and never waits.
        """
        if sentence.probabilities is not None and not sentence.deleted:
            return True
        counts = self._draft.get_partition_arrivals(partition, sentence.dataset)
        labels = set() if sentence.deleted else {label for label in sentence.labels if label != OUTSIDE}
        fits = self._count_fit(judge, labels)
        if not labels and fits and not counts.waiting:
            return True
        waits = not fits or counts.waiting > 0
        counts = counts.count_labels(labels)
        self._put(partition, sentence.dataset, counts.store() if waits else counts)
        return not waits

    def _count_fit(self, judge: Judge, labels: Iterable[str]) -> bool:
        """Whether the dataset fits with these labels, from all partitions."""
        if not may_wait(judge.settings):
            return True
        fit = self._fits.get(judge.settings.name)
        if fit is None:
            counts = self._draft.get_arrivals(judge.settings.name)
            fit = self._fits[judge.settings.name] = LabelFit.from_counts(judge, counts)
        for label in labels:
            fit.add(judge, label)
        return fit.is_sufficient

    def release(self, stored: StoredRecord) -> None:
        """Counts a stored record that is judged now."""
        partition = stored.record.partition
        counts = self._draft.get_partition_arrivals(partition, stored.dataset)
        self._put(partition, stored.dataset, counts.release(stored.record.offset))

    def forget(self, partition: int, dataset: str) -> None:
        """Ends the wait for stored records that the waiting topic does not hold."""
        counts = self._draft.get_partition_arrivals(partition, dataset)
        logger.error(
            "partition %d: %d stored sentences of dataset %s are not in the waiting topic any more and can't be judged: "
            "its cleanup.policy must be compact. If the input still holds them, send them again",
            partition,
            counts.waiting,
            dataset,
        )
        self._put(partition, dataset, counts.forget_waiting())

    def count_flags(self, partition: int, key: StatsKey, counts: FlagCounts) -> None:
        """Counts sentences that were judged by the dataset's model, and those of them that it flags."""
        arrivals = self._draft.get_partition_arrivals(partition, key.dataset)
        self._put(partition, key.dataset, arrivals.count_flags(key.stats_key, counts))

    def _put(self, partition: int, dataset: str, counts: ArrivalCounts) -> None:
        self._draft.put_arrivals(partition, dataset, counts)
        self._changed.add((partition, dataset))

    def iter_state(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Partition, key and value of each state record that has changed."""
        for partition, dataset in sorted(self._changed):
            counts = self._draft.get_partition_arrivals(partition, dataset)
            yield partition, to_arrivals_key(partition, dataset), counts.to_json()
