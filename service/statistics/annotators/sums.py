"""Sums per annotator: sentences, spans given and found by the model, and what differs. They merge exactly.

F1 is a ratio of sums over sentences. Its standard error needs the sums of squares and of products per sentence, so these
are kept too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from service.errors import StateError
from service.statistics.running import EMPTY_STATS_FIELDS
from service.statistics.snapshots import MAX_COUNT, SnapshotFormat, is_count, read_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OTHER_ANNOTATORS: Final = "(other)"
"""Counts the annotators beyond the limit."""

MAX_WEEKS: Final = 26
MAX_CONFUSIONS: Final = 64  # pairs of types by annotator; further ones are counted as OTHER_PAIR
OTHER_PAIR: Final = ("", "")


class SentenceSums(NamedTuple):
    """Sums over sentences, of what the standard error needs."""

    sentences: int = 0
    sentences_with_spans: int = 0  # given or found
    matched_squares: int = 0  # matched²
    products: int = 0  # matched × (given + found)
    span_squares: int = 0  # (given + found)²

    def merge(self, other: SentenceSums) -> SentenceSums:
        return SentenceSums(*map(int.__add__, self, other))


class SpanSums(NamedTuple):
    """Spans that were given, that the model finds, and that are the same in both."""

    given: int = 0
    found: int = 0
    matched: int = 0

    def merge(self, other: SpanSums) -> SpanSums:
        return SpanSums(self.given + other.given, self.found + other.found, self.matched + other.matched)

    @property
    def total(self) -> int:
        return self.given + self.found


class WeekSums(NamedTuple):
    """The same of one week, and its sentences."""

    sentences: int = 0
    given: int = 0
    found: int = 0
    matched: int = 0

    def merge(self, other: WeekSums) -> WeekSums:
        return WeekSums(*map(int.__add__, self, other))

    @property
    def spans(self) -> SpanSums:
        return SpanSums(*self[1:])


NO_SENTENCES: Final = SentenceSums()
NO_SPANS: Final = SpanSums()
NO_WEEK: Final = WeekSums()


ANNOTATOR_FORMAT = SnapshotFormat(
    "the sums of an annotator",
    version=2,
    fields=(*SentenceSums._fields, "types", "confusions", "weeks"),
    optional=tuple(EMPTY_STATS_FIELDS),
    min_reader=1,
)


class SpanAgreement(NamedTuple):
    """The given spans of one sentence compared with the model's. A pair of types is (given, found); "O" is no span."""

    types: Mapping[str, SpanSums] = {}
    confusions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class AnnotatorSums:
    """The sums of one annotator, for a stats key and source partition or over several. Immutable.

    Weeks older than MAX_WEEKS before the newest are dropped. As with the days of the class statistics, the result does
    not depend on the order of sentences and merges: the first week to keep only rises.
    """

    totals: SentenceSums = NO_SENTENCES
    types: Mapping[str, SpanSums] = field(default_factory=dict)
    confusions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    weeks: Mapping[str, WeekSums] = field(default_factory=dict)  # by its Monday

    @property
    def spans(self) -> SpanSums:
        """Over all types."""
        return reduce(SpanSums.merge, self.types.values(), NO_SPANS)

    def add(self, sentences: Iterable[tuple[SpanAgreement, str]]) -> AnnotatorSums:
        """With more sentences, each with the Monday of its week. Pairs beyond the limit depend on the order."""
        totals = self.totals
        types, confusions, weeks = dict(self.types), dict(self.confusions), dict(self.weeks)
        for agreement, week in sentences:
            if not agreement.types:
                totals = totals.merge(_EMPTY_TOTALS)
                weeks[week] = weeks.get(week, NO_WEEK).merge(_EMPTY_SENTENCE)
                continue
            for name, spans in agreement.types.items():
                types[name] = types.get(name, NO_SPANS).merge(spans)
            for pair in agreement.confusions:
                is_counted = pair in confusions or len(confusions) - (OTHER_PAIR in confusions) < MAX_CONFUSIONS
                counted = pair if is_counted else OTHER_PAIR
                confusions[counted] = confusions.get(counted, 0) + 1
            spans = reduce(SpanSums.merge, agreement.types.values())
            weeks[week] = weeks.get(week, NO_WEEK).merge(WeekSums(1, *spans))
            products = (spans.matched**2, spans.matched * spans.total, spans.total**2)
            totals = totals.merge(SentenceSums(1, 1, *products))
        return AnnotatorSums(totals, types, confusions, _drop_expired(weeks))

    def merge(self, other: AnnotatorSums) -> AnnotatorSums:
        """The sum of both: of two partitions, or of two annotators."""
        types, confusions, weeks = dict(self.types), dict(self.confusions), dict(self.weeks)
        for name, spans in other.types.items():
            types[name] = types.get(name, NO_SPANS).merge(spans)
        for pair, count in other.confusions.items():
            confusions[pair] = confusions.get(pair, 0) + count
        for week, sums in other.weeks.items():
            weeks[week] = weeks.get(week, NO_WEEK).merge(sums)
        return AnnotatorSums(self.totals.merge(other.totals), types, confusions, _drop_expired(weeks))

    def snapshot(self) -> dict[str, object]:
        """As a JSON object; equal sums give equal text."""
        fields = {
            **self.totals._asdict(),
            "types": {name: list(self.types[name]) for name in sorted(self.types)},
            "confusions": [[*pair, self.confusions[pair]] for pair in sorted(self.confusions)],
            "weeks": {week: list(self.weeks[week]) for week in sorted(self.weeks)},
        }
        return ANNOTATOR_FORMAT.write({**fields, **EMPTY_STATS_FIELDS})

    def to_json(self) -> bytes:
        """The value of its state record."""
        return json.dumps(self.snapshot(), ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def restore(cls, snapshot: object) -> AnnotatorSums:
        """Reads `snapshot()` back; StateError if it is not valid."""
        fields = ANNOTATOR_FORMAT.read(snapshot)
        numbers = []
        for name in SentenceSums._fields:
            number = fields[name]
            if not is_count(number) or number > MAX_COUNT:
                raise StateError(f"`{name}` should be a sum of integers that are not negative, it is {number!r}")
            numbers.append(number)
        types = {name: SpanSums(*values) for name, values in _read_rows(fields["types"], "types", 3).items()}
        weeks = {week: WeekSums(*values) for week, values in _read_rows(fields["weeks"], "weeks", 4).items()}
        for week in weeks:
            if not _is_monday(week):
                raise StateError(f"`weeks` holds {week[:40]!r}, which is not the Monday of a week like 2024-05-27")
        return cls(SentenceSums(*numbers), types, _read_confusions(fields["confusions"]), _drop_expired(weeks))


NO_SUMS: Final = AnnotatorSums()
_EMPTY_SENTENCE = WeekSums(1)
_EMPTY_TOTALS = SentenceSums(1)


@lru_cache(maxsize=1024)
def to_week(day: str) -> str:
    """The Monday of the week of a day like 2024-05-31."""
    parsed = date.fromisoformat(day)
    return (parsed - timedelta(days=parsed.weekday())).isoformat()  # the first day that a date can have is a Monday


def merge_annotators(parts: Iterable[Mapping[str, AnnotatorSums]]) -> dict[str, AnnotatorSums]:
    """The sums by annotator over several partitions.

    A partition counts the annotators beyond its limit as OTHER_ANNOTATORS. Who is beyond it in one partition and not in
    another keeps the part under their own name: nothing is moved, so the sums stay exact in any order of merges.
    """
    merged: dict[str, AnnotatorSums] = {}
    for part in parts:
        for name, sums in part.items():
            merged[name] = merged.get(name, NO_SUMS).merge(sums)
    return merged


def _drop_expired(weeks: dict[str, WeekSums]) -> dict[str, WeekSums]:
    if len(weeks) <= 1:
        return weeks
    newest = date.fromisoformat(max(weeks)).toordinal()
    first = date.fromordinal(max(1, newest - 7 * (MAX_WEEKS - 1))).isoformat()
    return {week: sums for week, sums in weeks.items() if week >= first}


def _is_monday(week: str) -> bool:
    try:
        return to_week(week) == week
    except ValueError:
        return False


def _read_rows(value: object, name: str, length: int) -> dict[str, tuple[int, ...]]:
    if not isinstance(value, dict):
        raise StateError(f"`{name}` should be an object of sums")
    rows = {key: read_counts(row, f"`{name}`") for key, row in value.items()}
    if any(len(row) != length or max(row) > MAX_COUNT for row in rows.values()):
        raise StateError(f"`{name}` should have {length} sums in each entry")
    return rows


def _read_confusions(value: object) -> dict[tuple[str, str], int]:
    if not isinstance(value, list):
        raise StateError("`confusions` should be a list of pairs of types with their number")
    confusions: dict[tuple[str, str], int] = {}
    for row in value:
        if not isinstance(row, list) or len(row) != 3 or not is_count(row[2]) or row[2] > MAX_COUNT:
            raise StateError(f"`confusions` should have two types and a number in each entry, not {str(row)[:80]}")
        if not isinstance(row[0], str) or not isinstance(row[1], str):
            raise StateError(f"`confusions` should name two types in each entry, not {str(row)[:80]}")
        confusions[row[0], row[1]] = row[2]
    return confusions
