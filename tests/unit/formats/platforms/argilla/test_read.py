from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from service.errors import InvalidInput
from service.formats import FileRecord, ReadOptions, read_records
from service.formats.platforms.argilla.webhook import from_event
from tests.support.platform_bodies import TEXT, make_argilla_dataset, make_argilla_event, make_span


def two_questions() -> dict[str, Any]:
    dataset = make_argilla_dataset()
    dataset["questions"].append({"name": "places", "settings": {"type": "span", "field": "sentence"}})
    return dataset


NOW = datetime(2026, 3, 2, tzinfo=UTC)
LABELS = ("B-PER", "I-PER", "O", "O", "O", "O", "B-LOC", "O")
REVISION = int(datetime(2026, 3, 1, 10, tzinfo=UTC).timestamp()) * 1_000_000 + 2


def read_all(*objects: object, **options: Any) -> list[FileRecord]:
    text = "\n".join(map(json.dumps, objects))
    return list(read_records(io.BytesIO(text.encode()), options=ReadOptions(**options)))


# -- webhooks ----------------------------------------------------------------------------------------------------------


def test_a_submitted_response() -> None:
    options = ReadOptions(base_url="https://argilla.example.org")
    (sentence,) = from_event(make_argilla_event(), received_at=NOW, dataset="trips", options=options).sentences
    assert (sentence.id, sentence.dataset, sentence.revision) == ("argilla:r-1", "trips", REVISION)
    assert (sentence.labels, sentence.annotator, sentence.update) == (LABELS, "nadia", False)
    assert sentence.source == "https://argilla.example.org/dataset/d-1/annotation-mode?_search=rec-1"
    assert sentence.meta is not None
    assert {name: sentence.meta[name] for name in ("format", "record", "question", "field", "alignment")} == {
        "format": "argilla", "record": "rec-1", "question": "entities", "field": "sentence", "alignment": "exact",
    }  # fmt: skip


def test_an_updated_and_a_discarded_response() -> None:
    (sentence,) = from_event(make_argilla_event("response.updated"), received_at=NOW).sentences
    assert sentence.update
    (gone,) = from_event(make_argilla_event("response.updated", status="discarded"), received_at=NOW).sentences
    assert (gone.id, gone.deleted, gone.revision) == ("argilla:r-1", True, REVISION)


def test_a_deleted_response_is_as_old_as_the_event() -> None:
    (gone,) = from_event(make_argilla_event("response.deleted"), received_at=NOW).sentences
    assert (gone.id, gone.deleted) == ("argilla:r-1", True)
    assert gone.revision == REVISION + 1_499_998


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (make_argilla_event(status="draft"), "the response is draft, not submitted"),
        (make_argilla_event(status="discarded"), "the response is discarded, not submitted"),
        (make_argilla_event("record.completed"), "only responses"),
        (make_argilla_event("ping"), "only responses"),
    ],
)
def test_responses_without_an_answer_are_ignored_with_the_reason(body: dict[str, Any], reason: str) -> None:
    event = from_event(body, received_at=NOW)
    assert event.sentences == ()
    assert reason in str(event.ignored_reason)


def test_a_question_left_open_says_that_there_is_no_entity() -> None:
    (sentence,) = from_event(make_argilla_event(values={"mood": {"value": "ok"}}), received_at=NOW).sentences
    assert set(sentence.labels) == {"O"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"data": {}}, "type"),
        ({"type": "response.created"}, "data"),
        (make_argilla_event(id=None), "data.id"),
        (make_argilla_event("response.deleted", id=""), "data.id"),
        (make_argilla_event(record=None), "data.record"),
        (make_argilla_event(record={"fields": None}), "fields"),
        (make_argilla_event(record={"fields": {"a": "x", "b": "y"}}), "fields"),
        (make_argilla_event(record={"fields": {"a": "x"}}, values={"q": {"value": []}}), "data.values"),
        (
            make_argilla_event(record={"fields": {"sentence": TEXT}, "dataset": two_questions()}),
            "data.record.dataset.questions",
        ),
        (
            make_argilla_event(values={"entities": {"value": [make_span("Mara", "PER"), make_span("Mara", "LOC")]}}),
            "data.values.entities.1",
        ),
        (make_argilla_event(values={"entities": {"value": [{"start": 0, "end": 1}]}}), "data.values.entities.0.label"),
        (make_argilla_event(values={"entities": {"value": "PER"}}), "data.values.entities"),
        (make_argilla_event(updated_at=3), "data.updated_at"),
        (make_argilla_event("response.deleted") | {"timestamp": "now"}, "timestamp"),
    ],
)
def test_an_unreadable_record_names_its_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        from_event(body, received_at=NOW)
    assert caught.value.field == field


# -- records -----------------------------------------------------------------------------------------------------------

ANSWER = [make_span("Mara Quill", "PER"), make_span("Riga", "LOC")]


def test_records_as_the_sdk_writes_them() -> None:
    record = {
        "id": "rec-1",
        "fields": {"sentence": TEXT},
        "metadata": {},
        "suggestions": {},
        "responses": {
            "entities": [{"value": ANSWER, "user_id": "u-1"}, {"value": [], "user_id": "u-2"}],
            "mood": [{"value": "ok", "user_id": "u-1"}],
        },
        "vectors": {},
    }
    first, second = read_all(record)
    assert first.sentence is not None
    assert second.sentence is not None
    assert (first.sentence.id, first.sentence.annotator, first.sentence.labels) == ("argilla:rec-1:u-1", "u-1", LABELS)
    assert (second.sentence.id, set(second.sentence.labels)) == ("argilla:rec-1:u-2", {"O"})


def test_records_as_the_api_writes_them() -> None:
    answers = [
        {"id": "r-1", "values": {"entities": {"value": ANSWER}}, "status": "submitted", "user_id": "u-1",
         "updated_at": "2026-03-01T10:00:00.000002"},
        {"id": "r-2", "values": {"entities": {"value": []}}, "status": "draft", "user_id": "u-2"},
        {"id": "r-3", "values": None, "status": "discarded", "user_id": "u-3"},
        {"id": "r-4", "values": {}, "status": "submitted"},
    ]  # fmt: skip
    record = {"id": "rec-1", "fields": {"text": TEXT, "title": "t"}, "dataset_id": "d-1", "responses": answers}
    first, second, third = read_all(record, base_url="https://a.example.org")
    assert first.sentence is not None
    assert (first.sentence.id, first.sentence.revision, first.sentence.labels) == ("argilla:r-1", REVISION, LABELS)
    assert first.sentence.source == "https://a.example.org/dataset/d-1/annotation-mode?_search=rec-1"
    assert second.sentence is not None
    assert (second.sentence.id, second.sentence.deleted) == ("argilla:r-3", True)
    assert third.sentence is not None  # the question that the others answer was left open
    assert (third.sentence.id, set(third.sentence.labels)) == ("argilla:r-4", {"O"})
    (alone,) = read_all({**record, "responses": answers[3:]})
    assert "`responses.0.values`: no answer in it holds spans" in str(alone.error)


def test_one_of_several_questions_can_be_chosen() -> None:
    values = {"one": {"value": ANSWER}, "two": {"value": ANSWER[:1]}}
    exported = {"id": "x", "fields": {"text": TEXT}, "responses": [{"id": "r", "values": values}]}
    (record,) = read_all(exported)
    assert "one, two all ask for spans: say which question counts" in str(record.error)
    (record,) = read_all(exported, label="one")
    assert record.sentence is not None
    assert record.sentence.labels == LABELS


def test_a_question_that_a_file_never_has_is_an_error_at_its_end() -> None:
    record = {"id": "x", "fields": {"text": TEXT}, "responses": [{"id": "r", "values": {"one": {"value": ANSWER}}}]}
    for value in (record, of_sdk("y", one=[ANSWER])):
        with pytest.raises(InvalidInput, match="no span in it is of on, only of one"):
            read_all(value, label="on")


def of_sdk(identity: str, **answers: list[object]) -> dict[str, Any]:
    """A record as the SDK writes it: each question with the values of one user."""
    given = {name: [{"value": value, "user_id": "u-1"} for value in values] for name, values in answers.items()}
    return {"id": identity, "fields": {"text": TEXT}, "responses": given}


def read_sentences_of(*objects: object, **options: Any) -> list[tuple[str | None, str, set[str]]]:
    """Id, question and labels of each."""
    converted = [one.sentence for one in read_all(*objects, **options)]
    return [
        (one.id, str((one.meta or {})["question"]), set(one.labels) - {"O"}) for one in converted if one is not None
    ]


def test_several_span_questions_of_a_record_have_ids_of_their_own() -> None:
    record = of_sdk("rec-1", people=[ANSWER[:1]], places=[ANSWER[1:]], tags=[[]])
    both = [
        ("argilla:rec-1:u-1:people", "people", {"B-PER", "I-PER"}),
        ("argilla:rec-1:u-1:places", "places", {"B-LOC"}),
    ]
    assert read_sentences_of(record) == both
    assert read_sentences_of(record, label="places") == both[1:]  # chosen or not, it is the same sentence
    assert read_sentences_of(of_sdk("rec-1", places=[ANSWER[1:]])) == [("argilla:rec-1:u-1", "places", {"B-LOC"})]


def test_an_empty_list_counts_only_where_the_question_asks_for_spans() -> None:
    """Answers with several labels are lists too."""
    beside = of_sdk("rec-1", tags=[[]], entities=[ANSWER])
    assert [one[:2] for one in read_sentences_of(beside)] == [("argilla:rec-1:u-1", "entities")]
    alone = of_sdk("rec-2", tags=[[]], mood=["ok"])
    (record,) = read_all(alone)
    assert "`responses.tags.0`: an empty list does not show what was asked" in str(record.error)
    assert read_sentences_of(alone, label="tags") == [("argilla:rec-2:u-1", "tags", set())]
    suggested = of_sdk("rec-3", entities=[[]]) | {"suggestions": {"entities": {"value": ANSWER, "score": None}}}
    assert read_sentences_of(suggested) == [("argilla:rec-3:u-1", "entities", set())]


def test_one_record_shows_the_questions_of_a_file() -> None:
    """Also to those before it, which stay in their order."""
    first, middle = of_sdk("rec-1", entities=[[]], tags=[["a"]]), of_sdk("rec-2", mood=["ok"])
    context, last = of_sdk("rec-3", entities=[ANSWER], tags=[[]]), of_sdk("rec-4", entities=[[]], tags=[[]])
    assert read_sentences_of(first, middle, context, last) == [
        ("argilla:rec-1:u-1", "entities", set()),
        ("argilla:rec-3:u-1", "entities", {"B-PER", "I-PER", "B-LOC"}),
        ("argilla:rec-4:u-1", "entities", set()),
    ]
    assert [one.error is None for one in read_all(first, middle)] == [False]


def test_no_more_than_some_records_are_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.formats.platforms.argilla.questions.MAX_BUFFERED_RECORDS", 2)
    records = read_all(
        *(of_sdk(f"rec-{number}", entities=[[]]) for number in range(3)), of_sdk("rec-3", entities=[ANSWER])
    )
    assert [one.error is None for one in records] == [False, False, True, True]


def test_offsets_are_read_as_argillas_editor_counts_them() -> None:
    """In UTF-16 units. They have no text to compare, and nothing else tells it here."""
    exported = of_sdk("rec-1", entities=[[{"label": "X", "start": 7, "end": 8}]])
    exported["fields"]["text"] = "👋👋 a b c d"
    (record,) = read_all(exported)
    assert record.sentence is not None
    assert record.sentence.labels == ("O", "O", "O", "B-X", "O", "O")
    assert (record.sentence.meta or {})["offsets_told_by"] == "platform"


def test_events_of_datasets_without_spans_are_ignored() -> None:
    body = make_argilla_event()
    body["data"]["record"]["dataset"]["questions"] = [{"name": "mood", "settings": {"type": "label_selection"}}]
    assert from_event(body, received_at=NOW).ignored_reason == "no question of its dataset asks for spans"


def test_a_deleted_record_stands_for_all_its_responses() -> None:
    body = {"type": "record.deleted", "timestamp": "2026-03-01T10:00:01.5Z", "data": {"id": "rec-1"}}
    (sentence,) = from_event(body, received_at=NOW, dataset="trips").sentences
    assert (sentence.id, sentence.deleted, sentence.dataset) == ("argilla:task:rec-1", True, "trips")
    assert sentence.revision == int(datetime(2026, 3, 1, 10, 0, 1, tzinfo=UTC).timestamp()) * 1_000_000 + 500_000
    assert sentence.meta == {"format": "argilla", "task": "rec-1"}


def test_a_question_that_the_dataset_does_not_have_is_an_error() -> None:
    """All its responses would be read as if nobody had found an entity."""
    with pytest.raises(InvalidInput, match="entitys is not one of the questions that ask for spans: entities"):
        from_event(make_argilla_event(), received_at=NOW, options=ReadOptions(label="entitys"))


def test_a_described_question_may_be_answered_with_an_empty_list() -> None:
    (sentence,) = from_event(make_argilla_event(values={"entities": {"value": []}}), received_at=NOW).sentences
    assert set(sentence.labels) == {"O"}
    named = make_argilla_event(record={"fields": {"sentence": TEXT}, "dataset": two_questions()})
    (sentence,) = from_event(named, received_at=NOW, options=ReadOptions(label="entities")).sentences
    assert sentence.labels == LABELS


def test_kept_webhooks_can_be_read_as_a_file() -> None:
    records = read_all(
        make_argilla_event(), make_argilla_event("record.created"), make_argilla_event("response.deleted")
    )
    assert [(one.sentence.id, one.sentence.deleted) for one in records if one.sentence] == [
        ("argilla:r-1", False), ("argilla:r-1", True),
    ]  # fmt: skip


def test_objects_of_another_kind_are_named() -> None:
    (record,) = list(read_records(io.BytesIO(b'{"fields": {}}'), format="argilla"))
    assert "`responses`: it is missing: export the records with their responses" in str(record.error)
