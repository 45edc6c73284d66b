"""`labelwatch export`: every sentence back in the format it came in, by files, webhooks and messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import DatasetSettings, LabelledSentence
from service.formats import ReadOptions, read_sentences
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from service.log.protocol import Output
from tests.support.review_queue import make_decision_output
from tests.unit.formats.platforms.round_trip_bodies import BODIES, CORRECTED, GIVEN, NAMES, drop_region_ids

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_harness import CommandHarness

COLUMNS = "# id = c-1\nMara\tB-PER\nwon\tO\n\n"


def send(harness: CommandHarness, body: object, form: str, *more: str) -> list[LabelledSentence]:
    path = harness.folder / f"{form}.in"
    path.write_text(body if isinstance(body, str) else json.dumps(body))
    names = ["--label-names", ",".join(NAMES)] if form == "huggingface" else []
    ran = harness.run("send", path, "--format", form, "--dataset", "trips", *names, *more)
    assert ran.code == 0, ran.err
    return [
        LabelledSentence.model_validate_json(one.value or b"") for one in harness.read_records(harness.topics.sentences)
    ]


def export(harness: CommandHarness, *arguments: object) -> str:
    ran = harness.run("export", "--decisions", "--dataset", "trips", *arguments)
    assert ran.code == 0, ran.err
    return ran.out


@pytest.mark.parametrize("name", BODIES)
def test_a_correction_goes_back_to_where_the_annotation_came_from(harness: CommandHarness, name: str) -> None:
    form, body = BODIES[name]
    (sentence,) = send(harness, body, form)
    assert sentence.id is not None
    assert sentence.labels == GIVEN
    (as_it_was,) = (
        json.loads(export(harness))
        if form in ("label-studio", "argilla")
        else map(json.loads, export(harness).splitlines())
    )
    assert drop_region_ids(as_it_was) == body
    harness.append(
        make_decision_output(sentence.id, "error", dataset="trips", labels=list(CORRECTED), revision=sentence.revision)
    )
    path = harness.folder / "corrected"
    assert export(harness, "-o", path) == ""
    options = ReadOptions(label_names=NAMES if form == "huggingface" else ())
    # Its format is known by its content, save where two write the same.
    (back,) = read_sentences(path, format=form if name == "spans-entities" else None, options=options)
    assert (back.id, back.labels, back.annotator, back.revision) == (
        sentence.id, CORRECTED, sentence.annotator, sentence.revision,
    )  # fmt: skip


def test_columns_and_messages_go_back_as_such(harness: CommandHarness) -> None:
    send(harness, COLUMNS, "conll")
    harness.append(make_decision_output("c-1", "error", dataset="trips", labels=["B-ORG", "O"]))
    assert export(harness) == COLUMNS.replace("PER", "ORG")
    message = b'{"dataset": "plain", "id": "m", "tokens": ["a"], "labels": ["O"]}'
    harness.append(Output("labelwatch.sentences", None, message))
    ran = harness.run("export", "--dataset", "plain")
    assert json.loads(ran.out)["tokens"] == ["a"]


def test_several_formats_need_a_folder_or_one_that_is_named(harness: CommandHarness) -> None:
    send(harness, COLUMNS, "conll")
    send(harness, BODIES["doccano"][1], "doccano")
    target = harness.folder / "out.jsonl"
    ran = harness.run("export", "--dataset", "trips", "-o", target)
    assert (ran.code, ran.out, target.exists()) == (1, "", False)
    assert "(1 as conll, 1 as doccano): give --output a folder" in ran.err
    assert "--format conll" in ran.err
    for folder in (f"{harness.folder}/new/deep/", str(harness.folder / "new" / "deep")):
        ran = harness.run("export", "--dataset", "trips", "-o", folder)
        assert ran.code == 0, ran.err
        assert f"{harness.folder}/new/deep/trips.conll: 1 sentence\n" in ran.err
    made = harness.folder / "new" / "deep"
    assert sorted(path.name for path in made.iterdir()) == ["trips.conll", "trips.doccano.jsonl"]
    assert (made / "trips.conll").read_text() == COLUMNS
    assert json.loads((made / "trips.doccano.jsonl").read_text()) == BODIES["doccano"][1]
    ran = harness.run("export", "--dataset", "trips", "--format", "spans", "-o", target)
    assert "spans: 1 sentence came without a text: the words are joined by one space\n" in ran.err
    assert json.loads(target.read_text().splitlines()[0])["text"] == "Mara won"


def test_a_folder_that_cannot_be_created_is_an_error(harness: CommandHarness) -> None:
    send(harness, COLUMNS, "conll")
    (harness.folder / "file").touch()
    ran = harness.run("export", "--dataset", "trips", "-o", f"{harness.folder}/file/")
    assert ran.code == 1
    assert "can't create" in ran.err


def test_a_missing_folder_is_an_error_before_any_work(harness: CommandHarness) -> None:
    target = harness.folder / "missing" / "corrected.conll"
    ran = harness.run("export", "--dataset", "nothing-stored", "-o", target)
    assert ran.code == 1
    assert f"can't write {target}: there is no folder {target.parent}" in ran.err
    assert not target.parent.exists()


def test_the_output_says_what_numbers_mean(harness: CommandHarness) -> None:
    send(harness, BODIES["huggingface"][1], "huggingface")
    ran = harness.run("export", "--dataset", "trips")
    assert f"huggingface: labels are numbers, to be read with --label-names {','.join(NAMES)}\n" in ran.err


@pytest.mark.parametrize(("platform", "own"), [("label-studio", "7"), ("argilla", "r-1")])
def test_annotations_of_a_task_that_is_gone_are_left_out(harness: CommandHarness, platform: str, own: str) -> None:
    (sentence,) = send(harness, BODIES[platform][1], platform)

    def gone(task: str, revision: int) -> Output:
        made = LabelledSentence(id=f"{platform}:task:{task}", dataset="trips", deleted=True, revision=revision)
        return Output("labelwatch.sentences", None, made.model_dump_json().encode())

    harness.append(gone("8", sentence.revision + 1), gone(own, sentence.revision - 1))  # another, and before it came
    assert len(json.loads(export(harness))) == 1
    harness.append(gone(own, sentence.revision + 1))
    assert export(harness) == ""


# -- the scheme --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", [None, "iob1", "iob2", "biluo", "io"])
def test_a_file_is_sent_in_the_scheme_that_webhooks_write(harness: CommandHarness, scheme: str | None) -> None:
    """Theirs is the judge's."""
    harness.append_settings(name="trips", scheme=scheme, version=1)
    (sentence,) = send(harness, BODIES["doccano"][1], "doccano")
    judged_as = Judge(
        ModelFolder.load(harness.model), DatasetSettings.model_validate({"name": "trips", "scheme": scheme})
    ).scheme
    (by_webhook,) = read_sentences(
        harness.folder / "doccano.in", format="doccano", options=ReadOptions(scheme=judged_as)
    )
    assert (sentence.labels, sentence.meta) == (by_webhook.labels, by_webhook.meta)
    assert json.loads(export(harness)) == BODIES["doccano"][1]
    right = {"iob1": "I-LOC", "biluo": "U-LOC", "io": "LOC"}.get(str(scheme), "B-LOC")
    labels = [*("O" for _ in CORRECTED[:-2]), right, "O"]
    assert sentence.id is not None
    harness.append(make_decision_output(sentence.id, "error", dataset="trips", labels=labels))
    assert [one[2] for one in json.loads(export(harness))["label"]] == ["LOC"]


def test_labels_that_come_as_labels_are_sent_as_they_are(harness: CommandHarness) -> None:
    harness.append_settings(name="trips", scheme="biluo", version=1)
    (sentence,) = send(harness, COLUMNS, "conll")
    assert sentence.labels == ("B-PER", "O")


def test_without_a_model_spans_are_iob2(harness: CommandHarness, tmp_path: Path) -> None:
    harness.variables["LABELWATCH_MODEL_FOLDER"] = str(tmp_path / "none")
    (sentence,) = send(harness, BODIES["doccano"][1], "doccano")
    assert sentence.labels == GIVEN


def test_a_line_with_its_own_dataset_is_written_in_that_ones_scheme(harness: CommandHarness) -> None:
    harness.append_settings(name="other", scheme="io", version=1)
    path = harness.folder / "texts.jsonl"
    lines: list[dict[str, Any]] = [{**BODIES["spans"][1], "id": name, "dataset": name} for name in ("other", "third")]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert harness.run("send", path).code == 0
    sent = [
        LabelledSentence.model_validate_json(one.value or b"") for one in harness.read_records(harness.topics.sentences)
    ]
    assert {one.dataset: one.labels[1] for one in sent} == {"other": "PER", "third": "B-PER"}
