"""Labelled sentences of a made-up domain: enough pattern to learn from, and errors planted at known places."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from service.contracts import LabelledSentence

if TYPE_CHECKING:
    from collections.abc import Sequence

DRUGS = ("Velorin", "Tramoxil", "Karvedol", "Nebutrin", "Sorafine", "Lumetan", "Ibrexa", "Corvalid")
DISEASES = ("asthma", "chronic bronchitis", "renal failure", "gout", "severe anaemia", "migraine")
TEMPLATES = (
    "The patient took {drug} for {disease} .",
    "{drug} was stopped after two weeks .",
    "Signs of {disease} improved with {drug} and rest .",
    "No {disease} was found on day {number} .",
    "We gave {number} mg of {drug} in the morning .",
    "Her {disease} returned when {drug} was reduced .",
    "Please call the ward before {number} o'clock .",
)


class TrainingText(NamedTuple):
    """Sentences, and the numbers of those with a planted error."""

    sentences: list[LabelledSentence]
    wrong: set[int]


def make_training_text(n: int = 240, *, seed: int = 0, n_errors: int = 0) -> TrainingText:
    """Sentences with DRUG and DISEASE entities in IOB2; in `n_errors` of them one entity is labelled with the other type."""
    rng = random.Random(seed)
    labelled = [_make_sentence(rng) for _ in range(n)]
    candidates = [i for i, (_, labels) in enumerate(labelled) if any(label != "O" for label in labels)]
    wrong = set(rng.sample(candidates, n_errors))
    for i in wrong:
        labelled[i] = (labelled[i][0], _swap_first_entity(labelled[i][1]))
    sentences = [
        LabelledSentence(tokens=tuple(words), labels=tuple(labels), id=str(i))
        for i, (words, labels) in enumerate(labelled)
    ]
    return TrainingText(sentences, wrong)


def to_conll(sentences: Sequence[LabelledSentence]) -> str:
    return "\n".join(
        "".join(f"{word}\t{label}\n" for word, label in zip(sentence.tokens, sentence.labels, strict=True))
        for sentence in sentences
    )


def _make_sentence(rng: random.Random) -> tuple[list[str], list[str]]:
    words: list[str] = []
    labels: list[str] = []
    for part in rng.choice(TEMPLATES).split():
        if part == "{drug}":
            _append_entity(words, labels, f"{rng.choice(DRUGS)}", "DRUG")
        elif part == "{disease}":
            _append_entity(words, labels, rng.choice(DISEASES), "DISEASE")
        else:
            words.append(str(rng.randint(1, 99)) if part == "{number}" else part)
            labels.append("O")
    # A running number keeps the sentences apart: equal words would all be in one fold.
    words += ["(", str(rng.randint(100, 10_000)), ")"]
    labels += ["O"] * 3
    return words, labels


def _append_entity(words: list[str], labels: list[str], text: str, kind: str) -> None:
    for i, word in enumerate(text.split()):
        words.append(word)
        labels.append(f"{'I' if i else 'B'}-{kind}")


def _swap_first_entity(labels: list[str]) -> list[str]:
    start = next(i for i, label in enumerate(labels) if label != "O")
    end = next((i for i in range(start + 1, len(labels)) if not labels[i].startswith("I-")), len(labels))
    other = "DISEASE" if labels[start].endswith("DRUG") else "DRUG"
    return [*labels[:start], *(f"{label[:2]}{other}" for label in labels[start:end]), *labels[end:]]
