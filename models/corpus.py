"""The training corpus: CoNLL columns, and sentences made from it by swapping entities and masking words.

Made sentences are a pure function of the training file and a seed, so teachers' probabilities can be kept beside
the scripts without any text: `make_sentences` gives the same sentences in the same order on every machine.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.evaluation.metrics import entity_f1
from service.labels import Scheme, Span, parse_spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LABELS = ["O", "B-MISC", "I-MISC", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"]
MASK = "[MASK]"

SWAP_SHARE = 0.7
MASK_SHARE = 0.1
UPPER_SHARE = 0.12


@dataclass(frozen=True)
class Sentence:
    words: tuple[str, ...]
    labels: tuple[int, ...]


def read_columns(path: Path) -> list[Sentence]:
    """Reads word<TAB>label lines, sentences parted by empty lines."""
    class_of = {label: index for index, label in enumerate(LABELS)}
    return [Sentence(tuple(r[0] for r in rows), tuple(class_of[r[-1]] for r in rows)) for rows in read_rows(path)]


def read_rows(path: Path) -> list[list[list[str]]]:
    """The columns of each line of each sentence."""
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    sentences = [[line.split("\t") for line in block.splitlines() if line] for block in blocks]
    return [rows for rows in sentences if rows]


def names(labels: Sequence[int]) -> list[str]:
    return [LABELS[k] for k in labels]


def entities(sentence: Sentence) -> list[Span]:
    return parse_spans(names(sentence.labels), Scheme.IOB2)


def compute_f1(truth: Sequence[Sequence[int]], predicted: Sequence[Sequence[int]]) -> float:
    """Entities that are right in extent and type."""
    return entity_f1([names(t) for t in truth], [names(p) for p in predicted], Scheme.IOB2).f1


def collect_entities(sentences: Sequence[Sentence]) -> dict[str, list[tuple[str, ...]]]:
    """The distinct entities of each type, in the order they first appear."""
    seen: dict[str, dict[tuple[str, ...], None]] = defaultdict(dict)
    for sentence in sentences:
        for start, end, kind in entities(sentence):
            seen[kind].setdefault(sentence.words[start:end])
    return {kind: list(known) for kind, known in seen.items()}


def _swap_entities(sentence: Sentence, rng: random.Random, pool: dict[str, list[tuple[str, ...]]]) -> Sentence:
    words: list[str] = []
    labels: list[int] = []
    position = 0
    for start, end, kind in entities(sentence):
        words += sentence.words[position:start]
        labels += sentence.labels[position:start]
        name = rng.choice(pool[kind]) if rng.random() < SWAP_SHARE else sentence.words[start:end]
        words += name
        labels += [LABELS.index(f"B-{kind}"), *[LABELS.index(f"I-{kind}")] * (len(name) - 1)]
        position = end
    words += sentence.words[position:]
    labels += sentence.labels[position:]
    return Sentence(tuple(words), tuple(labels))


def _mask_words(sentence: Sentence, rng: random.Random) -> Sentence:
    words = tuple(MASK if rng.random() < MASK_SHARE else word for word in sentence.words)
    return Sentence(words, sentence.labels)


def digest(sentences: Sequence[Sentence]) -> str:
    """Names the sentences, so that probabilities kept without text can be held against what they were made for."""
    words = hashlib.sha256()
    for sentence in sentences:
        words.update("\t".join(sentence.words).encode() + b"\n")
    return words.hexdigest()


def make_sentences(train: Sequence[Sentence], *, copies: int, seed: int) -> Iterator[Sentence]:
    """The training sentences, then `copies` altered copies of each one that holds an entity.

    Every copy swaps entities for others of their type; from the second copy on words are masked as well, and some
    sentences are put in capitals, as headlines are. The labels that come with a copy are only as good as the swap:
    the teachers' answer is what the student learns most from.
    """
    yield from train
    pool = collect_entities(train)
    for copy in range(copies):
        rng = random.Random(f"{seed}/{copy}")
        for sentence in train:
            if not any(sentence.labels):
                continue
            made = _swap_entities(sentence, rng, pool)
            if copy >= 1:
                made = _mask_words(made, rng)
                if rng.random() < UPPER_SHARE:
                    made = Sentence(tuple(w if w == MASK else w.upper() for w in made.words), made.labels)
            yield made
