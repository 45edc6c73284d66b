"""Generates messages of attackers and of broken producers from a seed, with the fate that each must have."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.contracts import DatasetSettings
from service.contracts.sentence import MAX_SENTENCE_CHARS, MAX_WORD_CHARS
from service.log.kafka.library_fixes.messages.header_keys import NonUtf8HeaderKey
from service.log.topics import MAX_INPUT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from service.log.protocol import Headers

ASSESSED = ""  # not a dead letter
MAX_WORDS = 5_000
MAX_VALUE_BYTES = MAX_INPUT_BYTES - 8 * 1024  # key, headers and the batch count towards the limit too
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
DATASETS = (
    DatasetSettings(name="forgets", version=1, forget_after_days=1),
    # With a label set, sentences with other labels don't wait for a model that has them.
    DatasetSettings(name="default", version=1, label_set=("PER", "LOC", "ORG", "MISC")),
)
LARGE_WEIGHT = 0.03  # of a kind of large messages; the others have 1


@dataclass(frozen=True, slots=True)
class HostileMessage:
    kind: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    fates: frozenset[str]  # stages of the dead letter that it may become, or `ASSESSED`

    @property
    def large(self) -> bool:
        return len(self.value or b"") > 10_000


@dataclass(frozen=True, slots=True)
class HostileKind:
    name: str
    fates: tuple[str, ...]
    make: Callable[[random.Random], bytes | None]
    large: bool = False


def make_one_of_each(seed: int) -> list[HostileMessage]:
    """Makes one message of each kind, in random order."""
    rng = random.Random(f"hostile {seed}")
    messages = [_make_message(rng, kind) for kind in KINDS]
    rng.shuffle(messages)
    return messages


def generate_hostile_messages(seed: int) -> Iterator[HostileMessage]:
    """Yields a mix in which large messages are rare: they would take most of the time."""
    rng = random.Random(f"hostile {seed}")
    weights = [LARGE_WEIGHT if kind.large else 1.0 for kind in KINDS]
    while True:
        yield from (_make_message(rng, kind) for kind in rng.choices(KINDS, weights, k=100))


def _make_message(rng: random.Random, kind: HostileKind) -> HostileMessage:
    key = rng.choice([None, b"", b"\xff\xfe\x00", rng.randbytes(20), b"k" * 1_000, b"default/1"])
    return HostileMessage(kind.name, key, kind.make(rng), rng.choice(HEADERS)(rng), frozenset(kind.fates))


def _to_json(**fields: object) -> bytes:
    return json.dumps({"tokens": ["the", "fox"], "labels": ["O", "B-PER"], **fields}, ensure_ascii=False).encode()


def _make_words(count: int, word: str = "a", label: str = "O") -> bytes:
    return _to_json(tokens=[word] * count, labels=[label] * count)


def _nest(depth: int, opening: bytes, closing: bytes, inner: bytes = b"") -> bytes:
    return opening * depth + inner + closing * depth


def _make_mutated(rng: random.Random) -> bytes:
    """A valid message with a few bytes changed."""
    value = bytearray(
        _to_json(
            id="1", revision=3, annotated_at="2024-05-31T12:00:00Z", meta={"a": [1, None]}, source="s", update=True
        )
    )
    for _ in range(rng.randint(1, 4)):
        index = rng.randrange(len(value))
        if rng.random() < 0.5:
            value[index] = rng.randrange(256)
        else:
            value[index:index] = rng.choice(
                [b'"', b"{", b"[", b"null", b"1e99", b"\xff", b"\\ud800", b"\\u0000", b",", b"-"]
            )
    return bytes(value)


def _make_wrong_type(rng: random.Random) -> bytes:
    """A field of the wrong type."""
    field = rng.choice(["tokens", "labels", "dataset", "id", "revision", "update", "deleted", "annotator", "source"])
    return _to_json(**{field: rng.choice([{"a": 1}, [[1]], 1.5, [None], {"tokens": []}])})


def _make_good(rng: random.Random) -> bytes:
    count = rng.randint(1, 12)
    words = ["the", "of", "paris", "Müller", "東京", "e\u0301", "\u200b", "\x00", "\u202e", "", " ", "[PAD]", "##s"]
    return _to_json(tokens=rng.choices(words, k=count), labels=rng.choices(LABELS, k=count))


EXTREMES = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59", "0001-01-01", "2999-01-01")
DECODE, VALIDATE, LABEL, LONG = ("decode",), ("validate",), ("labels",), ("too_long",)
ANY = ("decode", "validate", "labels", "too_long", ASSESSED)
KINDS = (
    HostileKind("random bytes", DECODE, lambda rng: b"\xff" + rng.randbytes(rng.randint(0, 300))),
    HostileKind("no value", DECODE, lambda _: None),
    HostileKind("nothing", DECODE, lambda _: b""),
    HostileKind(
        "text", DECODE, lambda rng: rng.choice([b"hello", b"<xml/>", b"tokens: []", b"NaN,", b"\x00", b"\xef\xbb\xbf"])
    ),
    HostileKind("another encoding", DECODE, lambda _: _make_good(random.Random(1)).decode().encode("utf-16")),
    HostileKind("compressed", DECODE, lambda _: gzip.compress(_make_words(3))),
    HostileKind("cut off", DECODE, lambda rng: (value := _to_json(id="x" * 50))[: rng.randrange(1, len(value))]),
    HostileKind("more behind it", DECODE, lambda _: _make_words(1) + b" {}"),
    HostileKind("half a surrogate pair", DECODE, lambda _: b'{"tokens": ["a\\ud800"], "labels": ["O"]}'),
    HostileKind("surrogates as bytes", DECODE, lambda _: b'{"tokens": ["\xed\xa0\x80"], "labels": ["O"]}'),
    HostileKind("a surrogate in the id", DECODE, lambda _: b'{"tokens": ["a"], "labels": ["O"], "id": "\\udfff"}'),
    HostileKind("deep lists", DECODE, lambda rng: _nest(rng.randint(1_000, 5_000), b"[", b"]")),
    HostileKind("deep objects", DECODE, lambda rng: _nest(rng.randint(1_000, 5_000), b'{"a":', b"}", b"1")),
    HostileKind("never closed", DECODE, lambda rng: b"[" * rng.randint(1_000, 9_000)),
    HostileKind("deep meta", (*DECODE, *VALIDATE, ASSESSED), lambda rng: _make_deep_meta(rng.randint(10, 300))),
    HostileKind(
        "no object", VALIDATE, lambda rng: rng.choice([b"null", b"0", b'"text"', b"[]", b"true", b"[{}]", b"{}"])
    ),
    HostileKind("wrong type", VALIDATE, _make_wrong_type),
    HostileKind("no words", VALIDATE, lambda _: _make_words(0)),
    HostileKind("a label too few", VALIDATE, lambda _: _to_json(labels=["O"])),
    HostileKind(
        "bad dataset",
        VALIDATE,
        lambda rng: _to_json(dataset=rng.choice(["", "NO", "a b", "../x", "x" * 65, "a\u0000"])),
    ),
    HostileKind(
        "bad date", VALIDATE, lambda rng: _to_json(annotated_at=rng.choice(["", "1e5", "2024-13-01", "-1-1-1", "nan"]))
    ),
    HostileKind(
        "early or late",
        (ASSESSED, *VALIDATE),
        lambda rng: _to_json(annotated_at=rng.choice(EXTREMES), dataset="forgets"),
    ),
    HostileKind(
        "numbers without end", (*VALIDATE, *DECODE), lambda _: b'{"tokens": ["a"], "labels": ["O"], "revision": 1e999}'
    ),
    HostileKind(
        "many digits", (*VALIDATE, *DECODE), lambda _: _make_words(1)[:-1] + b', "meta": {"n": ' + b"1" * 9_000 + b"}}"
    ),
    HostileKind("no number", (*VALIDATE, *DECODE), lambda _: _make_words(1)[:-1] + b', "meta": {"n": NaN}}'),
    HostileKind("deletion of nothing", VALIDATE, lambda _: b'{"deleted": true}'),
    HostileKind("unknown label", LABEL, lambda rng: _to_json(labels=["O", f"B-GHOST{rng.randint(0, 9999)}"])),
    HostileKind(
        "odd label",
        LABEL,
        lambda rng: _to_json(labels=["O", rng.choice(["", "o", " O", "B-", "\u0000", "B-O", "%s {0}"])]),
    ),
    HostileKind("a word too many", LONG, lambda rng: _make_words(MAX_WORDS + rng.randint(1, 50)), large=True),
    HostileKind("100,000 words", LONG, lambda _: _make_compact_words(100_000), large=True),
    HostileKind(
        "a long label", LABEL, lambda _: _to_json(labels=["O", "B-" + "X" * (MAX_VALUE_BYTES - 200)]), large=True
    ),
    HostileKind("large and random", DECODE, lambda rng: b"\xff" + rng.randbytes(MAX_VALUE_BYTES - 1), large=True),
    HostileKind("large and deep", DECODE, lambda _: b"[" * MAX_VALUE_BYTES, large=True),
    HostileKind("large and cut off", DECODE, lambda _: _make_words(MAX_WORDS, "x" * 300)[:MAX_VALUE_BYTES], large=True),
    HostileKind(
        "a word without end", LONG, lambda _: _to_json(tokens=["the", "x" * (MAX_VALUE_BYTES - 200)]), large=True
    ),
    HostileKind("a long word", (ASSESSED,), lambda _: _to_json(tokens=["the", "x" * MAX_WORD_CHARS])),
    HostileKind("subwords without end", LONG, lambda _: _make_words(MAX_WORDS, "qz" * 45, "B-PER"), large=True),
    HostileKind("many long words", LONG, lambda _: _make_words(MAX_WORDS, "x" * 180, "B-PER"), large=True),
    HostileKind(
        "long words",
        (ASSESSED,),
        lambda _: _make_words(MAX_SENTENCE_CHARS // 200, "x" * 200, "B-PER"),
        large=True,
    ),
    HostileKind("large meta", (ASSESSED,), lambda _: _to_json(meta={"a": "x" * (MAX_VALUE_BYTES - 200)}), large=True),
    HostileKind("a few bytes changed", ANY, _make_mutated),
    HostileKind("good", (ASSESSED,), _make_good),
    HostileKind("one more dataset", (*VALIDATE, ASSESSED), lambda rng: _to_json(dataset=f"d{rng.randint(0, 99_999)}")),
    HostileKind("deleted", (ASSESSED,), lambda _: b'{"deleted": true, "id": "x", "tokens": ["a"], "labels": []}'),
)
HEADERS: tuple[Callable[[random.Random], Headers], ...] = (
    lambda _: (),
    lambda _: (("x-request-id", b"\xff\xfe"),),
    lambda _: (("x-request-id", b"x" * 2_000), ("x-request-id", b"")),
    lambda rng: tuple((f"h{number}", rng.randbytes(8)) for number in range(100)),
    lambda _: (("", b""), (NonUtf8HeaderKey.from_bytes(b"k\xff\xfe"), b"\x00"), ("__connect.errors.stage", b"a lie")),
    lambda _: (("ce_type", b"labelwatch.sentence.v99"), ("content-type", b"text/plain; charset=ebcdic")),
)


def _make_deep_meta(depth: int) -> bytes:
    return _make_words(1)[:-1] + b', "meta": {"a": ' + _nest(depth, b"[", b"]") + b"}}"


def _make_compact_words(count: int) -> bytes:
    return json.dumps({"tokens": ["a"] * count, "labels": ["O"] * count}, separators=(",", ":")).encode()
