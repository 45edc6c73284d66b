"""Other open items of a dataset that resemble an item: the same words elsewhere, and the same given and suggested types.

Annotators repeat their errors. A reviewer who has just decided about `Real Madrid` wants to see where else it stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import Field

from service.contracts import Assessment, Message
from service.labels import get_entity_type
from service.review.items import TASK_DELETION_STATE, select_flags, select_suspects
from service.review.queue.filters import QueueFilter, select_page
from service.review.queue.word_search import has_searchable_char

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from service.contracts import EntitySpan, Flag

MAX_SIMILAR_ITEMS: Final = 50
MAX_PHRASES: Final = 8
MAX_PHRASE_WORDS: Final = 12
# The index ignores punctuation and accents, so some candidates don't have the same words and are passed over.
MAX_CANDIDATES: Final = 200
CONTEXT_WORDS: Final = 6

Phrase = tuple[str, ...]


class SimilarItem(Message):
    """An item, cut to the words that it was found for."""

    id: str
    revision: int
    rank: float
    start: int = Field(description="Index of the first of the words")
    end: int = Field(description="Index after the last of the words")
    before: tuple[str, ...] = Field(default=(), description=f"Up to {CONTEXT_WORDS} words before them")
    words: tuple[str, ...]
    after: tuple[str, ...] = Field(default=(), description=f"Up to {CONTEXT_WORDS} words after them")
    labels: tuple[str, ...] = Field(description="Their given labels")
    suggested: tuple[str | None, ...] = Field(description="The label suggested for each of them; null: not in doubt")


class SameWords(Message):
    phrases: tuple[Phrase, ...] = Field(
        default=(), description="The doubtful words of the item: entities in doubt, and flagged words outside of them"
    )
    items: tuple[SimilarItem, ...] = Field(default=(), description="Items that have one of the phrases, worst first")
    more: bool = Field(default=False, description="Whether there are more items")


class SamePair(Message):
    given: str | None = Field(default=None, description="Type of the given label of the worst word")
    suggested: str | None = Field(default=None, description="Type of the label suggested for it")
    items: tuple[SimilarItem, ...] = Field(
        default=(),
        description="Items in which a word has this pair, worst first; without those that have the same words",
    )
    more: bool = Field(default=False, description="Whether there are more items")


class SimilarItems(Message):
    """Other open items of the dataset that resemble an item. Upper and lower case don't matter."""

    dataset: str
    id: str
    same_words: SameWords
    same_pair: SamePair


def find_similar(db: sqlite3.Connection, dataset: str, sentence_id: str, *, limit: int) -> SimilarItems | None:
    row = db.execute(
        "SELECT b.value FROM items AS i JOIN bodies AS b ON b.item = i.no WHERE i.dataset = ? AND i.id = ? AND i.state <> ?",
        (dataset, sentence_id, TASK_DELETION_STATE),
    ).fetchone()
    if row is None:
        return None
    assessment = Assessment.model_validate_json(row[0])
    same_words = _find_same_words(db, assessment, limit)
    known_ids = {str(assessment.id), *(item.id for item in same_words.items)}
    return SimilarItems(
        dataset=dataset,
        id=sentence_id,
        same_words=same_words,
        same_pair=_find_same_pair(db, assessment, known_ids, limit),
    )


# -- the same words ----------------------------------------------------------------------------------------------------


def list_doubtful_phrases(assessment: Assessment) -> tuple[Phrase, ...]:
    """The words of the entities in doubt, and of flagged words outside of them; without duplicates."""
    spans = [
        (span.start, span.end)
        for suspect in select_suspects(assessment)
        if (span := suspect.suggested_span or suspect.given_span) is not None
    ]
    covered = {index for start, end in spans for index in range(start, end)}
    spans += [(flag.index, flag.index + 1) for flag in select_flags(assessment) if flag.index not in covered]
    phrases: dict[Phrase, Phrase] = {}
    for start, end in spans:
        phrase = assessment.tokens[start : min(end, start + MAX_PHRASE_WORDS)]
        if any(map(has_searchable_char, phrase)):
            phrases.setdefault(_fold_case(phrase), phrase)
    return tuple(phrases.values())[:MAX_PHRASES]


def _find_same_words(db: sqlite3.Connection, assessment: Assessment, limit: int) -> SameWords:
    phrases = list_doubtful_phrases(assessment)
    if not phrases:
        return SameWords()
    queue_filter = QueueFilter(dataset=assessment.dataset, phrases=phrases)
    found: list[SimilarItem] = []
    for rank, other in _read_candidates(db, queue_filter, MAX_CANDIDATES):
        span = None if other.id == assessment.id else _locate_phrase(other, phrases)
        if span is not None:
            found.append(_cut_item(rank, other, *span))
        if len(found) > limit:
            break
    return SameWords(phrases=phrases, items=tuple(found[:limit]), more=len(found) > limit)


def _locate_phrase(assessment: Assessment, phrases: Sequence[Phrase]) -> tuple[int, int] | None:
    """The place of one of the phrases: one with a doubtful word where there is one, else the first."""
    words = _fold_case(assessment.tokens)
    places = [
        (start, start + len(phrase))
        for phrase in map(_fold_case, phrases)
        for start in range(len(words) - len(phrase) + 1)
        if words[start : start + len(phrase)] == phrase
    ]
    doubtful = {flag.index for flag in select_flags(assessment)}
    return min(places, key=lambda place: (doubtful.isdisjoint(range(*place)), place), default=None)


def _fold_case(words: Iterable[str]) -> Phrase:
    return tuple(word.casefold() for word in words)


# -- the same pair -----------------------------------------------------------------------------------------------------


def _find_same_pair(db: sqlite3.Connection, assessment: Assessment, known_ids: Collection[str], limit: int) -> SamePair:
    flags = select_flags(assessment)
    if not flags:
        return SamePair()
    worst = min(flags, key=lambda flag: flag.p_given)
    given, suggested = _get_type_pair(worst)
    queue_filter = QueueFilter(dataset=assessment.dataset, given=given, suggested=suggested)
    found: list[SimilarItem] = []
    for rank, other in _read_candidates(db, queue_filter, limit + len(known_ids)):
        flag = next((flag for flag in select_flags(other) if _get_type_pair(flag) == (given, suggested)), None)
        if flag is not None and other.id not in known_ids:
            found.append(_cut_item(rank, other, *_find_extent(other, flag)))
    return SamePair(given=given, suggested=suggested, items=tuple(found[:limit]), more=len(found) > limit)


def _get_type_pair(flag: Flag) -> tuple[str, str]:
    return get_entity_type(flag.given), get_entity_type(flag.suggested)


def _find_extent(assessment: Assessment, flag: Flag) -> tuple[int, int]:
    """The entity in doubt that has the flagged word, if it is short; else the word alone."""
    spans: Iterator[EntitySpan] = (
        span
        for suspect in select_suspects(assessment)
        for span in (suspect.suggested_span, suspect.given_span)
        if span is not None and span.start <= flag.index < span.end <= span.start + MAX_PHRASE_WORDS
    )
    return next(((span.start, span.end) for span in spans), (flag.index, flag.index + 1))


# -- items -------------------------------------------------------------------------------------------------------------


def _read_candidates(
    db: sqlite3.Connection, queue_filter: QueueFilter, limit: int
) -> Iterator[tuple[float, Assessment]]:
    """Ranks and assessments, worst first; at most one more than `limit`."""
    query = "SELECT i.rank, b.value FROM items AS i JOIN bodies AS b ON b.item = i.no WHERE i.no = ?"
    for number in select_page(db, queue_filter, limit=limit, now=0.0):
        rank, value = db.execute(query, (number,)).fetchone()
        yield rank, Assessment.model_validate_json(value)


def _cut_item(rank: float, assessment: Assessment, start: int, end: int) -> SimilarItem:
    tokens = assessment.tokens
    suggestions = {flag.index: flag.suggested for flag in select_flags(assessment)}
    return SimilarItem(
        id=str(assessment.id),
        revision=assessment.revision,
        rank=rank,
        start=start,
        end=end,
        before=tokens[max(0, start - CONTEXT_WORDS) : start],
        words=tokens[start:end],
        after=tokens[end : end + CONTEXT_WORDS],
        labels=assessment.labels[start:end],
        suggested=tuple(suggestions.get(index) for index in range(start, end)),
    )
