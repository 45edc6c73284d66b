"""schemas/ is what the code says: no drift, examples that validate, and messages of earlier releases that still read."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import numpy as np
import pytest
from pydantic import ValidationError

from schemas import generate, messages
from service.contracts import LabelledSentence, Message, read_sentence
from service.errors import InvalidInput, LabelwatchError, SettingsError
from service.log.codec import build_dead_letter, build_event_headers, parse_position, to_position_value
from service.log.protocol import Record
from service.log.waiting_records import build_waiting_message
from service.statistics.annotators.sums import AnnotatorSums
from service.statistics.arrivals import ArrivalCounts
from service.statistics.batches import DatasetBatches
from service.statistics.memory.snapshot import read_history, read_memory, write_history, write_recent
from service.statistics.running import RunningStats

if TYPE_CHECKING:
    from pathlib import Path

FILES = generate.render_files()
SCHEMAS = messages.build_schemas()
MODELS: dict[str, type[Message]] = {one.name: one.model for one in messages.CONTRACTS}
EXAMPLES = sorted(generate.EXAMPLES.glob("*.json"))
RELEASES = sorted(path for path in generate.RELEASED.iterdir() if path.is_dir())
RELEASED = [path for release in RELEASES for path in sorted((release / "examples").glob("*.json"))]


def contract_of(path: Path) -> str:
    """`sentence.v1.full.json` is an example of sentence.v1."""
    return ".".join(path.name.split(".")[:2])


def told(path: Path) -> str:
    return str(path.relative_to(generate.HERE))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_has_drifted(path: Path) -> None:
    assert path.read_text() == FILES[path], f"{path.name} is not what the code says: run `make schemas` and commit it"


def test_nothing_is_left_over() -> None:
    assert {path.name for path in generate.HERE.glob("*.schema.json")} == {f"{name}.schema.json" for name in SCHEMAS}


def test_every_message_has_examples() -> None:
    assert {contract_of(path) for path in EXAMPLES} == set(SCHEMAS)


@pytest.mark.parametrize("path", EXAMPLES, ids=told)
def test_examples_are_valid(path: Path) -> None:
    value = json.loads(path.read_text())
    jsonschema_rs.validate(SCHEMAS[contract_of(path)], value, validate_formats=True)
    read(path, unknown="forbid")


def read(path: Path, *, unknown: Any = "ignore") -> Message | None:
    """As the service reads it; what has no model is read by its own function."""
    name, text = contract_of(path), path.read_text()
    if name in MODELS:
        return MODELS[name].model_validate_json(text, extra=unknown)
    if name == "state.v1":
        restored = RunningStats.restore(json.loads(text))
        assert restored.snapshot() == json.loads(text)
    elif name == "memory.v1":
        assert write_recent(read_memory(json.loads(text), None))["forms"] == json.loads(text)["forms"]
    elif name == "history.v1":
        assert write_history(read_history(json.loads(text))) == json.loads(text)
    elif name == "arrivals.v1":
        assert ArrivalCounts.restore(json.loads(text)).snapshot() == json.loads(text)
    elif name == "annotator.v1":
        assert AnnotatorSums.restore(json.loads(text)).snapshot() == json.loads(text)
    elif name == "batches.v1":
        assert DatasetBatches.restore(json.loads(text)).snapshot() == json.loads(text)
    elif name == "position.v1":
        assert parse_position(text.encode()) == json.loads(text)["next_offset"]
    return None


# -- compatibility -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RELEASED, ids=told)
def test_messages_of_earlier_releases_still_read(path: Path) -> None:
    """With every field they had: a field that was renamed or dropped would be lost without a word."""
    found = read(path)
    value = json.loads(path.read_text())
    if found is not None:
        assert within(value, found.model_dump(mode="json"))
    jsonschema_rs.validate(SCHEMAS[contract_of(path)], value)


def within(old: object, new: object) -> bool:
    if isinstance(old, dict):
        return isinstance(new, dict) and all(name in new and within(value, new[name]) for name, value in old.items())
    if isinstance(old, list):
        return isinstance(new, list) and len(old) == len(new) and all(map(within, old, new))
    return same_moment(old, new) if isinstance(old, str) and isinstance(new, str) else old == new


def same_moment(old: str, new: str) -> bool:
    try:
        return old == new or datetime.fromisoformat(old) == datetime.fromisoformat(new)
    except ValueError:
        return False


@pytest.mark.parametrize("release", RELEASES, ids=told)
def test_consumers_of_earlier_releases_can_read_today_s_messages(release: Path) -> None:
    for path in EXAMPLES:
        schema = release / f"{contract_of(path)}.schema.json"
        if schema.exists():
            jsonschema_rs.validate(json.loads(schema.read_text()), json.loads(path.read_text()))


def test_there_is_a_release_to_compare_with() -> None:
    assert RELEASED
    assert {contract_of(path) for path in RELEASED} <= set(SCHEMAS)


def test_a_lost_field_would_show() -> None:
    old = {"id": "1", "flags": [{"index": 0, "token": "a"}]}
    assert within(old, {**old, "new": 1})
    assert not within(old, {"id": "1", "flags": [{"index": 0}]})
    assert not within(old, {"id": "1", "flags": []})
    assert within("2024-05-28T12:40:01.250000Z", "2024-05-28T12:40:01.25+00:00")


# -- the schemas say what the code does --------------------------------------------------------------------------------

GOOD = {"tokens": ["Oslo"], "labels": ["B-LOC"]}


@pytest.mark.parametrize(
    "value",
    [
        {**GOOD, "dataset": "News"},
        {**GOOD, "id": ""},
        {**GOOD, "revision": "7"},
        {**GOOD, "revision": 2**63},
        {**GOOD, "update": 1},
        {**GOOD, "annotator": "x" * 257},
        {**GOOD, "labels": [1]},
        {"tokens": [], "labels": []},
        {"tokens": ["Oslo"]},
        {},
        {"deleted": True},
        {"deleted": False, "id": "1"},
        {"deleted": True, "id": None},
        [],
    ],
)
def test_what_the_code_refuses_the_schema_refuses(value: Any) -> None:
    assert not jsonschema_rs.is_valid(SCHEMAS["sentence.v1"], value)
    with pytest.raises((ValidationError, InvalidInput)):
        read_sentence(json.dumps(value))


@pytest.mark.parametrize(
    "value", [GOOD, {**GOOD, "from_a_newer_producer": 1}, {"deleted": True, "id": "1"}, {**GOOD, "meta": {"a": [1]}}]
)
def test_what_the_code_reads_the_schema_allows(value: Any) -> None:
    jsonschema_rs.validate(SCHEMAS["sentence.v1"], value)
    assert isinstance(read_sentence(json.dumps(value)), LabelledSentence)


def test_statistics_as_they_are_written_fit_their_schema() -> None:
    probs = np.array([[0.9, 0.1], [0.2, 0.8]])
    for stats in (
        RunningStats.empty(2),
        RunningStats.empty(2).update(probs, np.array([0, 1]), priority=0.3),
        RunningStats.empty(2, keep_days=3).update(probs, np.array([1, 1]), day="2024-05-28", priority=0.9),
    ):
        jsonschema_rs.validate(SCHEMAS["state.v1"], json.loads(json.dumps(stats.snapshot())))
    smoothed = RunningStats.empty(2).update(probs, np.array([0, 1]), smoothed=probs[::-1])
    jsonschema_rs.validate(SCHEMAS["state.v1"], json.loads(json.dumps(smoothed.snapshot())))
    jsonschema_rs.validate(SCHEMAS["position.v1"], json.loads(to_position_value(7)))
    counts = ArrivalCounts().count_labels(["B-DRUG"]).store()
    for arrivals in (counts, counts.release(3)):
        jsonschema_rs.validate(SCHEMAS["arrivals.v1"], json.loads(json.dumps(arrivals.snapshot())))


def kinds_of(error: type[LabelwatchError]) -> list[type[LabelwatchError]]:
    return [error, *(kind for child in error.__subclasses__() for kind in kinds_of(child))]


def test_headers_as_they_are_written_fit_their_schema() -> None:
    record = Record("labelwatch.sentences", 3, 14, b"k", b"{", (("mine", b"1"),))
    for stage in messages.list_stages():
        error = next(kind for kind in kinds_of(LabelwatchError) if kind.stage == stage)
        letter = build_dead_letter("labelwatch.dead-letters", record, error("what to change"))
        headers = {name: value.decode() for name, value in letter.headers}
        jsonschema_rs.validate(SCHEMAS["dead-letter-headers.v1"], headers)
        assert headers["mine"] == "1"
    assert messages.list_stages() == ["decode", "inference", "labels", "too_long", "validate"]
    for key in (b"k", None):
        sentence = LabelledSentence(tokens=("a",), labels=("B-DRUG",), id="1")
        stored = build_waiting_message("labelwatch.waiting", dataclasses.replace(record, key=key), sentence)
        jsonschema_rs.validate(
            SCHEMAS["waiting-headers.v1"], {name: value.decode() for name, value in stored.headers if name != "mine"}
        )
    written = build_event_headers("labelwatch.assessment.v1", event_id="1", at=datetime.now(UTC))
    jsonschema_rs.validate(SCHEMAS["event-headers.v1"], {name: value.decode() for name, value in written})


def test_a_release_is_frozen_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "RELEASED", tmp_path)
    folder = generate.freeze_release("9.9.9")
    assert sorted(path.name for path in folder.glob("*.schema.json")) == sorted(
        f"{name}.schema.json" for name in SCHEMAS
    )
    example = next((folder / "examples").iterdir())
    example.write_text("as it was released")
    with pytest.raises(SettingsError, match=r"9\.9\.9 is frozen already.*raise the version"):
        generate.freeze_release("9.9.9")
    assert example.read_text() == "as it was released"
