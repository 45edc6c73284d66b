"""Generates messages from a seed: sentences of several datasets, updates, deletions, and invalid messages."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.contracts import DatasetSettings
from service.inference.classifier import WordProbs
from tests.support.tiny_models import POISON_WORD, make_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from service.inference.classifier import Classifier
    from service.log.protocol import Headers

MAX_WORDS = 40
SERIAL = "serial"
ANNOTATORS = ("kim", "lee", "a/b", None)
WORDS = (
    *("the", "of", "in", "said", "on", "monday", "land", "min", "timber", "wolves", "paris", "(min)"),
    *("Oslo", "rates", "12", "Müller", "quickly", ".", "東京", "e\u0301"),
)
CHUNK_SIZE = 64
SECOND_MODEL = "second"  # of the registry
WRONG_LABEL_SHARE = 0.05  # of the words; the others have the label that the model predicts
# The datasets whose settings are sent before the first sentence. The others use the defaults.
DATASETS = (
    DatasetSettings(
        name="mapped", version=1, label_map={"PERSON": "PER"}, unmapped="unscored", control_share=0.25, scheme="iob2"
    ),
    DatasetSettings(name="types", version=1, scheme="io", memory="off"),
    DatasetSettings(name="fading", version=1, forget_after_days=8),
    DatasetSettings(name="documents", version=1, memory="documents"),
    DatasetSettings(name="second", version=1, model=SECOND_MODEL),
)
# What `FaultKind.SETTINGS` sends. Neither change starts the statistics anew.
CHANGED_DATASETS = (
    DATASETS[0].model_copy(update={"version": 2, "control_share": 0.75}),
    DATASETS[2].model_copy(update={"version": 2, "forget_after_days": 4}),
)
DATASET_NAMES = ("default", "news", *(settings.name for settings in DATASETS))


@dataclass(frozen=True, slots=True)
class GeneratedMessage:
    """A message, and the stage of the dead letter that it must become; none if it is valid."""

    serial: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    stage: str | None


def make_second_model(registry: Path) -> Path:
    """Writes the model that the dataset `second` names to a registry. It has the same labels and other weights."""
    folder = registry / SECOND_MODEL
    return make_model(folder, "wordpiece", seed=1, poison="fails", manifest={"invariant": "exact"})


def generate_messages(seed: int, classifier: Classifier) -> Iterator[GeneratedMessage]:
    """Yields messages without end. They depend on the seed and the model only."""
    rng = random.Random(seed)
    known: list[tuple[str, str]] = []
    serial = 0
    while True:
        texts = [rng.choices(WORDS, k=rng.randint(1, 14)) for _ in range(CHUNK_SIZE)]
        for tokens, words in zip(texts, classifier.infer(texts), strict=True):
            assert isinstance(words, WordProbs)
            labels = classifier.folder.labels
            given_labels = [
                rng.choice(labels) if rng.random() < WRONG_LABEL_SHARE else labels[k]
                for k in words.probs.argmax(axis=1)
            ]
            draw = rng.random()
            if draw < 0.1:
                stage, value = _make_bad(rng)
                key = rng.choice([None, b"", rng.randbytes(5)]) if value is not None else b"tombstone"
            elif draw < 0.15 and known:
                stage, key, value = None, *_make_deletion(rng, known)
            else:
                stage, key, value = None, *_make_sentence(rng, serial, tokens, given_labels, known)
            yield GeneratedMessage(serial, key, value, _make_headers(rng, serial), stage)
            serial += 1


def _make_headers(rng: random.Random, serial: int) -> Headers:
    more: Headers = (("trace", rng.randbytes(4)), ("trace", b""), ("x-request-id", b"r-%d" % serial))
    return ((SERIAL, b"%d" % serial), *(more if rng.random() < 0.3 else ()))


def _make_sentence(
    rng: random.Random, serial: int, tokens: list[str], given_labels: list[str], known: list[tuple[str, str]]
) -> tuple[bytes | None, bytes]:
    """A new sentence, or sometimes a known one that is annotated again."""
    name = rng.choice(DATASET_NAMES)
    message: dict[str, Any] = {"tokens": tokens, "labels": given_labels}
    if name == "default" and rng.random() < 0.8:
        return None, _to_json(message)  # a minimal message
    again = bool(known) and rng.random() < 0.15
    name, identity = rng.choice(known) if again else (name, f"s{serial}")
    if name == "mapped":
        given_labels = [label.replace("PER", "PERSON") for label in given_labels]
        given_labels = [label.replace("MISC", "THING") for label in given_labels]  # the model has no such class
    elif name == "types":
        given_labels = [label.split("-")[-1] for label in given_labels]
    message |= {"labels": given_labels, "dataset": name, "id": identity, "new_field": None}
    annotator = ANNOTATORS[serial % len(ANNOTATORS)]
    if annotator or name == "fading":  # without a day of its own a sentence would be of today, and all others too old
        message["annotated_at"] = f"1969-05-{1 + serial % 31:02}T12:00:00Z"
    if annotator:
        message["annotator"] = annotator
    if name == "documents":
        message["document"] = f"d{serial // 50}"
    if again:
        message |= {"update": True, "revision": serial}
    else:
        known.append((name, identity))
    return f"{name}/{identity}".encode() if rng.random() < 0.8 else None, _to_json(message)


def _make_deletion(rng: random.Random, known: list[tuple[str, str]]) -> tuple[bytes, bytes]:
    name, identity = rng.choice(known)
    return f"{name}/{identity}".encode(), _to_json({"dataset": name, "id": identity, "deleted": True})


def _make_bad(rng: random.Random) -> tuple[str, bytes | None]:
    stage, make = rng.choice(BAD)
    return stage, make(rng)


def _to_json(message: object) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode()


BAD: tuple[tuple[str, Callable[[random.Random], bytes | None]], ...] = (
    ("decode", lambda rng: b"\xff" + rng.randbytes(rng.randint(0, 200))),
    ("decode", lambda _: b""),
    ("decode", lambda _: None),
    ("decode", lambda rng: b"[" * rng.randint(1_000, 20_000)),
    ("decode", lambda _: b'{"tokens": ["\\ud800"], "labels": ["O"]}'),
    ("decode", lambda _: b'{"tokens": ["the"], "labels": ["O"]'),
    ("validate", lambda rng: _to_json(rng.choice([None, 1, "text", [], {}, [{"tokens": ["a"], "labels": ["O"]}]]))),
    ("validate", lambda _: _to_json({"tokens": [], "labels": []})),
    ("validate", lambda rng: _to_json({"tokens": rng.choice([{"a": 1}, [1], "a", None]), "labels": ["O"]})),
    ("validate", lambda _: _to_json({"tokens": ["the", "of"], "labels": ["O"]})),
    ("validate", lambda _: _to_json({"tokens": ["the"], "labels": ["O"], "dataset": "NO SUCH NAME"})),
    ("validate", lambda _: _to_json({"tokens": ["the"], "labels": ["O"], "update": "yes"})),
    ("labels", lambda rng: _to_json({"tokens": ["the"], "labels": [f"B-GHOST{rng.randint(0, 99)}"]})),
    (
        "too_long",
        lambda rng: _to_json({"tokens": ["the"] * (n := MAX_WORDS + rng.randint(1, 500)), "labels": ["O"] * n}),
    ),
    ("inference", lambda _: _to_json({"tokens": ["the", POISON_WORD], "labels": ["O", "O"]})),
)
