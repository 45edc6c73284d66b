"""Decisions of reviewers: the check against the item they are about, and what several of them amount to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from service.contracts import describe_label_mismatch
from service.errors import InvalidInput
from service.labels import find_sequence_problem
from service.labels.unknown_labels import format_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.contracts import Decision, Shown
    from service.labels import LabelMap, LabelSet, Scheme
    from service.review.items import ReviewItem

Agreement = Literal["agree", "differ"]
MajorityVerdict = Literal["error", "ok"]
Outcome = Literal["open", "ok", "corrected", "uncorrected", "differ"]
MIN_TIMESTAMP: Final = datetime(1, 1, 1, tzinfo=UTC).timestamp()
MAX_TIMESTAMP: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


class Resolution(NamedTuple):
    """What the decisions about a sentence amount to.

    open: nobody is sure. ok: the labels are right. corrected: wrong, with the right `labels`. uncorrected: wrong, and
    nobody gave the right labels. differ: reviewers disagree.
    """

    outcome: Outcome
    labels: tuple[str, ...] | None = None


# -- the check of one decision -----------------------------------------------------------------------------------------


def check_decision(
    item: ReviewItem, decision: Decision, *, now: datetime | None = None, label_map: LabelMap | None = None
) -> Decision:
    """The decision as it is recorded: with its time, what the reviewer was shown, and what they answered before that.

    Raises InvalidInput, which names the field, for a decision that does not fit the item. With the dataset's `label_map`
    also for corrected labels that are not labels of the dataset, or no valid sequence of its scheme. The item must be as
    the reviewer sees it: then `settlement.check_reviewer` says whether this reviewer may decide about it now.
    """
    if (decision.dataset, decision.id) != (item.dataset, item.id):
        raise InvalidInput(f"it is about {decision.dataset}/{decision.id}, not {item.dataset}/{item.id}", field="id")
    if decision.revision != item.revision:
        raise InvalidInput(
            f"it is about revision {decision.revision}, the queue holds {item.revision}: look at the item again",
            field="revision",
        )
    if item.state == "closed" and not decision.withdrawn:
        raise InvalidInput("the item is closed: the sentence was annotated again or deleted", field="id")
    _check_words(item, decision)
    _check_labels(item, decision, label_map)
    decided_at = decision.decided_at or now or datetime.now(UTC)
    return decision.model_copy(
        update={
            "decided_at": ensure_timezone(decided_at),
            "shown": item.shown,
            "blind_answer": None if decision.adjudication else item.blind_answer,
        }
    )


def _check_words(item: ReviewItem, decision: Decision) -> None:
    if decision.words is None:
        return
    if decision.verdict != "error" and decision.words:
        raise InvalidInput(f"wrong words need the verdict error, not {decision.verdict}", field="words")
    if len(set(decision.words)) != len(decision.words):
        raise InvalidInput("a word is named twice", field="words")
    for index in decision.words:
        if not 0 <= index < len(item.tokens):
            raise InvalidInput(
                f"there is no word {index}: the sentence has {len(item.tokens)} words, counted from 0", field="words"
            )


def _is_label(label: str, label_map: LabelMap) -> bool:
    """Whether it is a label of the dataset. The model need not know it: its label set decides, if it has one."""
    return label_map.accepts(label) or (label_map.label_set is not None and label_map.label_set.contains(label))


def _check_labels(item: ReviewItem, decision: Decision, label_map: LabelMap | None) -> None:
    labels = decision.labels
    if labels is None:
        return
    if len(labels) != len(item.tokens):
        raise InvalidInput(describe_label_mismatch(len(labels), len(item.tokens)), field="labels")
    changed = {index for index, (new, given) in enumerate(zip(labels, item.labels, strict=True)) if new != given}
    if decision.verdict == "error" and not changed:
        raise InvalidInput("they are the given labels: correct at least one, or leave `labels` out", field="labels")
    if decision.verdict != "error" and changed:
        raise InvalidInput(f"corrected labels need the verdict error, not {decision.verdict}", field="labels")
    for index, label in enumerate(labels):
        if not label.strip():
            raise InvalidInput("it is empty", field="labels", word=index, token=item.tokens[index])
        # A given label is always accepted, even if the settings have changed since the sentence was judged.
        if label_map is not None and index in changed and label not in item.labels and not _is_label(label, label_map):
            types = label_map.build_writer().types if label_map.label_set is None else label_map.label_set.types
            raise InvalidInput(
                f"{label!r} is not a label of {item.dataset}: use its own, of the types {format_names(types)}",
                field="labels",
                word=index,
                token=item.tokens[index],
            )
    if label_map is not None:
        check_correction(item, labels, scheme=label_map.dataset_scheme, label_set=label_map.label_set)
    if decision.words and changed != set(decision.words):
        raise InvalidInput(
            "they are not the words whose label is corrected: leave `words` or `labels` out", field="words"
        )


class Correctable(Protocol):
    """A sentence with its given labels: a review item or a received sentence."""

    @property
    def tokens(self) -> Sequence[str]: ...
    @property
    def labels(self) -> Sequence[str]: ...


def check_correction(
    sentence: Correctable, labels: Sequence[str], *, scheme: Scheme, label_set: LabelSet | None
) -> None:
    """Raises InvalidInput, which names the word, for a correction outside the label set or the scheme.

    Words whose label is not corrected are not checked, except beside a corrected one.
    """
    pairs = enumerate(zip(labels, sentence.labels, strict=True))
    changed = {index for index, (new, given) in pairs if new != given}
    for index in sorted(changed):
        if label_set is not None and not label_set.contains(labels[index]):
            raise InvalidInput(
                label_set.explain_outside(labels[index]), field="labels", word=index, token=sentence.tokens[index]
            )
    problem = find_sequence_problem(labels, scheme, changed)
    if problem is not None:
        raise InvalidInput(problem.text, field="labels", word=problem.word, token=sentence.tokens[problem.word])


def ensure_timezone(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def to_timestamp(moment: datetime | None) -> float:
    """Seconds since 1970, clipped to what a datetime can represent in every time zone."""
    if moment is None:
        return 0.0
    return min(max(ensure_timezone(moment).timestamp(), MIN_TIMESTAMP), MAX_TIMESTAMP)


# -- several decisions together ----------------------------------------------------------------------------------------


def get_time_order(decision: Decision) -> tuple[float, str]:
    """The sort key of decisions by time, and by reviewer where the time is the same.

    It depends on the decision alone. Its position in the topic would not do: reviewers have different partitions.
    """
    return to_timestamp(decision.decided_at), decision.reviewer


def select_in_force(decisions: Iterable[Decision], revision: int) -> list[Decision]:
    """The decisions that count for a revision: they are about it, and not withdrawn."""
    return [decision for decision in decisions if decision.revision == revision and not decision.withdrawn]


def select_sure_decisions(decisions: Iterable[Decision]) -> list[Decision]:
    """The decisions that are not withdrawn and not `unsure`."""
    return [decision for decision in decisions if not decision.withdrawn and decision.verdict != "unsure"]


def compute_agreement(decisions: Iterable[Decision]) -> Agreement | None:
    """Whether the reviewers who are sure agree; None with fewer than two of them. Two different corrections differ."""
    sure = select_sure_decisions(decisions)
    if len(sure) < 2:
        return None
    corrections = {decision.labels for decision in sure if decision.labels is not None}
    same = len({decision.verdict for decision in sure}) == 1 and len(corrections) <= 1
    return "agree" if same else "differ"


def compute_majority_verdict(decisions: Iterable[Decision]) -> MajorityVerdict | None:
    """The verdict of most reviewers who are sure; None where as many say error as ok."""
    sure = select_sure_decisions(decisions)
    errors = sum(decision.verdict == "error" for decision in sure)
    if 2 * errors == len(sure):
        return None
    return "error" if 2 * errors > len(sure) else "ok"


def resolve_decisions(decisions: Sequence[Decision], word_count: int) -> Resolution:
    """The outcome of the majority. Corrected labels count where everybody who corrects the sentence gives the same."""
    verdict = compute_majority_verdict(decisions)
    sure = select_sure_decisions(decisions)
    if verdict is None:
        return Resolution("differ" if sure else "open")
    if verdict == "ok":
        return Resolution("ok")
    # Only the labels of an error are a correction: the verdict ok may repeat the given labels.
    corrections = {decision.labels for decision in sure if decision.verdict == "error" and decision.labels is not None}
    corrections = {labels for labels in corrections if len(labels) == word_count}
    if len(corrections) == 1:
        return Resolution("corrected", corrections.pop())
    return Resolution("differ" if corrections else "uncorrected")


def find_wrong_words(decision: Decision, shown: Shown) -> frozenset[int] | None:
    """The words that a decision calls wrong; None for an error that names none."""
    if decision.verdict == "ok":
        return frozenset()
    if decision.words:
        return frozenset(decision.words)
    pairs = zip(decision.labels or (), shown.labels, strict=False)
    return frozenset(index for index, (right, given) in enumerate(pairs) if right != given) or None
