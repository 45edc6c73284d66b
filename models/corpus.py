"""The training corpus: CoNLL columns, and sentences made from it by swapping entities and masking words.

Made sentences are a pure function of the training file and a seed, so teachers' probabilities can be kept beside
the scripts without any text: `make_sentences` gives the same sentences in the same order on every machine.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    sentences: list[Sentence] = []
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines() if line]
        if rows:
            sentences.append(Sentence(tuple(r[0] for r in rows), tuple(class_of[r[-1]] for r in rows)))
    return sentences


def spans(labels: Sequence[int]) -> list[tuple[int, int, str]]:
    """Entities of an IOB2 sequence as (start, end, type); an I- without its B- starts an entity."""
    found: list[tuple[int, int, str]] = []
    start, kind = 0, ""
    for index, label in enumerate([*(LABELS[k] for k in labels), "O"]):
        if kind and label != f"I-{kind}":
            found.append((start, index, kind))
            kind = ""
        if label != "O" and not kind:
            start, kind = index, label[2:]
    return found


def entity_f1(given: Sequence[Sequence[int]], predicted: Sequence[Sequence[int]]) -> float:
    right = wanted = answered = 0
    for truth, guess in zip(given, predicted, strict=True):
        truth_spans, guess_spans = set(spans(truth)), set(spans(guess))
        right += len(truth_spans & guess_spans)
        wanted += len(truth_spans)
        answered += len(guess_spans)
    return 2 * right / max(wanted + answered, 1)


def entity_lists(sentences: Sequence[Sentence]) -> dict[str, list[tuple[str, ...]]]:
    """The distinct entities of each type, in the order they first appear."""
    seen: dict[str, dict[tuple[str, ...], None]] = defaultdict(dict)
    for sentence in sentences:
        for start, end, kind in spans(sentence.labels):
            seen[kind].setdefault(sentence.words[start:end])
    return {kind: list(names) for kind, names in seen.items()}


def _rebuilt(sentence: Sentence, rng: random.Random, names: dict[str, list[tuple[str, ...]]]) -> Sentence:
    words: list[str] = []
    labels: list[int] = []
    position = 0
    for start, end, kind in spans(sentence.labels):
        words += sentence.words[position:start]
        labels += sentence.labels[position:start]
        name = rng.choice(names[kind]) if rng.random() < SWAP_SHARE else sentence.words[start:end]
        words += name
        labels += [LABELS.index(f"B-{kind}"), *[LABELS.index(f"I-{kind}")] * (len(name) - 1)]
        position = end
    words += sentence.words[position:]
    labels += sentence.labels[position:]
    return Sentence(tuple(words), tuple(labels))


def _masked(sentence: Sentence, rng: random.Random) -> Sentence:
    words = tuple(MASK if rng.random() < MASK_SHARE else word for word in sentence.words)
    return Sentence(words, sentence.labels)


def make_sentences(train: Sequence[Sentence], *, copies: int, seed: int) -> Iterator[Sentence]:
    """The training sentences, then `copies` altered copies of each one that holds an entity.

    Every copy swaps entities for others of their type; from the second copy on words are masked as well, and some
    sentences are put in capitals, as headlines are. The labels that come with a copy are only as good as the swap:
    the teachers' answer is what the student learns most from.
    """
    yield from train
    names = entity_lists(train)
    for copy in range(copies):
        rng = random.Random(f"{seed}/{copy}")
        for sentence in train:
            if not any(sentence.labels):
                continue
            made = _rebuilt(sentence, rng, names)
            if copy >= 1:
                made = _masked(made, rng)
                if rng.random() < UPPER_SHARE:
                    made = Sentence(tuple(w if w == MASK else w.upper() for w in made.words), made.labels)
            yield made
