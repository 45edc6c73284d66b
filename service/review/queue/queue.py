"""The review queue as readers see it: pages, items and counts from the tables that the projector writes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from service.contracts import Assessment, Message, PlatformTask
from service.errors import InvalidInput
from service.review.decisions import compute_agreement
from service.review.items import (
    TASK_DELETION_STATE,
    ReviewItem,
    build_shown,
    select_visible_decisions,
    to_review_flags,
    to_review_suspects,
    to_review_words,
)
from service.review.likelihood import read_bands
from service.review.projection.control_sample import is_blind
from service.review.projection.decisions.blind_answers import ItemStatus, find_blind_answer
from service.review.projection.decisions.decision_tables import (
    count_reviewers,
    has_decision,
    list_reviewers,
    read_claim_end,
    read_decision_in_force,
    read_decisions_in_force,
)
from service.review.projection.facets import encode_task_facet
from service.review.projection.queue_file import QueueFile
from service.review.projection.tables import read_overlap, read_ranker_settings
from service.review.queue.figures.batches import BatchOutcomes, read_batch_outcomes
from service.review.queue.figures.breakdowns import AnnotatorCounts, count_annotators
from service.review.queue.figures.facet_counts import FacetCounts, count_facets
from service.review.queue.figures.overview import (
    build_overview,
    compute_pair_precision,
    count_items,
    count_items_by_dataset,
    count_verdicts_by_dataset,
    list_threshold_points,
)
from service.review.queue.figures.progress import Progress, read_progress
from service.review.queue.figures.recall import RecallEstimate, estimate_recall
from service.review.queue.figures.reviewer_agreement import build_agreement_report
from service.review.queue.filters import (
    ACTIVE_CLAIM,
    MAX_PAGE_SIZE,
    QueueFilter,
    QueuePosition,
    count_matching,
    select_page,
)
from service.review.queue.similar import MAX_SIMILAR_ITEMS, find_similar
from service.review.queue.versioned_cache import VersionedCache
from service.review.review_state import CLOSING_REASONS
from service.review.settlement import select_independent

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from service.review.agreement import AgreementFigures
    from service.review.items import ItemState
    from service.review.likelihood import LikelihoodBands
    from service.review.messages import DecisionKey
    from service.review.queue.figures.overview import Overview, PairPrecision, ThresholdPoint
    from service.review.queue.figures.reviewer_agreement import AgreementReport
    from service.review.queue.similar import SimilarItems
    from service.review.review_state import SentenceKey

__all__ = ["QueueFilter", "QueuePage", "ReviewQueue"]


class QueuePage(Message):
    """Items, worst first, and the cursor of the next page (None: this is the last)."""

    items: tuple[ReviewItem, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class ActiveClaim:
    """The reviewer who has the item open at the reader's time: of several, the first in the topic."""

    reviewer: str | None = None
    until: datetime | None = None


class ReviewQueue:
    """Queries of the queue's file. Any thread may call them. The projector writes to the same `file`."""

    def __init__(self, path: Path | str) -> None:
        self.file = QueueFile(path)
        self._cache = VersionedCache(self.file, lambda: self.file.version)
        self._decisions_cache = VersionedCache(self.file, lambda: self.file.decisions_version)

    @property
    def version(self) -> int:
        """A number that grows with every change of the queue."""
        return self.file.version

    def close(self) -> None:
        self.file.close()

    # -- items -----------------------------------------------------------------------------------------------------

    def get_page(
        self,
        filter: QueueFilter,  # noqa: A002 - the word for it
        *,
        limit: int,
        after: str | None = None,
        now: datetime | None = None,
    ) -> QueuePage:
        if not 1 <= limit <= MAX_PAGE_SIZE:
            raise InvalidInput(f"{limit} is not between 1 and {MAX_PAGE_SIZE}", field="limit")
        moment = now or datetime.now(UTC)
        with self.file.read_transaction() as db:
            numbers = select_page(db, filter, limit=limit, after=after, now=moment.timestamp())
            items = [self._read_item(db, number, moment, filter.viewer) for number in numbers[:limit]]
            next_cursor = _read_position(db, numbers[limit - 1]).to_cursor() if len(numbers) > limit else None
        return QueuePage(items=tuple(items), next=next_cursor)

    def count_matching(self, filter: QueueFilter, *, now: datetime | None = None) -> int:  # noqa: A002 - as above
        """The number of items on all pages of the filter."""
        with self.file.read_transaction() as db:
            return count_matching(db, filter, now=(now or datetime.now(UTC)).timestamp())

    def get_item(
        self, dataset: str, sentence_id: str, *, viewer: str | None = None, now: datetime | None = None
    ) -> ReviewItem | None:
        """`viewer`: the reviewer who looks at it."""
        with self.file.read_transaction() as db:
            query = "SELECT no FROM items WHERE dataset = ? AND id = ? AND state <> ?"
            row = db.execute(query, (dataset, sentence_id, TASK_DELETION_STATE)).fetchone()
            return None if row is None else self._read_item(db, row[0], now or datetime.now(UTC), viewer)

    def _read_item(self, db: sqlite3.Connection, number: int, now: datetime, viewer: str | None) -> ReviewItem:
        item = _read_item(db, number, now, viewer)
        bands = self._get_bands(item.dataset)
        return item.model_copy(update={"likelihood": bands.classify(item.rank)})

    def _get_bands(self, dataset: str) -> LikelihoodBands:
        return self._decisions_cache.compute(("bands", dataset), lambda db: read_bands(db, dataset))

    def find_similar(self, dataset: str, sentence_id: str, *, limit: int) -> SimilarItems | None:
        """Other open items of the dataset with the same words or the same label pair; None where there is no such item."""
        if not 1 <= limit <= MAX_SIMILAR_ITEMS:
            raise InvalidInput(f"{limit} is not between 1 and {MAX_SIMILAR_ITEMS}", field="limit")
        with self.file.read_transaction() as db:
            return find_similar(db, dataset, sentence_id, limit=limit)

    def find_task_item_ids(self, dataset: str, platform: str, task: str) -> list[str]:
        """The ids of the items of a platform's task that are not closed."""
        query = (
            "SELECT i.id FROM facet_names AS n JOIN facets AS f ON f.facet = n.no JOIN items AS i ON i.no = f.item"
            " WHERE n.name = ? AND i.dataset = ? AND i.state IN ('open', 'adjudication', 'decided') ORDER BY i.id"
        )
        with self.file.read_transaction() as db:
            return [
                sentence_id
                for (sentence_id,) in db.execute(query, (encode_task_facet(PlatformTask(platform, task)), dataset))
            ]

    def list_free_keys(
        self, queue_filter: QueueFilter, *, after: SentenceKey | None, limit: int, now: datetime | None = None
    ) -> list[SentenceKey]:
        """The items that the filter's `reviewer` can work on, worst first: after the item `after`, or all if none is."""
        moment = (now or datetime.now(UTC)).timestamp()
        with self.file.read_transaction() as db:
            position = None if after is None else _find_position(db, *after)
            numbers: list[int] = []
            if position is not None:
                numbers = select_page(db, queue_filter, limit=limit, after=position.to_cursor(), now=moment)
            if not numbers:
                numbers = select_page(db, queue_filter, limit=limit, now=moment)
            positions = (_read_position(db, number) for number in numbers)
            return [(position.dataset, position.id) for position in positions]

    def find_holder(
        self, key: SentenceKey, reviewer: str, *, now: datetime | None = None
    ) -> tuple[float | None, ActiveClaim]:
        """When the last claim of the reviewer ends, ended or not, and the claim that is active now."""
        with self.file.read_transaction() as db:
            return read_claim_end(db, key, reviewer), _read_active_claim(db, key, now or datetime.now(UTC))

    def has_decision(self, key: DecisionKey) -> bool:
        """Whether the reviewer has decided, about any revision; also if the decision is withdrawn."""
        with self.file.read_transaction() as db:
            return has_decision(db, key)

    def list_reviewers(self, key: SentenceKey, revision: int) -> list[str]:
        """The reviewers with a decision about a revision in force, at most as many as can decide."""
        with self.file.read_transaction() as db:
            return list_reviewers(db, key, revision)

    def get_revisions(self, dataset: str, ids: Iterable[str]) -> dict[str, int]:
        """The revision of each of these sentences that the queue holds."""
        query = "SELECT revision FROM items WHERE dataset = ? AND id = ?"
        with self.file.read_transaction() as db:
            rows = {sentence_id: db.execute(query, (dataset, sentence_id)).fetchone() for sentence_id in ids}
        return {sentence_id: int(row[0]) for sentence_id, row in rows.items() if row is not None}

    # -- counts ----------------------------------------------------------------------------------------------------

    def count_items(self, datasets: Collection[str] | None = None) -> dict[str, int]:
        with self.file.read_transaction() as db:
            return count_items(db, datasets)

    def count_items_by_dataset(self) -> Mapping[str, Mapping[str, int]]:
        return self._cache.compute(("counts",), count_items_by_dataset)

    def count_verdicts_by_dataset(self) -> Mapping[str, Mapping[str, int]]:
        return self._decisions_cache.compute(("verdicts",), count_verdicts_by_dataset)

    def build_overview(self, dataset: str | None = None) -> Overview:
        bands = None if dataset is None else self._get_bands(dataset)
        with self.file.read_transaction() as db:
            return build_overview(db, dataset, bands=bands)

    def count_facets(self, dataset: str | None, state: ItemState | Literal["all"]) -> FacetCounts:
        with self.file.read_transaction() as db:
            return count_facets(db, dataset, state)

    def count_annotators(self, dataset: str, first: Sequence[str] = ()) -> Mapping[str, AnnotatorCounts]:
        """By name, of a limited number; the names in `first` are among them."""
        return self._cache.compute(("annotators", dataset, *first), lambda db: count_annotators(db, dataset, first))

    def read_progress(
        self, *, dataset: str | None, reviewer: str | None, since: datetime, now: datetime | None = None
    ) -> Progress:
        with self.file.read_transaction() as db:
            return read_progress(db, dataset=dataset, reviewer=reviewer, since=since, now=now or datetime.now(UTC))

    def list_threshold_points(self, dataset: str) -> tuple[ThresholdPoint, ...]:
        """How the dataset's thresholds have moved: one point per day with a sentence in review, oldest first."""
        return self._cache.compute(("thresholds", dataset), lambda db: list_threshold_points(db, dataset))

    def compute_pair_precision(self, dataset: str | None = None) -> Sequence[PairPrecision]:
        return self._decisions_cache.compute(("precision", dataset), lambda db: compute_pair_precision(db, dataset))

    def estimate_recall(self, dataset: str) -> RecallEstimate:
        return self._cache.compute(("recall", dataset), lambda db: estimate_recall(db, dataset))

    def read_batch_outcomes(self, dataset: str, batch: str) -> BatchOutcomes:
        """What reviewers found in a batch."""
        return self._cache.compute(("batch", dataset, batch), lambda db: read_batch_outcomes(db, dataset, batch))

    def build_agreement_report(self, dataset: str) -> AgreementReport:
        return self._decisions_cache.compute(("agreement", dataset), lambda db: build_agreement_report(db, dataset))

    def measure_agreement(self, dataset: str) -> AgreementFigures:
        """The agreement of all reviewers, without intervals."""
        return self._decisions_cache.compute(
            ("agreement figures", dataset), lambda db: build_agreement_report(db, dataset, draws=0).overall
        )


def _find_position(db: sqlite3.Connection, dataset: str, sentence_id: str) -> QueuePosition | None:
    query = "SELECT rank, tie, dataset, id FROM items WHERE dataset = ? AND id = ?"
    row = db.execute(query, (dataset, sentence_id)).fetchone()
    return None if row is None else QueuePosition(*row)


def _read_position(db: sqlite3.Connection, number: int) -> QueuePosition:
    return QueuePosition(*db.execute("SELECT rank, tie, dataset, id FROM items WHERE no = ?", (number,)).fetchone())


def _read_item(db: sqlite3.Connection, number: int, now: datetime, viewer: str | None) -> ReviewItem:
    dataset, sentence_id, revision, reason, state, complete, rank, priority, score, inclusion, value = db.execute(
        "SELECT i.dataset, i.id, i.revision, i.reason, i.state, i.complete, i.rank, i.shown_priority, i.shown_score,"
        " i.inclusion, b.value FROM items AS i JOIN bodies AS b ON b.item = i.no WHERE i.no = ?",
        (number,),
    ).fetchone()
    key = (dataset, sentence_id)
    assessment = Assessment.model_validate_json(value)
    decisions = read_decisions_in_force(db, key, revision)
    if viewer is not None and viewer not in {decision.reviewer for decision in decisions}:
        own = read_decision_in_force(db, key, revision, viewer)  # one of many that are not read
        decisions += [] if own is None else [own]
    claim = _read_active_claim(db, key, now)
    _, epoch, share = read_ranker_settings(db, dataset)
    probability = (inclusion or share or None) if reason == "control" else 1.0
    is_decided = state == "decided"
    blind = not is_decided and is_blind(db, dataset, share)
    is_disguised = not is_decided and reason == "control"
    overlap = read_overlap(db, dataset)
    blind_answer = None
    if viewer is not None:
        shows_others = bool(complete) and any(each.reviewer != viewer for each in decisions)
        blind_answer = find_blind_answer(db, ItemStatus(key, revision, overlap, shows_others), viewer)
    return ReviewItem(
        dataset=dataset,
        id=sentence_id,
        revision=revision,
        state=state,
        closed_by=None if state != "closed" else reason if reason in CLOSING_REASONS else "deleted",
        blind=blind,
        rank=rank,
        priority=priority if is_disguised else assessment.priority,
        score=score if is_disguised else assessment.score,
        tokens=assessment.tokens,
        labels=assessment.labels,
        document=assessment.document,
        batch=assessment.batch,
        annotator=assessment.annotator,
        source=assessment.source,
        annotated_at=assessment.annotated_at,
        scored_at=assessment.scored_at,
        doubtful=to_review_flags(assessment, blind=blind),
        suspects=to_review_suspects(assessment, blind=blind),
        because=() if blind else assessment.because,
        words=to_review_words(assessment, blind=blind),
        thresholds=assessment.thresholds,
        warming_up=assessment.warming_up,
        model=assessment.model,
        method=assessment.method,
        token_score=assessment.token_score,
        claimed_by=claim.reviewer,
        claimed_until=claim.until,
        overlap=overlap,
        decision_count=count_reviewers(db, key, revision),
        decisions=select_visible_decisions(decisions, viewer, complete=bool(complete)),
        agreement=compute_agreement(select_independent(decisions)) if complete else None,
        reason=reason if is_decided else None,
        inclusion_probability=probability if is_decided else None,
    ).with_record(build_shown(assessment, ranker_epoch=epoch), blind_answer)


def _read_active_claim(db: sqlite3.Connection, key: SentenceKey, now: datetime) -> ActiveClaim:
    row = db.execute(
        "SELECT claims.reviewer, claims.until FROM claims LEFT JOIN items ON items.dataset = claims.dataset"  # noqa: S608 - a constant
        f" AND items.id = claims.id WHERE claims.dataset = ? AND claims.id = ? AND {ACTIVE_CLAIM}"
        " ORDER BY claims.partition, claims.offset LIMIT 1",
        (*key, now.timestamp()),
    ).fetchone()
    return ActiveClaim() if row is None else ActiveClaim(row[0], datetime.fromtimestamp(row[1], UTC))
