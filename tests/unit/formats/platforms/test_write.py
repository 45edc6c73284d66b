"""What is each platform's own on the way back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from service.contracts import LabelledSentence
from service.errors import InvalidInput
from service.formats import read_sentences
from service.formats.platforms.label_studio.webhook import from_event
from service.formats.text.restored_text import WriteContext
from service.labels import Scheme, Span, labels_from_spans
from tests.unit.formats.platforms.round_trip_bodies import (
    BODIES,
    GIVEN,
    MOOD,
    NAMES,
    TEXT,
    drop_region_ids,
    find_offsets,
    make_argilla_record,
    make_region,
    make_task,
    parse_objects,
    read_body,
    write_body,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_annotations_of_one_task_stand_in_it_again() -> None:
    body = make_task(make_region("Riga", "LOC"))
    body["annotations"].append({**body["annotations"][0], "id": 42, "completed_by": {"id": 6, "email": "kim@x.org"}})
    other = make_task(make_region("Riga", "ORG"), id=8)
    sentences = read_body([body, other], "label-studio")
    written = parse_objects(write_body(sentences, "label-studio"))
    assert [[one["id"] for one in each["annotations"]] for each in written] == [[41, 42], [41]]
    assert [one["completed_by"] for one in written[0]["annotations"]] == [5, {"email": "kim@x.org"}]
    assert [one.labels for one in read_body(written, "label-studio")] == [one.labels for one in sentences]


def test_label_studio_json_min_becomes_tasks() -> None:
    value = make_region("Riga", "LOC")["value"]
    body = {"id": 7, "body": TEXT, "doc_id": "d-1", "ner": [value], "annotator": 5, "annotation_id": 41,
            "created_at": "2026-03-01T10:00:00Z", "updated_at": "2026-03-01T10:00:00Z", "lead_time": 2.5}  # fmt: skip
    (sentence,) = read_body(body, "label-studio", word="body")
    (back,) = parse_objects(write_body([sentence], "label-studio"))
    assert back["data"] == {"body": TEXT, "doc_id": "d-1"}
    assert back["annotations"][0]["result"][0]["from_name"] == "ner"
    assert read_body([back], "label-studio", word="body")[0].labels == sentence.labels


def test_what_hangs_on_a_label_studio_span_is_left_out() -> None:
    size = make_region("Riga", "LOC")
    per_region = {**size, "type": "choices", "value": {**size["value"], "choices": ["port"]}}
    relation = {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right"}
    (sentence,) = read_body(make_task(size, per_region, relation, MOOD), "label-studio")
    (back,) = parse_objects(write_body([sentence], "label-studio"))
    assert drop_region_ids(back)["annotations"][0]["result"] == [size, MOOD]


def test_several_users_of_an_argilla_record_stand_in_it_again() -> None:
    start, end = find_offsets("Riga", utf16=True)
    body = make_argilla_record([{"label": "LOC", "start": start, "end": end}])
    second = {"value": [], "user_id": "u-2", "status": "submitted"}
    body["responses"]["entities"].append(second)
    first, other = read_body(body, "argilla")
    other = other.model_copy(update={"labels": first.labels})
    (back,) = parse_objects(write_body([first, other], "argilla"))
    assert [one["user_id"] for one in back["responses"]["entities"]] == ["u-1", "u-2"]
    assert back["responses"]["entities"][1]["value"] == body["responses"]["entities"][0]["value"]
    assert back["responses"]["mood"] == body["responses"]["mood"]


def test_numbers_that_do_not_say_everything_are_written_as_names() -> None:
    (sentence,) = read_body(BODIES["huggingface"][1], "huggingface")
    context = WriteContext()
    write_body([sentence], "huggingface", context)
    assert list(context.notes) == [f"labels are numbers, to be read with --label-names {','.join(NAMES)}"]
    context = WriteContext()
    new = sentence.model_copy(update={"labels": (*GIVEN[:-1], "B-MISC")})
    written = parse_objects(write_body([sentence, new], "huggingface", context))
    assert [one["ner_tags"] for one in written] == [list(GIVEN), [*GIVEN[:-1], "B-MISC"]]
    assert list(context.notes) == ["labels are written as names: B-MISC had no number"]
    plain = LabelledSentence(id="1", tokens=("a",), labels=("O",))
    assert [one["ner_tags"] for one in parse_objects(write_body([sentence, plain], "huggingface"))] == [
        list(GIVEN),
        ["O"],
    ]


@pytest.mark.parametrize(("form", "mark"), [("csv", ","), ("tsv", "\t")])
def test_tables_of_words_come_back_as_such(form: str, mark: str) -> None:
    text = f"sentence_id{mark}word{mark}label\na{mark}Oslo{mark}B-LOC\na{mark}won{mark}O\nb{mark}No{mark}O\n"
    sentences = read_body(text, form)
    assert write_body(sentences, form) == text
    corrected = [sentences[0].model_copy(update={"labels": ("B-ORG", "O")}), sentences[1]]
    assert read_body(write_body(corrected, form), form) == [
        one.model_copy(update={"source": back.source})
        for one, back in zip(corrected, read_body(write_body(corrected, form), form), strict=True)
    ]
    plain = LabelledSentence(id="c", tokens=("x",), labels=("O",))
    assert write_body([*sentences, plain], form).startswith(f"id{mark}tokens")
    with pytest.raises(InvalidInput, match="use jsonl"):
        write_body([sentences[0].model_copy(update={"tokens": ("a", "")})], form)


@pytest.mark.parametrize("broken", ["a\tb", "a\nb", '"a""b"'])
def test_tsv_refuses_what_it_would_change(broken: str) -> None:
    sentence = LabelledSentence(id=broken, tokens=("a",), labels=("O",))
    with pytest.raises(InvalidInput, match="use csv"):
        write_body([sentence], "tsv")


@pytest.mark.parametrize("scheme", Scheme)
def test_touching_spans_of_one_type_stay_apart(scheme: Scheme) -> None:
    """In IO their labels are those of one."""
    given = [[0, 4, "LOC"], [5, 9, "LOC"], [10, 16, "LOC"]]
    body = {"id": 1, "text": "Riga Oslo Bergen won", "label": given}
    (sentence,) = read_body(body, "doccano", scheme=scheme)
    assert parse_objects(write_body([sentence], "doccano", WriteContext(scheme))) == [body]
    less = sentence.model_copy(update={"labels": ("O", *sentence.labels[1:])})
    (back,) = parse_objects(write_body([less], "doccano", WriteContext(scheme)))
    assert back["label"] == given[1:]


@pytest.mark.parametrize("scheme", [Scheme.IOB1, Scheme.IOB2, Scheme.BILUO])
def test_touching_spans_that_a_reviewer_made_one_are_one(scheme: Scheme) -> None:
    body = {"id": 1, "text": "Mara Quill won", "label": [[0, 4, "PER"], [5, 10, "PER"]]}
    (sentence,) = read_body(body, "doccano", scheme=scheme)
    one = tuple(labels_from_spans([Span(0, 2, "PER")], 3, scheme))
    (back,) = parse_objects(write_body([sentence.model_copy(update={"labels": one})], "doccano", WriteContext(scheme)))
    assert back["label"] == [[0, 10, "PER"]]


def test_the_stored_fields_are_small_and_fit_a_message() -> None:
    body = {
        "id": 1,
        "text": TEXT,
        "label": [],
        "page": 3,
        "scan": "x" * 3_000,
        "score": float("nan"),
        "half": "\ud83d",
        "title": "At sea",
    }
    (sentence,) = read_body(body, "doccano")
    assert (sentence.meta or {})["kept"] == {"page": 3, "title": "At sea"}
    (back,) = parse_objects(write_body([sentence], "doccano"))
    assert back == {"id": 1, "text": TEXT, "label": [], "page": 3, "title": "At sea"}


# -- what a real Label Studio wrote ------------------------------------------------------------------------------------


@pytest.mark.platform_fixtures
def test_label_studios_own_export_comes_back(platform_fixtures: Path) -> None:
    path = platform_fixtures / "label_studio_1.23.2_export.json"
    (theirs,) = json.loads(path.read_text())
    (sentence,) = read_sentences(path)
    (back,) = parse_objects(write_body([sentence], "label-studio"))
    assert (back["id"], back["project"], back["data"], back["meta"]) == (
        theirs["id"], theirs["project"], theirs["data"], theirs["meta"],
    )  # fmt: skip
    (ours,), (original,) = back["annotations"], theirs["annotations"]
    for name in ("id", "completed_by", "updated_at", "was_cancelled", "ground_truth"):
        assert ours[name] == original[name], name
    drop_region_ids(back), drop_region_ids(theirs)
    assert ours["result"] == original["result"]
    corrected = sentence.model_copy(update={"labels": tuple("O" for _ in sentence.labels)})
    assert read_body(write_body([corrected], "label-studio"), "label-studio")[0].labels == corrected.labels


@pytest.mark.platform_fixtures
def test_what_came_by_label_studios_webhooks_comes_back(platform_fixtures: Path) -> None:
    lines = (platform_fixtures / "label_studio_1.23.2_webhooks.jsonl").read_text().splitlines()
    events = [from_event(json.loads(line)["body"], received_at=datetime(2026, 11, 17, tzinfo=UTC)) for line in lines]
    converted = [one for event in events for one in event.sentences if not one.deleted]
    assert len(converted) == 2
    for sentence in converted:
        (back,) = read_body(write_body([sentence], "label-studio"), "label-studio")
        assert (back.id, back.labels, back.tokens, back.revision) == (
            sentence.id, sentence.labels, sentence.tokens, sentence.revision,
        )  # fmt: skip
