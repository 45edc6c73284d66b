"""Sentences to train on: read once, checked, sampled to a bounded number of words, with their labels as classes."""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from service.errors import InvalidInput
from service.labels import OUTSIDE, Scheme, Span, labels_from_spans, parse_spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from service.contracts import LabelledSentence

MAX_TRAINING_WORDS = 200_000  # fitting takes 6 kB a word: 1.2 GB
MIN_SENTENCES = 100
MIN_TYPE_EXAMPLES = 10
NO_CLASS = -1


@dataclass(frozen=True, slots=True)
class Conflict:
    """The same words with different labels: at least one of them is wrong."""

    words: tuple[str, ...]
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Sentences with the class of each word, NO_CLASS where its type has too few examples to learn."""

    sentences: tuple[tuple[str, ...], ...]
    given: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]  # of each sentence's words, and their number at the end
    classes: tuple[str, ...]
    scheme: Scheme
    examples: dict[str, int]  # entities by type without repetitions, also of types that are not trained
    unscored_types: tuple[str, ...]
    n_read: int  # sentences before sampling
    conflicts: tuple[Conflict, ...]
    digest: str

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(name for name in self.examples if name not in self.unscored_types)


class _Sample:
    """The sentences with the smallest hashes, up to a number of words: the same whatever their order."""

    def __init__(self, max_words: int) -> None:
        self._max_words = max_words
        self._words = 0
        self._heap: list[tuple[int, int, tuple[str, ...], tuple[Span, ...], str]] = []

    def add(self, order: int, words: tuple[str, ...], spans: tuple[Span, ...], sentence_id: str) -> None:
        key = int.from_bytes(
            hashlib.blake2b("\x1f".join(words).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        )
        heapq.heappush(self._heap, (-key, -order, words, spans, sentence_id))
        self._words += len(words)
        while self._words > self._max_words and len(self._heap) > 1:
            self._words -= len(heapq.heappop(self._heap)[2])

    def list_in_order(self) -> list[tuple[tuple[str, ...], tuple[Span, ...], str]]:
        return [(words, spans, name) for _, _, words, spans, name in sorted(self._heap, key=lambda entry: -entry[1])]


def collect_sentences(
    sentences: Iterable[LabelledSentence],
    scheme: Scheme,
    *,
    max_words: int = MAX_TRAINING_WORDS,
    min_sentences: int = MIN_SENTENCES,
) -> TrainingSet:
    """Reads all sentences; raises InvalidInput where nothing can be learned from them.

    Labels that mark boundaries become IOB2 classes; labels without prefixes are classes as they are.
    """
    sample = _Sample(max_words)
    read = 0
    distinct: set[tuple[str, ...]] = set()
    for sentence in sentences:
        if sentence.deleted or not sentence.tokens:
            continue
        words = tuple(sentence.tokens)
        sample.add(read, words, tuple(parse_spans(sentence.labels, scheme)), str(sentence.id or read))
        read += 1
        if len(distinct) < min_sentences:
            distinct.add(words)
    chosen = sample.list_in_order()
    if len(distinct) < min_sentences:
        repeated = "" if len(distinct) == read else f" ({len(distinct)} without repetitions)"
        raise InvalidInput(
            f"training needs at least {min_sentences} labelled sentences, there are {read}{repeated}: label more, or "
            "audit with a model that has these labels (`--model`)",
            field="sentences",
        )
    class_scheme = Scheme.IO if scheme is Scheme.IO else Scheme.IOB2
    # Equal sentences are in one fold, and the head of that fold has seen none of them: repetitions are no more examples.
    entities = dict.fromkeys((words, span) for words, spans, _ in chosen for span in spans)
    examples = Counter(span.type for _, span in entities)
    # By first appearance, not by name: a data set whose types are renamed gives the same model to the bit.
    trained = [name for name, count in examples.items() if count >= MIN_TYPE_EXAMPLES]
    if not trained:
        counts = ", ".join(f"{name} ({count})" for name, count in examples.most_common(5)) or "none"
        raise InvalidInput(
            f"no entity type has {MIN_TYPE_EXAMPLES} examples, so there is nothing to learn (types found: {counts}): label more",
            field="labels",
        )
    classes = _list_classes(trained, class_scheme)
    number = {name: k for k, name in enumerate(classes)}
    given: list[int] = []
    for words, spans, _ in chosen:
        labels = labels_from_spans(spans, len(words), class_scheme)
        given += [number.get(label, NO_CLASS) for label in labels]
    return TrainingSet(
        sentences=tuple(words for words, _, _ in chosen),
        given=np.array(given, np.intp),
        starts=np.cumsum([0, *(len(words) for words, _, _ in chosen)], dtype=np.intp),
        classes=classes,
        scheme=class_scheme,
        examples=dict(examples),
        unscored_types=tuple(name for name in examples if name not in trained),
        n_read=read,
        conflicts=_find_conflicts(chosen),
        digest=_hash_training_data(chosen),
    )


def _list_classes(types: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    labels: list[str] = [OUTSIDE]
    for name in types:
        spans = [Span(0, 1, name)] if scheme is Scheme.IO else [Span(0, 2, name)]
        labels += labels_from_spans(spans, spans[0].end, scheme)
    return tuple(dict.fromkeys(labels))


def _find_conflicts(chosen: Sequence[tuple[tuple[str, ...], tuple[Span, ...], str]]) -> tuple[Conflict, ...]:
    by_words: dict[tuple[str, ...], dict[tuple[Span, ...], str]] = {}
    for words, spans, name in chosen:
        by_words.setdefault(words, {}).setdefault(spans, name)
    return tuple(Conflict(words, tuple(variants.values())) for words, variants in by_words.items() if len(variants) > 1)


def _hash_training_data(chosen: Sequence[tuple[tuple[str, ...], tuple[Span, ...], str]]) -> str:
    digest = hashlib.sha256()
    for words, spans, _ in chosen:
        digest.update(repr((words, [tuple(span) for span in spans])).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
