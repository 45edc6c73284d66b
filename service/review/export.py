"""What an export contains: the sentences of a dataset, with the corrections of reviewers if asked for.

Command line and REST share it; each writes the sentences in its own way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from service.labels import LabelSet
from service.review.settlement import Settlement, settle
from service.review.stored_sentences import correct_sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from service.contracts import LabelledSentence
    from service.errors import InvalidInput
    from service.labels import Scheme
    from service.review.review_state import ReviewState


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """`decisions`: with the labels that reviewers corrected. `decided_only`, `reviewer`: only sentences with a decision
    (of this reviewer), and only such decisions. `settled_only`: none about sentences that lack independent decisions, which
    are hidden from other reviewers.
    """

    decisions: bool = False
    decided_only: bool = False
    reviewer: str | None = None
    settled_only: bool = False


class ExportedSentence(NamedTuple):
    sentence: LabelledSentence
    outcome: str
    problem: InvalidInput | None = None  # why the correction is not used


def select_sentences(
    sentences: Iterable[LabelledSentence],
    review: ReviewState[LabelledSentence],
    selection: ExportSelection,
    *,
    scheme: Scheme,
    types: tuple[str, ...] | None,
) -> Iterator[ExportedSentence]:
    """`types`: the dataset's label set, if its settings name one."""
    label_set = None if types is None else LabelSet.build(types, scheme)
    for sentence in sentences:
        settlement = _settle_sentence(review, sentence, selection) if selection.decisions else Settlement("open")
        if selection.decided_only and not settlement.counted:
            continue
        corrected = correct_sentence(sentence, settlement.counted, scheme=scheme, label_set=label_set)
        outcome = "adjudication" if settlement.state == "adjudication" else corrected.outcome
        yield ExportedSentence(corrected.sentence, outcome, corrected.problem)


def _settle_sentence(
    review: ReviewState[LabelledSentence], sentence: LabelledSentence, selection: ExportSelection
) -> Settlement:
    """The decisions that count; with `reviewer` those of this reviewer alone, whatever the dataset's overlap."""
    settlement = review.settle(sentence)
    if selection.reviewer is None or (selection.settled_only and settlement.state == "open"):
        return settlement
    own = [each for each in review.get_decisions(sentence) if each.reviewer == selection.reviewer]
    return settle(own, overlap=1)
