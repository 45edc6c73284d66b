"""The sentences of a dataset as the log stores them: the newest revision of each, with reviewers' corrections.

The topics are read twice. The first pass notes which record holds the newest revision of each sentence, in about 300
bytes each; the second returns these sentences one by one. So a dataset of any size can be read without holding its text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import ValidationError

from service.contracts import AnnotatedSentence, LabelledSentence, PlatformTask, read_sentence
from service.contracts.validation import to_invalid_input
from service.errors import InvalidInput, StateError
from service.log.dead_letter_index import find_names
from service.log.read import read_topic
from service.log.unreadable_records import UnreadableRecord, select_damaged_messages
from service.log.waiting_records import get_waiting_dataset, read_stored_record
from service.review.decisions import check_correction, resolve_decisions
from service.review.messages import ErasedAssessment, iterate_decisions, parse_review_record
from service.review.review_state import ReviewState, is_deleted_with_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from service.contracts import Decision
    from service.labels import LabelSet, Scheme
    from service.log.protocol import Log, Record, RecordPosition
    from service.log.topics import Topics
    from service.review.decisions import Outcome


class _Newest(NamedTuple):
    """Which record holds the newest revision of a sentence."""

    topic: str
    revision: int
    position: RecordPosition
    deleted: bool
    first: tuple[int, RecordPosition]  # the rank of the topic and the position at which the sentence first arrived

    @property
    def order(self) -> tuple[int, RecordPosition]:
        """The highest revision counts, and of equal ones the last record."""
        return self.revision, self.position


class StoredSentences:
    """The newest revision of each sentence of a dataset, without deleted ones, from all topics that hold sentences.

    The other topics may hold sentences that the input topic has dropped. Of a revision that several hold, the input
    topic has the last message.
    """

    def __init__(self, log: Log, topics: Topics, dataset: str) -> None:
        self._log = log
        self._dataset = dataset
        self._waiting = topics.waiting
        self._review = topics.review
        self._input = topics.sentences
        self._state = topics.state
        self._dead_letters = topics.dead_letters
        self._topics = (topics.sentences, topics.waiting, topics.review)
        self._datasets: set[str] = set()  # of all sentences that were read
        self._unreadable: dict[str, tuple[str, UnreadableRecord]] = {}  # with the dataset that the key names

    def __iter__(self) -> Iterator[LabelledSentence]:
        """In the order of the topics. Of a sentence that changes meanwhile, either revision may be returned."""
        return (sentence for _, sentence in self._iterate_newest())

    def list_in_order(self) -> list[LabelledSentence]:
        """In the order in which the sentences first arrived, so that the same log gives the same list."""
        return [sentence for _, sentence in sorted(self._iterate_newest(), key=lambda pair: pair[0].first)]

    def list_unreadable(self) -> list[UnreadableRecord]:
        """Records that were met and may hold sentences of the dataset.

        Messages of the input that are dead letters, or will be when a worker reads them, are none.
        """
        unreadable = [
            record
            for dataset, record in self._unreadable.values()
            # The key of an input message may be anything: it counts only if it names a dataset that there is.
            if dataset == self._dataset or (record.topic == self._input and dataset not in self._datasets)
        ]
        messages = [record for record in unreadable if record.topic == self._input]
        if not messages:
            return unreadable
        dead_letters, state = (read_topic(self._log, topic) for topic in (self._dead_letters, self._state))
        damaged = select_damaged_messages(messages, dead_letters=dead_letters, state=state)
        return [*damaged, *(record for record in unreadable if record.topic != self._input)]

    def _iterate_newest(self) -> Iterator[tuple[_Newest, LabelledSentence]]:
        index = self._build_index()
        deleted_at = {sentence_id: entry.revision for sentence_id, entry in index.items() if entry.deleted}
        for topic in self._topics:
            for record, sentence_id, sentence in self._read_sentences(topic):
                entry = index.get(sentence_id)
                # At or after the noted record: compaction may have replaced it by a newer one since the first pass.
                if sentence is None or entry is None or entry.topic != topic:
                    continue
                if (sentence.revision, record.position) < entry.order:
                    continue
                del index[sentence_id]
                task = PlatformTask.from_sentence(sentence)
                task_deleted_at = None if task is None else deleted_at.get(task.deletion_id)
                if not sentence.deleted and not is_deleted_with_task(sentence.revision, task_deleted_at):
                    yield entry, sentence

    def _build_index(self) -> dict[str, _Newest]:
        index: dict[str, _Newest] = {}
        for rank, topic in enumerate(self._topics):
            for sentence_id, entry in self._index_topic(topic, rank).items():
                held = index.get(sentence_id)
                if held is None:
                    index[sentence_id] = entry
                elif entry.revision > held.revision:
                    index[sentence_id] = entry._replace(first=held.first)
        return index

    def _index_topic(self, topic: str, rank: int) -> dict[str, _Newest]:
        index: dict[str, _Newest] = {}
        for record, sentence_id, sentence in self._read_sentences(topic):
            if sentence is None:
                index.pop(sentence_id, None)
                continue
            entry = _Newest(topic, sentence.revision, record.position, sentence.deleted, (rank, record.position))
            held = index.get(sentence_id)
            if held is not None:
                # The log may return the records of several partitions in any order.
                newest, first = max(held, entry, key=lambda each: each.order), min(held.first, entry.first)
                entry = newest._replace(first=first)
            index[sentence_id] = entry
        return index

    def _read_sentences(self, topic: str) -> Iterator[tuple[Record, str, LabelledSentence | None]]:
        """The records of the dataset with the sentence's id and the sentence; None for one that was erased."""
        for record in read_topic(self._log, topic):
            try:
                if topic == self._review:
                    sentence = _read_review_sentence(record)
                elif topic == self._waiting:
                    sentence = _read_waiting_sentence(record)
                else:
                    sentence = read_stored_sentence(record)
            except (InvalidInput, StateError, ValidationError) as error:
                self._note_unreadable(record, error)
                continue
            if sentence is not None:
                self._datasets.add(sentence.dataset)
            if sentence is not None and sentence.dataset == self._dataset:
                yield record, str(sentence.id), None if isinstance(sentence, ErasedAssessment) else sentence

    def _note_unreadable(self, record: Record, error: InvalidInput | StateError | ValidationError) -> None:
        dataset = get_waiting_dataset(record)  # review and waiting records have the dataset in the key, too
        if record.topic == self._input:
            dataset = find_names(record.value)[0] or dataset
        problem = str(to_invalid_input(error) if isinstance(error, ValidationError) else error)
        unreadable = UnreadableRecord(record.topic, record.position, problem)
        self._unreadable[unreadable.name] = dataset, unreadable


def read_stored_sentence(record: Record) -> LabelledSentence:
    """The sentence of a record in the input topic; raises InvalidInput for a dead letter."""
    sentence = read_sentence(record.value or b"")
    if sentence.id is None:
        return sentence.model_copy(update={"id": f"{record.topic}-{record.partition}-{record.offset}"})
    return sentence


def _read_waiting_sentence(record: Record) -> LabelledSentence | None:
    """None for a record that is released: the input or the review topic has the sentence."""
    return None if record.value is None else read_stored_sentence(read_stored_record(record).record)


def _read_review_sentence(record: Record) -> LabelledSentence | ErasedAssessment | None:
    assessment = parse_review_record(record)
    if assessment is None or isinstance(assessment, ErasedAssessment):
        return assessment
    fields = {name: getattr(assessment, name) for name in AnnotatedSentence.model_fields}
    return LabelledSentence.model_validate(fields)


# -- corrections -------------------------------------------------------------------------------------------------------


class CorrectedSentence(NamedTuple):
    """A sentence after the decisions about it, and what they amount to.

    invalid: the correction can't be used, and `problem` says why. REST refuses such decisions, but any producer may write
    to the decisions topic.
    """

    sentence: LabelledSentence
    outcome: Outcome | Literal["invalid"]
    problem: InvalidInput | None = None


def read_decisions(log: Log, topics: Topics, dataset: str, *, overlap: int) -> ReviewState[LabelledSentence]:
    """The decisions about sentences of the dataset, of which each needs `overlap` independent ones."""
    review: ReviewState[LabelledSentence] = ReviewState({dataset: overlap})
    for decision in iterate_decisions(read_topic(log, topics.decisions)):
        if decision.dataset == dataset:
            review.apply_decision(decision)
    return review


def correct_sentence(
    sentence: LabelledSentence, decisions: Sequence[Decision], *, scheme: Scheme, label_set: LabelSet | None
) -> CorrectedSentence:
    """The sentence with the labels that the decisions agree on; as it is where they give none.

    `decisions`: those that count (see `settlement`).
    """
    outcome, labels = resolve_decisions(decisions, len(sentence.tokens))
    if labels is None:
        return CorrectedSentence(sentence, outcome)
    try:
        check_correction(sentence, labels, scheme=scheme, label_set=label_set)
    except InvalidInput as error:
        return CorrectedSentence(sentence, "invalid", error)
    return CorrectedSentence(sentence.model_copy(update={"labels": labels}), outcome)
