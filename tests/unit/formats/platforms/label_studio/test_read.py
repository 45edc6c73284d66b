from __future__ import annotations

import copy
import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from service.errors import InvalidInput
from service.formats import FileRecord, ReadOptions, read_records
from service.formats.platforms.label_studio.labeling_config import SpanControl, parse_span_controls
from service.formats.platforms.label_studio.webhook import NO_PAYLOAD, from_event
from tests.support.platform_bodies import CONFIG, TEXT, make_annotation, make_event, make_region, make_task

if TYPE_CHECKING:
    from pathlib import Path

    from service.contracts import LabelledSentence

NOW = datetime(2026, 3, 2, tzinfo=UTC)
LABELS = ("B-PER", "I-PER", "O", "O", "O", "O", "B-LOC", "O")
REVISION = int(datetime(2026, 3, 1, 10, tzinfo=UTC).timestamp()) * 1_000_000 + 2


def read_one(body: dict[str, Any], **options: Any) -> LabelledSentence:
    (sentence,) = from_event(body, received_at=NOW, dataset="trips", options=ReadOptions(**options)).sentences
    return sentence


def read_all(*objects: object, **options: Any) -> list[FileRecord]:
    text = json.dumps(objects[0] if len(objects) == 1 and isinstance(objects[0], list) else list(objects))
    return list(read_records(io.BytesIO(text.encode()), options=ReadOptions(**options)))


# -- webhooks ----------------------------------------------------------------------------------------------------------


def test_a_created_annotation() -> None:
    sentence = read_one(make_event(), base_url="https://ls.example.org/")
    assert (sentence.tokens, sentence.labels) == (
        ("Mara", "Quill", "flew", "from", "Tallinn", "to", "Riga", "."),
        LABELS,
    )
    assert (sentence.id, sentence.dataset, sentence.revision, sentence.update, sentence.deleted) == (
        "label-studio:41", "trips", REVISION, False, False,
    )  # fmt: skip
    assert (sentence.annotator, sentence.source) == ("5", "https://ls.example.org/projects/3/data?task=7")
    assert sentence.annotated_at == datetime(2026, 3, 1, 10, 0, 0, 2, tzinfo=UTC)
    assert sentence.meta == {
        "splitter": "labelwatch-words-1",
        "scheme": "iob2",
        "alignment": "exact",
        "text": TEXT,
        "format": "label-studio",
        "project": "3",
        "task": "7",
        "from_name": "label",
        "to_name": "text",
        "kept": {"data": {"doc": "d"}},
    }


def test_an_updated_annotation() -> None:
    body = make_event("ANNOTATION_UPDATED", annotation=make_annotation(updated_at="2026-03-01T10:00:05Z"))
    sentence = read_one(body)
    assert sentence.update
    assert sentence.revision == REVISION + 4_999_998
    assert set(sentence.labels) == {"O"}
    assert sentence.meta is not None
    assert sentence.meta["from_name"] == "label"  # the project's only one


def test_deleted_annotations() -> None:
    first, second = from_event(make_event("ANNOTATIONS_DELETED"), received_at=NOW).sentences
    assert (first.id, first.deleted, first.tokens) == ("label-studio:41", True, ())
    assert second.id == "label-studio:42"
    assert first.revision == int(NOW.timestamp()) * 1_000_000 > REVISION


def test_deleted_tasks_stand_for_all_that_was_annotated_in_them() -> None:
    body = {"action": "TASKS_DELETED", "tasks": [{"id": 7}, {"id": 8}], "project": {"id": 3}}
    event = from_event(body, received_at=NOW, dataset="trips")
    assert event.deleted_tasks == ("7", "8")
    first, second = event.sentences
    assert (first.id, first.deleted, first.dataset) == ("label-studio:task:7", True, "trips")
    assert (first.revision, second.id) == (int(NOW.timestamp()) * 1_000_000, "label-studio:task:8")
    assert first.meta == {"format": "label-studio", "task": "7", "project": "3"}
    (kept,) = read_all({**body, "tasks": [{"id": 7}]})
    assert kept.sentence is not None
    assert kept.sentence.id == first.id


def test_annotations_created_together_find_their_tasks() -> None:
    other = make_task(id=8, data={"text": "Riga won"})
    body = make_event(
        "ANNOTATIONS_CREATED",
        annotation=[make_annotation(make_region("Riga", "LOC", text="Riga won"), id=42, task=8), make_annotation()],
        task=[make_task(), other],
    )
    first, second = from_event(body, received_at=NOW).sentences
    assert (first.id, first.labels) == ("label-studio:42", ("B-LOC", "O"))
    assert len(second.tokens) == 8


def test_of_annotations_created_together_a_bad_one_costs_only_itself() -> None:
    twice = make_annotation(make_region("Riga", "LOC"), make_region("Riga", "ORG"), id=42)
    body = make_event(
        "ANNOTATIONS_CREATED",
        annotation=[twice, make_annotation(), make_annotation(id=43, task=99)],
        task=[make_task()],
    )
    event = from_event(body, received_at=NOW)
    assert [one.id for one in event.sentences] == ["label-studio:41"]
    assert [error.field for error in event.errors] == ["annotation.0.result.1.value", "task"]
    read = read_all(body)
    assert [one.sentence is None for one in read] == [True, False, True]
    with pytest.raises(InvalidInput, match="overlaps"):
        from_event({**body, "annotation": [twice]}, received_at=NOW)


@pytest.mark.parametrize("action", ["ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_DELETED"])
def test_a_webhook_without_payload_is_answered(action: str) -> None:
    event = from_event({"action": action}, received_at=NOW)
    assert (event.sentences, event.ignored_reason) == ((), NO_PAYLOAD)


@pytest.mark.parametrize("action", ["TASKS_CREATED", "PROJECT_UPDATED", "LABEL_LINK_CREATED", "SOMETHING_NEW"])
def test_other_events_are_answered(action: str) -> None:
    event = from_event(make_event(action), received_at=NOW)
    assert event.sentences == ()
    assert event.ignored_reason is not None


def test_a_skipped_task_is_nothing_new_but_takes_an_annotation_back() -> None:
    skipped = make_annotation(was_cancelled=True)
    created = from_event(make_event(annotation=skipped), received_at=NOW)
    assert (created.sentences, created.ignored_reason) == ((), "skipped by the annotator")
    (sentence,) = from_event(make_event("ANNOTATION_UPDATED", annotation=skipped), received_at=NOW).sentences
    assert (sentence.id, sentence.deleted, sentence.revision) == ("label-studio:41", True, REVISION)


def test_the_annotators_address_is_included_where_it_is_known() -> None:
    body = make_event()
    body["annotation"]["completed_by"] = {"id": 5, "email": "q@example.org"}
    assert read_one(body).annotator == "q@example.org"


def test_the_projects_interface_names_the_text() -> None:
    config = copy.deepcopy(CONFIG)
    config["label"]["inputs"][0]["value"] = "$body"  # type: ignore[index]
    body = make_event(task=make_task(data={"text": "not this", "body": TEXT}))
    body["project"]["parsed_label_config"] = config
    assert read_one(body).labels == LABELS


def test_results_that_are_no_spans_are_left_out() -> None:
    body = make_event()
    body["annotation"]["result"] += [
        {"type": "choices", "from_name": "topic", "value": {"choices": ["travel"]}},
        {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right"},
    ]
    assert read_one(body).labels == LABELS


def test_utf16_offsets_of_old_browsers() -> None:
    text = "🛫 " + TEXT
    old = make_region("Riga", "LOC", text=text)
    old["value"]["start"] += 1
    old["value"]["end"] += 1
    sentence = read_one(make_event(annotation=make_annotation(old), task=make_task(data={"text": text})))
    assert sentence.labels[-2:] == ("B-LOC", "O")
    assert sentence.meta is not None
    assert sentence.meta["given_offsets"] == "utf-16"


def test_one_of_several_controls_can_be_chosen() -> None:
    other = make_region("Mara", "NOUN", from_name="pos")
    body = make_event(annotation=make_annotation(make_region("Mara Quill", "PER"), other))
    body["project"]["parsed_label_config"]["pos"] = copy.deepcopy(CONFIG["label"])
    with pytest.raises(InvalidInput, match="spans of label and of pos: say which control counts"):
        read_one(body)
    assert read_one(body, label="pos").labels[:2] == ("B-NOUN", "O")


def two_texts(**about: Any) -> dict[str, Any]:
    """A project with a control for the title and one for the body; the task has a text beside them."""
    config = {name: copy.deepcopy(CONFIG["label"]) for name in ("title_spans", "body_spans")}
    for name, control in config.items():
        control["inputs"][0]["value"] = f"${name.removesuffix('_spans')}"  # type: ignore[index]
    data = {"title": "Calm seas", "body": TEXT, "text": "not this"}
    body = make_event(**{"annotation": make_annotation(), "task": make_task(data=data), **about})
    body["project"]["parsed_label_config"] = config
    return body


def test_where_nothing_is_labelled_the_control_that_counts_names_the_text() -> None:
    assert read_one(two_texts(), label="body_spans").labels == ("O",) * len(LABELS)
    assert read_one(two_texts(), label="title_spans").tokens == ("Calm", "seas")
    assert read_one(two_texts(), word="title").tokens == ("Calm", "seas")
    with pytest.raises(InvalidInput, match="body, title: say which control counts"):
        read_one(two_texts())


def test_spans_of_another_control_say_nothing_of_the_one_that_counts() -> None:
    body = two_texts(annotation=make_annotation(make_region("Riga", "LOC", from_name="body_spans")))
    assert read_one(body).labels[-2:] == ("B-LOC", "O")
    sentence = read_one(body, label="title_spans")
    assert (sentence.tokens, sentence.labels) == (("Calm", "seas"), ("O", "O"))


def test_controls_over_one_text_need_no_choice_where_nothing_is_labelled() -> None:
    body = make_event(annotation=make_annotation(), task=make_task(data={"body": TEXT, "text": "not this"}))
    config = {name: copy.deepcopy(CONFIG["label"]) for name in ("label", "pos")}
    for control in config.values():
        control["inputs"][0]["value"] = "$body"  # type: ignore[index]
    body["project"]["parsed_label_config"] = config
    assert read_one(body).labels == ("O",) * len(LABELS)


def test_a_control_that_the_project_does_not_have_is_an_error() -> None:
    """All its annotations would be read as if nobody had found an entity."""
    with pytest.raises(InvalidInput, match="no control lable for spans of a text, only label"):
        read_one(make_event(), label="lable")


def _with(**more: object) -> dict[str, Any]:
    return make_event(annotation=make_annotation(make_region("Riga", "LOC") | more))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (make_event() | {"action": None}, "action"),
        (make_event() | {"annotation": 41}, "annotation"),
        (make_event() | {"task": None}, "task"),
        (make_event("ANNOTATIONS_CREATED", annotation=[make_annotation()], task=[]), "task"),
        (make_event(task=make_task(data=None)), "task.data"),
        (make_event(task=make_task(data={"image": "x"})), "task.data"),
        (make_event(task=make_task(data={"text": 7})), "task.data.text"),
        (make_event(task=make_task(data={"text": " "})), "task.data.text"),
        (make_event(annotation=make_annotation(id=None)), "annotation.id"),
        (make_event(annotation=make_annotation(updated_at="yesterday")), "annotation.updated_at"),
        (make_event(annotation=make_annotation(result=None)), "annotation.result"),
        (make_event(annotation=make_annotation("x")), "annotation.result.0"),  # type: ignore[arg-type]
        (_with(type="hypertextlabels"), "annotation.result.0"),
        (_with(type=None), "annotation.result.0"),
        (_with(value=None), "annotation.result.0.value"),
        (_with(value={"start": 0, "end": 4, "labels": ["A", "B"]}), "annotation.result.0.value.labels"),
        (_with(value={"start": 0, "end": 4, "labels": []}), "annotation.result.0.value.labels"),
        (_with(value={"start": 0, "end": 4}), "annotation.result.0.value.labels"),
        (_with(value={"start": 0, "labels": ["A"]}), "annotation.result.0.value.end"),
        (_with(value={"start": 0, "end": 4, "labels": ["A"], "text": "Else"}), "annotation.result.0.value"),
        (
            make_event(annotation=make_annotation(make_region("Mara Quill", "PER"), make_region("Quill", "ORG"))),
            "annotation.result.1.value",
        ),
        (make_event("ANNOTATIONS_DELETED", annotations={}), "annotations"),
        (make_event("ANNOTATIONS_DELETED", annotations=[{}]), "annotations.0.id"),
        (make_event(project={"parsed_label_config": {"c": {"type": "Choices"}}}), "project.parsed_label_config"),
    ],
)
def test_an_unreadable_record_names_its_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        from_event(body, received_at=NOW)
    assert caught.value.field == field


def test_a_link_must_be_one_that_a_browser_may_follow() -> None:
    with pytest.raises(InvalidInput, match="is not an address such as"):
        read_one(make_event(), base_url="javascript:alert(1)")


def test_controls_of_a_project() -> None:
    assert parse_span_controls(CONFIG) == [SpanControl("label", "text", "text", ("PER", "ORG", "LOC"))]
    behind_a_link = copy.deepcopy(CONFIG)
    behind_a_link["label"]["inputs"][0]["valueType"] = "url"  # type: ignore[index]
    for config in (None, {}, {"a": 1}, {"a": {"type": "Labels"}}, {"a": {"type": "Choices"}}, behind_a_link):
        assert parse_span_controls(config) == []


# -- exports -----------------------------------------------------------------------------------------------------------


def test_an_exported_task_gives_a_sentence_for_each_annotation() -> None:
    both = [
        make_annotation(make_region("Riga", "LOC")),
        make_annotation(id=42, completed_by={"id": 6, "email": "q@example.org"}),
    ]
    first, second = read_all(make_task(annotations=both, predictions=[1, 2], drafts=[]))
    assert first.sentence is not None
    assert second.sentence is not None
    assert (first.sentence.id, first.sentence.revision) == ("label-studio:41", REVISION)
    assert (second.sentence.id, second.sentence.annotator) == ("label-studio:42", "q@example.org")
    assert first.sentence.source == "<stream>:1"
    assert not first.sentence.update


def test_a_bad_annotation_costs_only_itself() -> None:
    bad = make_annotation(make_region("Mara Quill", "PER"), make_region("Mara", "ORG"))
    first, second = read_all(make_task(annotations=[bad, make_annotation(id=42)]))
    assert first.error is not None
    assert "<stream>:1: `annotations.0.result.0.value`: it overlaps annotations.0.result.1.value" in str(first.error)
    assert second.sentence is not None


def test_tasks_without_annotations_give_nothing_and_skipped_ones_are_reported() -> None:
    skipped = make_annotation(was_cancelled=True)
    (record,) = read_all(make_task(annotations=[]), make_task(annotations=[skipped]))
    assert record.sentence is not None
    assert record.sentence.deleted


def test_the_text_of_an_export_can_be_named() -> None:
    kept = make_task(data={"body": TEXT}, annotations=[make_annotation(make_region("Riga", "LOC"))])
    (record,) = read_all(kept)
    assert "no text in it, only body: name the field of the text" in str(record.error)
    (record,) = read_all(kept, word="body")
    assert record.sentence is not None


def test_json_min_exports() -> None:
    value = make_region("Riga", "LOC")["value"]
    line = {
        "text": TEXT, "id": 7, "label": [value], "annotator": 5, "annotation_id": 41,
        "updated_at": "2026-03-01T10:00:00.000002Z", "lead_time": 1.0,
    }  # fmt: skip
    (record,) = read_all(line)
    assert record.sentence is not None
    assert (record.sentence.id, record.sentence.revision, record.sentence.annotator) == (
        "label-studio:41",
        REVISION,
        "5",
    )
    assert record.sentence.labels[-2:] == ("B-LOC", "O")


def test_json_min_exports_with_several_controls() -> None:
    line = {
        "text": TEXT, "id": 7, "annotation_id": 41, "none": [], "place": [make_region("Riga", "LOC")["value"]],
        "person": [make_region("Mara Quill", "PER")["value"]],
    }  # fmt: skip
    (record,) = read_all(line)
    assert "`person`: spans of place and of person: say which control counts" in str(record.error)
    (record,) = read_all(line, label="person")
    assert record.sentence is not None
    assert record.sentence.labels == ("B-PER", "I-PER", "O", "O", "O", "O", "O", "O")
    assert (record.sentence.meta or {})["from_name"] == "person"


@pytest.mark.parametrize(
    "exported",
    [
        make_task(annotations=[make_annotation(make_region("Riga", "LOC"))]),
        {"id": 7, "annotation_id": 41, "text": TEXT, "label": [make_region("Riga", "LOC")["value"]]},
    ],
)
def test_a_control_that_a_file_never_has_is_an_error_at_its_end(exported: dict[str, Any]) -> None:
    """Other annotations may have none of it: only the whole file tells."""
    with pytest.raises(InvalidInput, match="no span in it is of lable, only of label"):
        read_all(exported, label="lable")
    assert len(read_all(exported, label="label")) == 1
    assert len(read_all(make_task(annotations=[make_annotation()]), label="lable")) == 1


def test_kept_webhooks_can_be_read_as_a_file() -> None:
    records = read_all(
        make_event(), make_event("TASKS_CREATED"), {"action": "ANNOTATION_CREATED"}, make_event("ANNOTATIONS_DELETED")
    )
    assert [one.sentence.id for one in records if one.sentence] == [
        "label-studio:41",
        "label-studio:41",
        "label-studio:42",
    ]


def test_objects_of_another_kind_are_named() -> None:
    (record,) = list(read_records(io.BytesIO(b'{"image": "x"}'), format="label-studio"))
    assert "`annotations`: it is missing: export the tasks as JSON" in str(record.error)


# -- what a real Label Studio sent -------------------------------------------------------------------------------------


@pytest.mark.platform_fixtures
def test_the_fixtures_are_read(platform_fixtures: Path) -> None:
    lines = (platform_fixtures / "label_studio_1.23.2_webhooks.jsonl").read_text().splitlines()
    bodies = [json.loads(line)["body"] for line in lines]
    events = [from_event(body, received_at=datetime.now(UTC)) for body in bodies]
    assert [len(one.sentences) for one in events] == [0, 0, 1, 0, 1, 0, 1, 0]
    created, updated, deleted = (sentence for one in events for sentence in one.sentences)
    assert created.id == updated.id == deleted.id
    assert (created.update, updated.update, deleted.deleted) == (False, True, True)
    assert created.revision < updated.revision
    assert [sum(label != "O" for label in one.labels) for one in (created, updated)] == [2, 3]
    (exported,) = read_records(platform_fixtures / "label_studio_1.23.2_export.json")
    assert exported.sentence is not None
    assert exported.sentence.labels == updated.labels
    assert exported.sentence.revision == updated.revision
    assert (exported.sentence.meta or {})["alignment"] == "exact"
