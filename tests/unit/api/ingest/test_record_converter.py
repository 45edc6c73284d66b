"""Records of platforms in REST bodies: converted as files are, told record by record, refused with number and field."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from service.api.access.caller import ANYBODY
from service.api.http.json_text.split import LARGE_BYTES
from service.api.http.problems import TooLargeError
from service.api.ingest.body_reader import BodyReader
from service.api.ingest.conversion_budget import ConversionBudget, ParsingStoppedError
from service.api.ingest.query import FORMAT_NAMES, RecordQuery
from service.api.ingest.record_converter import RecordConverter
from service.api.scoring.requests import MAX_DATASETS_PER_REQUEST
from service.contracts import DatasetSettings, LabelledSentence
from service.datasets.settings_records import build_settings_message
from service.formats import FORMATS, ReadOptions, read_records
from service.formats.text.word_splitter import CharacterRange, split_words
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from tests.support.platform_bodies import (
    TEXT,
    make_annotation,
    make_argilla_event,
    make_event,
    make_region,
    make_task,
)
from tests.support.scoring_harness import ScoringHarness, scoring_harness
from tests.support.tiny_models import POISON_WORD, make_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

NAMES = "O,B-PER,I-PER,B-LOC"
PER, LOC = make_region("Mara Quill", "PER"), make_region("Riga", "LOC")
TASK = make_task(annotations=[make_annotation(PER, LOC)])
SPANS = [{"start": 0, "end": 10, "label": "PER"}, {"start": 32, "end": 36, "label": "LOC"}]
WORDS = {"tokens": ["Mara", "flew"], "labels": ["B-PER", "O"]}
RECORDS: dict[str, dict[str, Any]] = {
    "label-studio": TASK,
    "argilla": {
        "id": "r-1",
        "fields": {"text": TEXT},
        "responses": {"entities": [{"value": SPANS, "user_id": "u-1", "status": "submitted"}]},
    },
    "doccano": {"id": 1, "text": TEXT, "label": [[0, 10, "PER"], [32, 36, "LOC"]]},
    "prodigy": {"text": TEXT, "spans": SPANS, "answer": "accept", "_task_hash": 4711},
    "huggingface": {"id": "h-1", "tokens": ["Mara", "Quill", "flew"], "ner_tags": [1, 2, 0]},
    "spans": {"id": "s-1", "text": TEXT, "spans": SPANS, "annotator": "kim"},
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScoringHarness]:
    folder = make_model(tmp_path_factory.mktemp("tiny") / "model", "wordpiece", poison="fails")
    classifier = Classifier(ModelFolder.load(folder))
    settings: dict[str, Any] = {"max_sentences": 20, "label_studio_url": "http://studio.example"}
    with scoring_harness(tmp_path_factory.mktemp("log"), classifier, **settings) as api:
        settings_of_io = DatasetSettings(name="plain", version=1, scheme="io")
        api.append(build_settings_message(api.topics.datasets, settings_of_io.model_dump()))
        yield api


@dataclass
class TopicHarness:
    api: ScoringHarness
    start: int

    @property
    def sent(self) -> list[dict[str, Any]]:
        records = self.api.stream.read(self.api.topics.sentences, self.start, 10_000)
        return [json.loads(record.value or b"null") for record in records]

    def send(self, body: Any, query: str) -> dict[str, Any]:
        answer = self.api.post(f"/v1/sentences?{query}", body)
        assert answer.status_code == 202, answer.text
        return dict(answer.json())


@pytest.fixture
def harness(shared: ScoringHarness) -> TopicHarness:
    return TopicHarness(shared, len(shared.stream.read(shared.topics.sentences, 0, 10_000)))


def problem(answer: httpx.Response, status: int, field: str | None) -> str:
    assert answer.status_code == status, answer.text
    assert answer.json().get("field") == field
    return str(answer.json()["detail"])


def query_of(form: str) -> str:
    return f"format={form}" + (f"&label_names={NAMES}" if form == "huggingface" else "")


def test_every_format_with_records_has_one_here() -> None:
    assert {"words", "auto", *RECORDS} == set(FORMAT_NAMES)
    assert {name for name, form in FORMATS.items() if form.convert is not None} == set(RECORDS)


@pytest.mark.parametrize("form", RECORDS)
@pytest.mark.parametrize("asked", ["by its name", "auto"])
def test_a_record_is_converted_as_in_a_file(harness: TopicHarness, form: str, asked: str) -> None:
    record = RECORDS[form]
    options = ReadOptions(label_names=tuple(NAMES.split(",")), base_url="http://studio.example")
    (expected,) = read_records(io.BytesIO(json.dumps(record).encode()), format=form, options=options)
    assert expected.sentence is not None
    query = query_of(form) if asked != "auto" else query_of(form).replace(f"={form}", "=auto")
    answer = harness.send(record, query)
    (message,) = harness.sent
    wanted = expected.sentence.model_dump(mode="json", exclude_defaults=True)
    if wanted["source"].startswith("<stream>"):  # a place in a file
        del wanted["source"]
    assert message == wanted
    (outcome,) = answer["records"]
    alignment = {} if form == "huggingface" else {"alignment": "exact"}
    assert outcome == {
        "record": 1,
        "format": form,
        "sentences": [{"id": expected.sentence.id, "deleted": False, **alignment}],
    }
    assert answer["ids"] == [expected.sentence.id]


@pytest.mark.parametrize("wrap", [lambda many: many, lambda many: {"sentences": many}], ids=["array", "sentences"])
def test_lists_of_records(harness: TopicHarness, wrap: Any) -> None:
    several = make_task(
        annotations=[make_annotation(PER), make_annotation(LOC, id=42), make_annotation(id=43, was_cancelled=True)]
    )
    answer = harness.send(wrap([several, make_task(annotations=[]), TASK]), "format=label-studio&dataset=trips")
    assert answer["ids"] == [f"label-studio:{number}" for number in (41, 42, 43, 41)]
    first, none, last = answer["records"]
    assert [one["deleted"] for one in first["sentences"]] == [False, False, True]
    assert (none["sentences"], "no annotation" in none["ignored"], last["record"]) == ([], True, 3)
    assert "ignored" not in first
    assert [one["dataset"] for one in harness.sent] == ["trips"] * 4


def test_what_gives_no_sentence_is_no_error(harness: TopicHarness, shared: ScoringHarness) -> None:
    answer = harness.send(make_event("PROJECT_UPDATED"), "format=auto")
    assert (answer["ids"], harness.sent) == ([], [])
    scored = shared.post("/v1/score?format=label-studio", make_task(annotations=[make_annotation(was_cancelled=True)]))
    assert scored.json()["assessments"] == []
    (outcome,) = scored.json()["records"]
    assert outcome["sentences"] == [{"id": "label-studio:41", "deleted": True}]


def test_spans_that_end_inside_words_are_reported(harness: TopicHarness) -> None:
    record = {"text": "Riga's port", "spans": [[0, 3, "LOC"]]}
    emoji = {"text": "😀 Riga", "spans": [{"start": 3, "end": 7, "label": "LOC", "text": "Riga"}]}
    answer = harness.send([record, emoji], "format=spans")
    expanded, utf16 = (one["sentences"][0] for one in answer["records"])
    assert expanded["alignment"] == "expanded"
    assert utf16["given_offsets"] == "utf-16"
    assert uuid.UUID(expanded["id"]) != uuid.UUID(utf16["id"])  # they had none


def test_spans_become_labels_in_the_datasets_own_scheme(harness: TopicHarness) -> None:
    harness.send(RECORDS["spans"], "format=spans&dataset=plain")
    harness.send({**RECORDS["spans"], "dataset": "plain"}, "format=spans")
    harness.send(RECORDS["spans"], "format=spans")
    assert [(one.get("dataset"), one["labels"][0]) for one in harness.sent] == [
        ("plain", "PER"),
        ("plain", "PER"),
        (None, "B-PER"),
    ]


@pytest.mark.parametrize("path", ["/v1/sentences", "/v1/score"])
def test_the_query_names_the_dataset_of_words_too(shared: ScoringHarness, harness: TopicHarness, path: str) -> None:
    answers = [
        shared.post(f"{path}?dataset=trips", WORDS),
        shared.post(f"{path}?dataset=trips", {"sentences": [{**WORDS, "dataset": "other"}]}),
        shared.post(f"{path}?dataset=trips", json.dumps(WORDS).encode(), content_type="application/x-ndjson"),
        shared.post(f"{path}?format=auto&dataset=trips", [WORDS]),
    ]
    assert all(answer.is_success for answer in answers)
    if path == "/v1/sentences":
        assert [one["dataset"] for one in harness.sent] == ["trips"] * 4
    else:
        assert [list(one.json()["settings"]) for one in (*answers[:2], answers[3])] == [["trips"]] * 3
        assert answers[2].json()["dataset"] == "trips"


def test_records_are_scored_as_the_words_they_become(shared: ScoringHarness) -> None:
    record = make_task(
        annotations=[make_annotation(PER), make_annotation(LOC, id=42, was_cancelled=True), make_annotation(LOC, id=43)]
    )
    answer = shared.post("/v1/score?format=label-studio&method=product&dataset=trips", [record]).json()
    assert [one["id"] for one in answer["assessments"]] == ["label-studio:41", "label-studio:43"]
    assert [one["id"] for one in answer["records"][0]["sentences"]] == [f"label-studio:{n}" for n in (41, 42, 43)]
    assert list(answer["thresholds"]) == ["trips"]
    for one in answer["assessments"]:
        assert one["meta"]["alignment"] == "exact"
        plain = {name: one[name] for name in ("tokens", "labels", "dataset")}
        (again,) = shared.post("/v1/score?method=product", plain).json()["assessments"]
        assert (again["score"], again["words"]) == (one["score"], one["words"])
    beside = shared.post("/v1/score?format=label-studio", {"sentences": [record], "method": "product"}).json()
    assert {one["method"] for one in beside["assessments"]} == {"product"}
    assert "records" not in shared.post("/v1/score", WORDS).json()


@pytest.mark.parametrize("path", ["/v1/sentences", "/v1/score"])
def test_lines_of_records(shared: ScoringHarness, harness: TopicHarness, path: str) -> None:
    several = make_task(annotations=[make_annotation(PER), make_annotation(LOC, id=42)])
    half = make_task(annotations=[make_annotation(PER), make_annotation(make_region("Riga", "LOC", "ORG"), id=42)])
    lines = shared.post_lines(f"{path}?format=label-studio", several, half, make_task(annotations=[]), b"{", [1])
    lines_read = [json.loads(line) for line in lines.text.splitlines()]
    good, bad, none, broken, no_object = lines_read
    assert [one["line"] for one in lines_read] == [1, 2, 3, 4, 5]
    assert [one["id"] for one in good["sentences"]] == ["label-studio:41", "label-studio:42"]
    assert (bad["status"], bad["field"]) == (422, "annotations.1.result.0.value.labels")
    assert bad["detail"].startswith("record 2, `annotations.1.result.0.value.labels`: 2 labels")
    assert (none["sentences"], "no annotation" in none["ignored"]) == ([], True)
    assert (broken["status"], no_object["status"]) == (400, 422)
    if path == "/v1/score":
        assert [one["id"] for one in good["assessments"]] == ["label-studio:41", "label-studio:42"]
        assert none["assessments"] == []
    else:
        assert [one["id"] for one in harness.sent] == ["label-studio:41", "label-studio:42"]


def test_a_line_with_a_label_of_no_class_is_its_problem(shared: ScoringHarness) -> None:
    record = make_task(annotations=[make_annotation(PER), make_annotation(make_region("Riga", "PLACE"), id=42)])
    bad, good = map(json.loads, shared.post_lines("/v1/score?format=auto", record, TASK).text.splitlines())
    assert bad["detail"].startswith("record 1 (label-studio:42), word 6 ('Riga'), `labels`: ")
    assert [one["id"] for one in good["assessments"]] == ["label-studio:41"]
    assert "record 2 (label-studio:42), word 6 ('Riga'), `1.labels`: " in problem(
        shared.post("/v1/score?format=auto", [TASK, record]), 422, "1.labels"
    )


def test_a_sentence_that_the_model_fails_on_is_named(shared: ScoringHarness) -> None:
    record = {"text": f"{POISON_WORD} won", "spans": []}
    assert problem(shared.post("/v1/score?format=spans", [record]), 422, "0").startswith("record 1: ")


TOO_MANY = {"tokens": [["a"]] * 21, "ner_tags": [["O"]] * 21}


@pytest.mark.parametrize(
    ("query", "body", "status", "field", "message"),
    [
        (
            "format=label-studio",
            {"sentences": [TASK, {"id": 7}]},
            422,
            "sentences.1.annotations",
            "record 2, `sentences.1.annotations`: ",
        ),
        ("format=label-studio", [TASK, TASK, {"id": 7}], 422, "2.annotations", "record 3, `2.annotations`: "),
        ("format=doccano", {"text": "Riga"}, 422, "label", "record 1, `label`: none of label"),
        ("format=doccano", [5], 422, "0", "it is not an object"),
        ("format=spans", {"text": "a", "spans": [], "dataset": "No!"}, 422, "dataset", "lower-case letters"),
        ("format=huggingface", RECORDS["huggingface"], 422, "labels", "with label_names=O,B-PER"),
        ("format=huggingface", {"words": ["a"]}, 422, "labels", "with control="),
        ("format=huggingface", TOO_MANY, 413, None, "more than 20 sentences"),
        ("format=huggingface", [TOO_MANY], 413, "0", "record 1: "),
        ("format=auto", {"tokens": ["a"], "label": ["O"]}, 422, "label", "no such field"),
        (
            "format=auto",
            {"foo": 1},
            422,
            None,
            "record 1: its fields don't tell the format: name it with `format`, one of words",
        ),
        ("format=auto", [WORDS, {"foo": 1}], 422, "1", "record 2, `1`: its fields don't tell"),
        ("format=auto", 5, 400, None, "neither an object nor a list"),
        ("format=auto", b"{", 400, None, "not JSON"),
        ("format=auto", [], 422, None, "at least one"),
        ("format=auto", {"sentences": []}, 422, "sentences", "at least one"),
        ("format=auto", [WORDS] * 21, 413, None, "21 records, at most 20"),
        ("format=auto", {"sentences": [WORDS], "dataset": "x"}, 422, "dataset", "beside"),
        ("format=conll", TASK, 422, "format", "choose one of words, label-studio, argilla"),
        ("format=", TASK, 422, "format", "choose one of"),
        ("fromat=spans", WORDS, 422, "fromat", "no such parameter: there are format, dataset, field"),
        ("dataset=No!", WORDS, 422, "dataset", "1 to 64 lower-case letters"),
        ("dataset=", WORDS, 422, "dataset", "1 to 64 lower-case letters"),
        ("field=text", WORDS, 422, "field", "name their `format`"),
        ("format=spans&field=", WORDS, 422, "field", "1 to 256"),
        ("format=spans&control=" + "x" * 257, WORDS, 422, "control", "257 characters"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/sentences", "/v1/score"])
def test_errors_name_the_record_and_the_field(
    harness: TopicHarness, *, path: str, query: str, body: Any, status: int, field: str | None, message: str
) -> None:
    detail = problem(harness.api.post(f"{path}?{query}", body), status, field)
    assert message in detail
    assert "--" not in detail  # options of a command
    assert not harness.sent


def test_fields_and_controls_can_be_named(harness: TopicHarness) -> None:
    other = make_annotation(PER, make_region("Riga", "LOC", from_name="other"))
    record = {"id": 7, "data": {"body": TEXT}, "annotations": [other]}
    harness.send(record, "format=label-studio&field=body&control=other")
    (sent,) = harness.sent
    assert [label for label in sent["labels"] if label != "O"] == ["B-LOC"]


def test_stored_webhook_events_are_records_too(harness: TopicHarness) -> None:
    answer = harness.send([make_event(), make_event("ANNOTATIONS_DELETED"), make_argilla_event()], "format=auto")
    assert [one["format"] for one in answer["records"]] == ["label-studio", "label-studio", "argilla"]
    assert [[each["deleted"] for each in one["sentences"]] for one in answer["records"]] == [
        [False],
        [True, True],
        [False],
    ]


@pytest.mark.parametrize(("path", "status"), [("/v1/sentences", 202), ("/v1/score", 200)])
def test_the_documents_examples_run(shared: ScoringHarness, path: str, status: int) -> None:
    operation = shared.app.openapi()["paths"][path]["post"]
    examples = operation["requestBody"]["content"]["application/json"]["examples"]
    for name, example in examples.items():
        query = "?format=label-studio" if name == "records" else ""
        answer = shared.post(path + query, example["value"])
        assert answer.status_code == status, answer.text
        if query:
            assert query.removeprefix("?") in example["summary"]
            assert [len(one["sentences"]) for one in answer.json()["records"]] == [1]


def test_the_document_gives_the_limit_of_datasets_in_a_list(shared: ScoringHarness) -> None:
    description = shared.app.openapi()["paths"]["/v1/score"]["post"]["description"]
    assert f"at most {MAX_DATASETS_PER_REQUEST} datasets" in description


def test_a_record_of_too_many_datasets_names_the_field(shared: ScoringHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.scoring.requests.MAX_DATASETS_PER_REQUEST", 1)
    rows = [{"row": {"tokens": ["a"], "ner_tags": ["O"], "dataset": name}} for name in ("one", "two")]
    record = {"rows": rows, "features": []}
    assert "'two' is dataset number 2" in problem(shared.post("/v1/score?format=auto", record), 422, "dataset")
    assert "'two' is dataset number 2" in problem(shared.post("/v1/score?format=auto", [record]), 422, "0.dataset")


# -- what a conversion may cost ----------------------------------------------------------------------------------------


def test_a_text_is_split_once_however_many_annotations_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 annotations of one text split it 1,000 times: six such bodies kept all requests waiting."""
    texts: list[str] = []

    def split(text: str) -> list[CharacterRange]:
        texts.append(text)
        return split_words(text)

    monkeypatch.setattr("service.formats.text.alignment.split_words", split)
    text = f"{TEXT} {uuid.uuid4()}"
    annotations = [{**make_annotation(PER), "id": number} for number in range(100)]
    task = {**make_task(annotations=annotations), "data": {"text": text}}
    convert = FORMATS["label-studio"].convert
    assert convert is not None
    assert len(list(convert(task, ReadOptions()))) == 100
    assert texts == [text]


def test_a_text_that_is_too_long_is_refused_before_it_is_split(shared: ScoringHarness) -> None:
    body = {"text": "word " * 40_001, "spans": [], "id": "s"}
    answer = shared.post("/v1/score?format=spans", body)
    assert answer.status_code == 422
    assert "200,005 characters, the limit is 200,000: split the text" in answer.json()["detail"]


def test_annotations_that_repeat_a_long_text_are_bounded() -> None:
    budget = ConversionBudget(1_000, 50, threading.Event())
    sentence = LabelledSentence(tokens=("x" * 20,), labels=("O",), meta={"text": "x" * 20})
    budget.take(sentence, 1, "0")
    with pytest.raises(TooLargeError, match="record 2: with it the body has more than 50 characters in its sentences"):
        budget.take(sentence, 2, "1")


def test_a_conversion_ends_when_nobody_waits_for_it(shared: ScoringHarness) -> None:
    """Its thread went on for 47 seconds, and the service did not end before it."""
    stopped = threading.Event()
    converter = RecordConverter(RecordQuery(format="label-studio"), shared.backend, stopped)
    raw = json.dumps(TASK).encode()
    assert len(converter.parse_body(raw, ()).records) == 1
    stopped.set()
    with pytest.raises(ParsingStoppedError):
        converter.parse_body(raw, ())


def test_a_cancelled_request_stops_its_conversion(shared: ScoringHarness) -> None:
    started, ended = threading.Event(), threading.Event()
    reader = BodyReader(RecordQuery(format="label-studio"), shared.backend, ANYBODY)

    def convert() -> None:
        started.set()
        reader._stopped.wait(30)
        ended.set()

    async def cancel() -> None:
        task = asyncio.ensure_future(reader._run(0, convert))
        await asyncio.to_thread(started.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert ended.wait(10)
    assert reader._stopped.is_set()


@pytest.mark.parametrize("tag", ["9" * 4_000, f'"{"9" * 5_000}"'])
def test_a_tag_of_thousands_of_digits_is_an_ordinary_error_and_does_not_end_a_stream(
    shared: ScoringHarness, tag: str
) -> None:
    bad = f'{{"tokens": ["Mara"], "ner_tags": [{tag}]}}'.encode()
    path = f"/v1/score?format=huggingface&label_names={NAMES}"
    lines = shared.post_lines(path, bad, RECORDS["huggingface"]).text.splitlines()
    first, second = (json.loads(line) for line in lines)
    assert (first["status"], first["line"]) == (422, 1)
    assert "more than 18 digits" in first["detail"]
    assert "status" not in second


def test_an_error_of_ours_does_not_end_a_stream(shared: ScoringHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    convert = RecordConverter._convert

    def fail_once(self: RecordConverter, value: Any, *arguments: Any) -> Any:
        if value.get("fails"):
            raise ZeroDivisionError
        return convert(self, value, *arguments)

    monkeypatch.setattr(RecordConverter, "_convert", fail_once)
    lines = shared.post_lines("/v1/score?format=doccano", {"fails": True}, RECORDS["doccano"]).text.splitlines()
    assert [json.loads(line).get("status") for line in lines] == [500, None]


def test_a_large_list_of_records_is_parsed_record_by_record(harness: TopicHarness) -> None:
    padding = b" " * LARGE_BYTES
    for raw in (json.dumps([TASK, TASK]).encode(), json.dumps({"sentences": [TASK, TASK]}).encode()):
        answer = harness.api.post("/v1/sentences?format=label-studio", raw + padding)
        assert (answer.status_code, len(answer.json()["records"])) == (202, 2)
    answer = harness.api.post("/v1/sentences?format=label-studio", json.dumps([TASK, 3]).encode() + padding)
    assert (answer.status_code, answer.json()["field"]) == (422, "1")


@pytest.mark.parametrize("form", ["label-studio", "words"])
def test_a_record_that_takes_long_to_parse_is_refused_before_it_is_parsed(shared: ScoringHarness, form: str) -> None:
    costly = b'{"data": {' + b",".join(b'"%d":1' % i for i in range(100_001)) + b"}}"
    path = f"/v1/score?format={form}"
    assert shared.post(path, b"[" + costly + b"]").status_code in (413, 422)
    assert shared.post(path, costly).status_code == 413
    [line] = shared.post_lines(path, costly).text.splitlines()
    assert json.loads(line)["status"] == 413


@pytest.mark.parametrize("form", ["label-studio", "words"])
def test_parsing_stops_after_the_current_sentence_if_nobody_waits(shared: ScoringHarness, form: str) -> None:
    reader = BodyReader(RecordQuery(format=form), shared.backend, ANYBODY)
    reader._stopped.set()
    record = TASK if form == "label-studio" else WORDS
    with pytest.raises(ParsingStoppedError):
        reader._parser.parse_body(json.dumps({"sentences": [record]}).encode(), ())
