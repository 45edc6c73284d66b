"""Exports of annotation platforms on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import Assessment, LabelledSentence
from service.formats.text.alignment import to_text_spans
from service.log.topics import Topics
from tests.support import platform_bodies as bodies

if TYPE_CHECKING:
    from tests.support.command_harness import CommandHarness

TOPICS = Topics()
TASKS = [
    bodies.make_task(
        annotations=[bodies.make_annotation(bodies.make_region("Mara Quill", "PER"), bodies.make_region("Riga", "LOC"))]
    ),
    bodies.make_task(id=8, annotations=[bodies.make_annotation(id=42, was_cancelled=True)]),
]
SPANS = [[0, 10, "PER"], [32, 36, "LOC"]]
FILES: dict[str, Any] = {
    "label-studio": TASKS[:1],
    "argilla": [{"id": "r", "fields": {"text": bodies.TEXT}, "responses": {"q": [{"value": [
        bodies.make_span("Mara Quill", "PER"), bodies.make_span("Riga", "LOC")], "user_id": "u"}]}}],
    "doccano": [{"id": 1, "text": bodies.TEXT, "label": SPANS}],
    "prodigy": [{"text": bodies.TEXT, "spans": [dict(zip(("start", "end", "label"), span, strict=True)) for span in SPANS], "answer": "accept"}],
    "spans": [{"text": bodies.TEXT, "spans": SPANS}],
}  # fmt: skip


def sent(harness: CommandHarness) -> list[LabelledSentence]:
    return [
        LabelledSentence.model_validate_json(record.value or b"") for record in harness.read_records(TOPICS.sentences)
    ]


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize("named", [True, False])
def test_every_platform_can_be_sent(harness: CommandHarness, form: str, named: bool) -> None:
    path = harness.folder / "export.json"
    path.write_text(json.dumps(FILES[form], indent=1))
    ran = harness.run("send", path, *(["--format", form] if named else []))
    assert (ran.code, len(ran.err.splitlines())) == (0, 1)  # only the line about the new log
    (sentence,) = sent(harness)
    assert sentence.labels == ("B-PER", "I-PER", "O", "O", "O", "O", "B-LOC", "O")
    assert [(span.text, span.label) for span in to_text_spans(sentence) or ()] == [
        ("Mara Quill", "PER"),
        ("Riga", "LOC"),
    ]


def test_skipped_tasks_are_sent_as_deleted_and_links_lead_back(harness: CommandHarness) -> None:
    path = harness.folder / "export.json"
    path.write_text(json.dumps(TASKS))
    ran = harness.run("send", path, "--dataset", "trips", "--platform-url", "https://ls.example.org/")
    assert ran.out == f"2 sentences sent to labelwatch.sentences in {harness.log_path}\n"
    first, second = sent(harness)
    assert first.source == "https://ls.example.org/projects/3/data?task=7"
    assert (second.id, second.deleted, second.dataset) == ("label-studio:42", True, "trips")
    ran = harness.run("send", path, "--platform-url", "ls.example.org")
    assert ran.code == 2
    assert "is not an address such as" in " ".join(ran.err.replace("│", " ").split())


def test_spans_are_judged_in_the_scheme_that_is_named(harness: CommandHarness) -> None:
    path, out = harness.folder / "export.jsonl", harness.folder / "out.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in FILES["doccano"]))
    for options, label in (([], "I-PER"), (["--scheme", "biluo"], "L-PER")):
        ran = harness.run("score", path, "--model", harness.model, "-o", out, *options)
        assert ran.code == 0, ran.err
        assert Assessment.model_validate_json(out.read_text()).labels[1] == label


def test_an_annotation_that_cannot_be_read_is_named_with_its_field(harness: CommandHarness) -> None:
    both = bodies.make_annotation(bodies.make_region("Mara Quill", "PER"), bodies.make_region("Quill", "ORG"))
    path = harness.folder / "export.json"
    path.write_text(json.dumps([bodies.make_task(annotations=[both, bodies.make_annotation(id=42)])]))
    ran = harness.run("send", path)
    assert ran.code == 1
    assert "export.json:1: `annotations.0.result.1.value`: it overlaps" in ran.err
    message = f"1 sentence sent to labelwatch.sentences in {harness.log_path}, 1 skipped\n"
    assert harness.run("send", path, "--on-error", "skip").out == message
