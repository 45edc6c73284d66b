"""What is fuzzed: readers of bytes, each with inputs to start from and the errors that it may raise."""

from __future__ import annotations

import io
import json
import socket
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from service.contracts import Decision, read_sentence
from service.datasets.settings_records import read_settings_record
from service.errors import InvalidInput, ModelError, StateError
from service.formats import FORMATS, ReadOptions, read_records, write_sentences
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.inference.tokenization.tokenizer import load_tokenizer
from service.log.protocol import Record
from service.review.messages import encode_claim_key, encode_decision_key, parse_decision_record, parse_review_record
from service.stream.state.reader import read_state_record
from tests.support import platform_bodies as bodies
from tests.support.api_harness import TOPICS, api_harness
from tests.support.command_harness import make_sentences
from tests.support.live_server import serve_app
from tests.support.tiny_models import make_model, write_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.support.api_harness import ApiHarness

SENTENCE = {"tokens": ["Jane", "visited", "Oslo"], "labels": ["B-PER", "O", "B-LOC"], "id": "1", "dataset": "default"}
PROBABILITIES = {"classes": ["O", "B-PER"], "words": [[0.5, 0.5], [1, 0], [1, 0]]}
SETTINGS = {
    "name": "default", "version": 3, "label_map": {"PERSON": "PER"}, "label_set": ["PER", "LOC"], "overlap": 2,
    "flag_policy": {"kind": "budget", "share": 0.05}, "control_share": 0.1,
}  # fmt: skip
DECISION = {
    "dataset": "default",
    "id": "1",
    "revision": 0,
    "reviewer": "kim",
    "verdict": "error",
    "labels": ["O", "O", "O"],
}
CLAIM = {"dataset": "default", "id": "1", "reviewer": "kim", "until": "2026-01-01T00:00:00Z"}
TEXTS = (
    b"EU B-ORG\nwins O\n\n-DOCSTART- O\n\nin IN O\n", b"# id = 1\nOslo\tB-LOC\n", b"word,label,sentence\nOslo,B-LOC,1\nis,O,1\n",
    b'tokens\tlabels\n"[""a"", ""b""]"\tO O\n', b"Oslo|B-LOC is|O\n",
)  # fmt: skip
RECORDS: tuple[dict[str, Any], ...] = (
    SENTENCE, SENTENCE | {"probabilities": PROBABILITIES, "meta": {"a": 1}}, bodies.make_event(), bodies.make_event("ANNOTATIONS_DELETED"),
    bodies.make_task(annotations=[bodies.make_annotation(bodies.make_region("Riga", "LOC"))]), bodies.make_argilla_event(),
    {"id": "x", "fields": {"text": bodies.TEXT}, "responses": {"q": [{"value": [bodies.make_span("Riga", "LOC")]}]}},
    {"text": bodies.TEXT, "label": [[0, 4, "PER"]], "id": 1}, {"text": "a b", "spans": [{"start": 0, "end": 1, "label": "X"}], "answer": "accept"},
    {"features": [{"name": "ner_tags", "type": {"names": ["O"]}}], "rows": [{"row": {"tokens": ["a"], "ner_tags": [0]}}]},
    {"tokens": [["a"]], "ner_tags": [[0]], "names": ["O"]}, {"tokens": ["a"], "ner_tags": [1]},
)  # fmt: skip
HEADS = (
    b"GET /v1/review?dataset=default&limit=5 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b'GET /v1/datasets/default/annotators/anna/items?after=x HTTP/1.1\r\nHost: 127.0.0.1\r\nIf-None-Match: "1"\r\n\r\n',
    b"GET /v1/review/default/1 HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: a=b\r\n\r\n",
    b"POST /v1/score HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    b"POST /v1/sentences HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
)
ROUTES = (
    "/v1/score", "/v1/score?format=auto", "/v1/sentences", "/v1/decisions", "/v1/decisions/preview", "/v1/review/next",
    "/v1/webhooks/label-studio", "/v1/webhooks/argilla",
)  # fmt: skip
CHANGES = (
    ("PUT", "/v1/datasets/fuzzed"), ("PATCH", "/v1/datasets/fuzzed"), ("PUT", "/v1/datasets/fuzzed/label-set"),
    ("POST", "/v1/dead-letters/replay"),
)  # fmt: skip
MANIFEST = "model.json"
JSON_TYPE, NDJSON_TYPE = "application/json", "application/x-ndjson"
ANSWER_TIMEOUT_S = 20.0


class ServerError(Exception):
    """An answer with a 5xx status, or none."""


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    inputs: Sequence[bytes]
    read: Callable[[bytes], object]
    allowed: tuple[type[Exception], ...] = (InvalidInput,)


def _encode(*values: object) -> tuple[bytes, ...]:
    return tuple(json.dumps(value).encode() for value in values)


def _build_format_target(name: str | None) -> Target:
    options = ReadOptions(label_names=("O", "B-X"), id_prefix="f:")

    def read(data: bytes) -> None:
        records = read_records(io.BytesIO(data), format=name, options=options)
        sentences = [record.sentence for record in records if record.sentence is not None]
        write_sentences(io.StringIO(), "jsonl", sentences)

    lines = _encode(*RECORDS)
    return Target(
        f"format {name or 'detected'}", (*TEXTS, *lines, b"\n".join(lines), b"[" + b",".join(lines) + b"]"), read
    )


def _build_message_targets(states: Sequence[bytes]) -> list[Target]:
    """`states`: records of the state topic, each as its key, a line feed and its value."""

    def record(data: bytes) -> Record:
        return Record("topic", 0, 0, b"default", data)

    def read_state(data: bytes) -> None:
        key, _, value = data.partition(b"\n")
        read_state_record("state", key, value)

    def read_decision(data: bytes) -> None:
        key, _, value = data.partition(b"\n")
        parse_decision_record(Record("decisions", 0, 0, key, value or None))

    decisions = (
        encode_decision_key("default", "1", "kim") + b"\n" + json.dumps(DECISION).encode(),
        encode_claim_key("default", "1", "kim") + b"\n" + json.dumps(CLAIM).encode(),
        encode_claim_key("default", "1", "kim") + b"\n",
    )
    return [
        Target("sentences topic", _encode(*RECORDS), read_sentence),
        Target("settings topic", _encode(SETTINGS), lambda data: read_settings_record(record(data))),
        Target("decisions topic", decisions, read_decision, (ValidationError,)),
        Target(
            "review topic",
            _encode(SENTENCE | DECISION),
            lambda data: parse_review_record(record(data)),
            (ValidationError,),
        ),
        Target("state topic", states, read_state, (StateError,)),
        Target("decision message", _encode(DECISION), Decision.model_validate_json, (ValidationError,)),
    ]


def _build_model_targets(folder: Path) -> list[Target]:
    model = make_model(folder / "fuzzed", "wordpiece")
    write_manifest(model)
    targets = []
    for name in (MANIFEST, "tokenizer.json"):
        path = model / name
        original = path.read_bytes()

        def read(data: bytes, path: Path = path, original: bytes = original) -> None:
            path.write_bytes(data)
            try:
                if path.name != MANIFEST:
                    write_manifest(model)  # else the digest stops every change
                load_tokenizer(ModelFolder.load(model))
            finally:
                path.write_bytes(original)
                if path.name != MANIFEST:
                    write_manifest(model)

        targets.append(Target(f"model folder {name}", (original,), read, (ModelError, InvalidInput)))
    return targets


def _build_rest_targets(harness: ApiHarness) -> list[Target]:
    def build(path: str, method: str = "POST", kinds: Sequence[str] = (JSON_TYPE, NDJSON_TYPE)) -> Target:
        def read(data: bytes) -> None:
            for kind in kinds:
                answer = harness.client.request(method, path, content=data, headers={"Content-Type": kind})
                if answer.status_code >= 500 or b'"status":500' in answer.content.replace(b" ", b""):
                    raise ServerError(f"{answer.status_code} {answer.text[:500]}")

        inputs = _encode(
            *RECORDS,
            {"sentences": [SENTENCE]},
            DECISION,
            {"decisions": [DECISION]},
            {"action": "ok", "items": []},
            SETTINGS,
        )
        return Target(f"{method} {path}", inputs, read)

    return [
        *(build(path) for path in ROUTES),
        *(build(path, method, (JSON_TYPE,)) for method, path in CHANGES),
    ]


def _build_head_target(port: int) -> Target:
    def read(data: bytes) -> None:
        answer = b""
        try:
            with socket.create_connection(("127.0.0.1", port), ANSWER_TIMEOUT_S) as client:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                while part := client.recv(65_536):
                    answer += part
        except TimeoutError:
            raise ServerError(f"no answer within {ANSWER_TIMEOUT_S:g} s") from None
        except OSError:
            return
        if answer.startswith(b"HTTP/1.1 5"):
            raise ServerError(answer[:500].decode(errors="replace"))

    return Target("HTTP head", HEADS, read)


def _list_states(harness: ApiHarness) -> list[bytes]:
    """What the worker has written: statistics, memory, annotators, arrivals and positions."""
    records = harness.log.read(TOPICS.state, 0, 100)
    assert records
    return [(record.key or b"") + b"\n" + (record.value or b"") for record in records]


@contextmanager
def open_targets(folder: Path) -> Iterator[list[Target]]:
    classifier = Classifier(ModelFolder.load(make_model(folder / "model", "wordpiece")))
    with api_harness(folder, classifier) as harness:
        harness.send(*make_sentences(3))
        stop = threading.Event()
        thread = threading.Thread(target=harness.backend.batcher.run, args=(stop,))
        thread.start()
        with ExitStack() as stack:
            stack.callback(thread.join)
            stack.callback(stop.set)
            port = stack.enter_context(serve_app(harness.app))
            yield [
                *(_build_format_target(name) for name in (None, *FORMATS)),
                *_build_message_targets(_list_states(harness)),
                *_build_model_targets(folder),
                *_build_rest_targets(harness),
                _build_head_target(port),
            ]
