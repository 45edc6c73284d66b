"""The first place where corrected labels break the scheme of the dataset, and what to write there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.errors import UnknownLabelError
from service.labels.schemes import Scheme, Tag, can_follow, convert_scheme, parse_label

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


class SequenceProblem(NamedTuple):
    """The word whose label to change, and the error text."""

    word: int
    text: str


def find_sequence_problem(labels: Sequence[str], scheme: Scheme, changed: Collection[int]) -> SequenceProblem | None:
    """The first two neighbours that the scheme does not allow, if one of them is among the `changed` words.

    Two unchanged neighbours are as the annotator gave them. A label that can't be read in the scheme ("PER_B") may stand
    beside any other.
    """
    tags = [_parse(label, scheme) for label in labels]
    for index in range(len(labels) + 1):
        if index - 1 not in changed and index not in changed:
            continue
        neighbours = tags[max(index - 1, 0) : index + 1]
        if None in neighbours:
            continue
        before, after = tags[index - 1] if index else None, tags[index] if index < len(labels) else None
        if not can_follow(before, after, scheme):
            return _describe_problem(labels, index, scheme)
    return None


def _parse(label: str, scheme: Scheme) -> Tag | None:
    try:
        return parse_label(label, scheme)
    except UnknownLabelError:
        return None


def _describe_problem(labels: Sequence[str], index: int, scheme: Scheme) -> SequenceProblem:
    if index == 0:
        text = f"{labels[0]!r} can't begin a sentence in scheme {scheme.value}"
    elif index == len(labels):
        text = f"{labels[-1]!r} can't end a sentence in scheme {scheme.value}"
    else:
        text = f"{labels[index]!r} can't follow {labels[index - 1]!r} in scheme {scheme.value}"
    try:
        valid = convert_scheme(labels, scheme, scheme)
    except UnknownLabelError:
        return SequenceProblem(min(index, len(labels) - 1), f"{text}: correct one of the two labels")
    word = index if index < len(labels) and valid[index] != labels[index] else index - 1
    return SequenceProblem(word, f"{text}: write {valid[word]!r} for {labels[word]!r}, or correct the word beside it")
