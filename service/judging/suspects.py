"""Suspects: the given entities of a sentence compared with those that the model finds.

The model's entities come from its most probable label sequence that is valid in the scheme, not from repairing the
most probable label of each word. The spans of both are compared:

| given and suggested spans | kind |
|---|---|
| the same extent and type | none |
| overlapping, of two types, whatever the extents | `type` |
| overlapping, of one type | `boundary` |
| a given span that no suggested one overlaps | `spurious` |
| a suggested span that no given one overlaps | `missed` |

Each overlapping pair is one suspect, so a span may be in several: a given ORG "New York Times" with suggested LOC "New York"
and ORG "Times" is a `type` and a `boundary`. Spans are parsed leniently (service.labels), so a label that only breaks the
scheme (an I- for a B-) around the right entity is a flagged word but no suspect.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from service.errors import InvalidInput
from service.labels import Scheme, Span, is_valid_end, is_valid_start, is_valid_transition, parse_spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from service.contracts.kinds import SuspectKind

# Stands for a probability of zero: the sequence with the fewest zeros wins, and is better than an invalid one.
_MIN_PROBABILITY = 1e-300


@dataclass(frozen=True, slots=True)
class Suspect:
    """One doubtful entity.

    `confidence` is the model's smallest probability of its own label over the words of both spans. Without a suggested
    span its label is "outside".
    """

    kind: SuspectKind
    given_span: Span | None
    suggested_span: Span | None
    confidence: float


class _TransitionRules(NamedTuple):
    """The classes that may start, end and follow each other, as booleans and as penalties (0 or -inf) on log-probabilities."""

    can_start: NDArray[np.bool_]
    can_end: NDArray[np.bool_]
    can_follow: NDArray[np.bool_]  # [previous, following]
    start_penalty: NDArray[np.float64]
    end_penalty: NDArray[np.float64]
    transition_penalty: NDArray[np.float64]  # [following, previous], so the maximum is along rows


@lru_cache(maxsize=64)
def _build_transition_rules(classes: tuple[str, ...], scheme: Scheme) -> _TransitionRules:
    starts = np.array([is_valid_start(name, scheme) for name in classes], np.bool_)
    ends = np.array([is_valid_end(name, scheme) for name in classes], np.bool_)
    follows = np.array([[is_valid_transition(a, b, scheme) for b in classes] for a in classes], np.bool_)
    start_penalty, end_penalty = np.where(starts, 0.0, -np.inf), np.where(ends, 0.0, -np.inf)
    penalty = np.ascontiguousarray(np.where(follows, 0.0, -np.inf).T)
    rules = _TransitionRules(starts, ends, follows, start_penalty, end_penalty, penalty)
    for array in rules:
        array.flags.writeable = False  # shared by all callers
    return rules


def decode_valid_path(probs: NDArray[np.floating], classes: Sequence[str], scheme: Scheme) -> list[int]:
    """The most probable valid label sequence of the scheme, as class indexes (Viterbi).

    If every valid sequence has a probability of zero, one with the fewest zeros. InvalidInput if the classes allow no
    valid sequence of this length, such as only I- classes in IOB2.
    """
    n = len(probs)
    if n == 0:
        return []
    if probs.shape != (n, len(classes)):
        raise InvalidInput(f"probabilities of shape {probs.shape} for {len(classes)} classes", field="probs")
    rules = _build_transition_rules(tuple(classes), scheme)
    best = probs.argmax(axis=1)
    if rules.can_start[best[0]] and rules.can_end[best[-1]] and rules.can_follow[best[:-1], best[1:]].all():
        result: list[int] = best.tolist()  # the best class of each word is valid
        return result

    log_probs = np.log(np.maximum(probs.astype(np.float64), _MIN_PROBABILITY))
    rows = np.arange(len(classes))
    came_from = np.empty((n, len(classes)), np.intp)
    score = log_probs[0] + rules.start_penalty
    for i in range(1, n):
        candidates = rules.transition_penalty + score
        came_from[i] = previous = candidates.argmax(axis=1)
        score = candidates[rows, previous] + log_probs[i]
    score = score + rules.end_penalty
    last = int(score.argmax())
    if score[last] == -np.inf:
        raise InvalidInput(
            f"no sequence of {n} words is valid in scheme {scheme.value} with the classes {', '.join(classes)}",
            field="classes",
        )
    path = [last]
    for row in came_from[:0:-1].tolist():
        path.append(row[path[-1]])
    return path[::-1]


def find_suspects(
    given: Sequence[str],
    probs: NDArray[np.floating],
    classes: Sequence[str],
    scheme: Scheme,
    flagged: Sequence[bool] | NDArray[np.bool_],
    *,
    path: Sequence[int] | None = None,
) -> list[Suspect]:
    """The suspects of a sentence that touch a flagged word, in the order of the words.

    `classes` and `scheme` are those of the judge (types in IO if classes were merged). The caller leaves out words
    without probabilities. `path` is the result of `decode_valid_path`, if the caller has it already.
    """
    if not len(given) == len(probs) == len(flagged):
        raise InvalidInput(
            f"{len(given)} labels, {len(probs)} rows of probabilities and {len(flagged)} flags for one sentence"
        )
    if not any(flagged):
        return []
    if path is None:
        path = decode_valid_path(probs, classes, scheme)
    confidence = probs[np.arange(len(path)), path]
    suspects = []
    given_spans, suggested_spans = parse_spans(given, scheme), parse_spans([classes[k] for k in path], scheme)
    for given_span, suggested_span in find_disagreements(given_spans, suggested_spans):
        spans = [span for span in (given_span, suggested_span) if span is not None]
        words = slice(min(span.start for span in spans), max(span.end for span in spans))
        if any(flagged[words]):
            kind = _classify_suspect(given_span, suggested_span)
            suspects.append(Suspect(kind, given_span, suggested_span, float(confidence[words].min())))
    return suspects


def _classify_suspect(given: Span | None, suggested: Span | None) -> SuspectKind:
    if given is None:
        return "missed"
    if suggested is None:
        return "spurious"
    return "boundary" if given.type == suggested.type else "type"


def find_disagreements(
    given: Sequence[Span], suggested: Sequence[Span]
) -> Iterator[tuple[Span, Span] | tuple[Span, None] | tuple[None, Span]]:
    """Overlapping pairs that differ, and spans without an overlap, in order. Each list is sorted and has no overlaps."""
    g = s = 0
    paired_g = paired_s = False  # whether the current spans overlap an earlier one
    while g < len(given) or s < len(suggested):
        a = given[g] if g < len(given) else None
        b = suggested[s] if s < len(suggested) else None
        if a is not None and b is not None and a.start < b.end and b.start < a.end:
            if a != b:
                yield a, b
            paired_g = paired_s = True
        # The span that ends first overlaps nothing further.
        a_done = a is not None and (b is None or a.end <= b.end)
        b_done = b is not None and (a is None or b.end <= a.end)
        if a is not None and a_done:
            if not paired_g:
                yield a, None
            g, paired_g = g + 1, False
        if b is not None and b_done:
            if not paired_s:
                yield None, b
            s, paired_s = s + 1, False
