from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import LabelledSentence
from service.labels import Scheme, convert_scheme, detect_scheme, get_entity_type
from service.log.protocol import Output
from tests.support.review_queue import (
    make_assessment,
    make_decision_output,
    make_review_output,
    make_settings_output,
)

if TYPE_CHECKING:
    from tests.support.command_harness import CommandHarness


def make_sentence_output(sentence_id: str | None, labels: tuple[str, ...] = ("O", "B-PER"), **fields: Any) -> Output:
    sentence = LabelledSentence.model_validate(
        {"id": sentence_id, "tokens": tuple(f"w{n}" for n in range(len(labels))), "labels": labels, **fields}
    )
    return Output("labelwatch.sentences", None, sentence.model_dump_json(exclude_none=True).encode())


def export(harness: CommandHarness, *arguments: str) -> dict[str, list[str]]:
    result = harness.run("export", *arguments)
    assert result.code == 0, result.err
    return {line["id"]: line["labels"] for line in map(json.loads, result.out.splitlines())}


def test_corrected_labels_take_the_place_of_the_given_ones(harness: CommandHarness) -> None:
    harness.append(
        make_sentence_output("a"), make_sentence_output("b"), make_sentence_output("c"), make_sentence_output("d")
    )
    harness.append(
        make_decision_output("a", "error", labels=["O", "B-LOC"]),
        make_decision_output("b", "ok"),
        make_decision_output("c", "error", words=[1]),
    )
    assert export(harness, "--decisions") == {
        "a": ["O", "B-LOC"],
        "b": ["O", "B-PER"],
        "c": ["O", "B-PER"],
        "d": ["O", "B-PER"],
    }
    assert export(harness)["a"] == ["O", "B-PER"]
    assert list(export(harness, "--decisions", "--decided-only")) == ["a", "b", "c"]
    summary = harness.run("export", "--decisions").err
    assert "4 sentences of default (1 corrected; 1 found right; 1 wrong, but nobody gave the right labels)" in summary


def test_where_reviewers_differ_the_labels_stay_unless_one_is_named(harness: CommandHarness) -> None:
    harness.append(
        make_sentence_output("a"), make_sentence_output("b"), make_sentence_output("c"), make_sentence_output("d")
    )
    harness.append(
        *(make_decision_output("d", "error", labels=["O", "B-LOC"], reviewer=name) for name in ("ann", "bob")),
        make_decision_output("d", "ok", labels=["O", "B-PER"], reviewer="eve"),  # repeats the given labels
        make_decision_output("a", "error", labels=["O", "B-LOC"]),
        make_decision_output("a", "error", labels=["O", "B-ORG"], reviewer="bob"),
        make_decision_output("b", "error", labels=["O", "O"]),
        make_decision_output("b", "error", labels=["O", "O"], reviewer="bob"),
        make_decision_output("c", "error", labels=["O", "O"]),
        make_decision_output("c", "ok", reviewer="bob"),
    )
    labels_by_id = export(harness, "--decisions")
    assert labels_by_id == {"a": ["O", "B-PER"], "b": ["O", "O"], "c": ["O", "B-PER"], "d": ["O", "B-LOC"]}
    assert export(harness, "--decisions", "--reviewer", "bob")["a"] == ["O", "B-ORG"]


def test_with_an_overlap_only_settled_sentences_are_corrected(harness: CommandHarness) -> None:
    """One is open, one in adjudication, one settled by adjudication, one decided."""
    harness.append(make_settings_output(name="default", overlap=2, version=1))
    harness.append(*(make_sentence_output(name) for name in "abcd"))
    town = ["O", "B-LOC"]
    harness.append(
        make_decision_output("a", "error", labels=town),
        make_decision_output("b", "error", labels=town),
        make_decision_output("b", "ok", reviewer="bob"),
        make_decision_output("c", "error", labels=town),
        make_decision_output("c", "unsure", reviewer="bob"),
        make_decision_output("c", "error", labels=["O", "O"], reviewer="cyd", adjudication=True),
        make_decision_output("d", "error", labels=town),
        make_decision_output("d", "error", labels=town, reviewer="bob"),
    )
    given = ["O", "B-PER"]
    assert export(harness, "--decisions") == {"a": given, "b": given, "c": ["O", "O"], "d": town}
    assert list(export(harness, "--decisions", "--decided-only")) == ["c", "d"]
    assert export(harness, "--decisions", "--reviewer", "ann")["b"] == town
    summary = harness.run("export", "--decisions").err
    assert "(2 corrected; 1 in adjudication: not settled yet, their labels are as given)" in summary


def test_only_decisions_in_force_about_the_newest_revision_count(harness: CommandHarness) -> None:
    harness.append(
        make_sentence_output("a", revision=1),
        make_sentence_output("a", ("O", "B-ORG"), revision=2),
        make_sentence_output("b"),
        make_sentence_output("late", revision=5),
    )
    harness.append(
        make_decision_output("a", "error", labels=["O", "B-LOC"], revision=1),
        make_decision_output("b", "error", labels=["O", "B-LOC"], withdrawn=True),
        make_sentence_output("late", ("O", "O"), revision=4),
    )
    assert export(harness, "--decisions") == {"a": ["O", "B-ORG"], "b": ["O", "B-PER"], "late": ["O", "B-PER"]}


def test_deleted_unreadable_and_foreign_sentences_are_left_out(harness: CommandHarness) -> None:
    deletion = LabelledSentence(id="a", deleted=True, revision=1)
    harness.append(
        make_sentence_output("a"),
        Output("labelwatch.sentences", None, deletion.model_dump_json().encode()),
        Output("labelwatch.sentences", None, b"{"),
        make_sentence_output("other", dataset="other"),
        make_sentence_output(None),
    )
    assert list(export(harness)) == ["labelwatch.sentences-0-4"]
    assert list(export(harness, "--dataset", "other")) == ["other"]


def test_sentences_of_a_deleted_task_are_left_out(harness: CommandHarness) -> None:
    """Wherever the deletion is read, and except those annotated after it, as in the review queue."""
    meta = {"format": "label-studio", "task": "7"}
    deletion = make_assessment("label-studio:task:7", reason="deleted", revision=2, meta=meta)
    harness.append(
        make_sentence_output("earlier", revision=1, meta=meta),
        make_sentence_output("later", revision=3, meta=meta),
        make_sentence_output("other", revision=1, meta={**meta, "task": "70"}),
        make_review_output(make_assessment("reviewed", revision=2, meta=meta)),
        make_review_output(deletion),
    )
    assert list(export(harness, "--format", "jsonl")) == ["later", "other"]
    harness.append(Output("labelwatch.review", b"default/label-studio:task:7", None))
    assert list(export(harness, "--format", "jsonl")) == ["earlier", "later", "other", "reviewed"]


def test_a_sentence_that_the_input_topic_has_dropped_is_read_from_the_review_topic(harness: CommandHarness) -> None:
    harness.append(
        make_review_output(make_assessment("old")), make_sentence_output("a"), Output("labelwatch.review", b"x", b"{")
    )
    harness.append(make_decision_output("old", "error", labels=["O", "B-LOC", "O"]))
    assert export(harness, "--decisions") == {"a": ["O", "B-PER"], "old": ["O", "B-LOC", "O"]}


def test_in_columns_it_can_be_sent_again(harness: CommandHarness) -> None:
    harness.append(
        make_sentence_output("a"), make_sentence_output("b"), make_decision_output("a", "error", labels=["O", "B-LOC"])
    )
    path = harness.folder / "out.conll"
    assert harness.run("export", "--decisions", "--format", "conll", "-o", path).code == 0
    assert path.read_text() == "# id = a\nw0\tO\nw1\tB-LOC\n\n# id = b\nw0\tO\nw1\tB-PER\n\n"
    assert harness.run("send", path, "--update").code == 0
    assert export(harness, "--format", "jsonl")["a"] == ["O", "B-LOC"]


def test_options_that_need_decisions_say_so(harness: CommandHarness) -> None:
    harness.append(make_sentence_output("a"))
    result = harness.run("export", "--decided-only")
    assert (result.code, result.out) == (1, "")
    assert "--decisions" in result.err


def test_without_a_log_it_says_so(harness: CommandHarness) -> None:
    assert "there is no log" in harness.run("export").err


def test_an_unknown_dataset_is_an_error_and_no_file_is_written(harness: CommandHarness) -> None:
    harness.append(
        make_sentence_output("a", dataset="news"),
        make_sentence_output("b", dataset="wiki"),
        make_sentence_output(None, dataset="wiki"),
    )
    target = harness.folder / "out.jsonl"
    for arguments, name in ((("--dataset", "nope"), "nope"), ((), "default")):
        result = harness.run("export", *arguments, "-o", target)
        assert result.code == 1
        assert f"{name!r} is not known: the datasets are news, wiki" in result.err
    assert not target.exists()


def test_a_dataset_without_sentences_is_empty_where_it_is_known(harness: CommandHarness) -> None:
    deletion = b'{"dataset": "news", "id": "a", "deleted": true}'
    harness.append(make_sentence_output("a", dataset="news"), Output("labelwatch.sentences", None, deletion))
    result = harness.run("export", "--dataset", "news")
    assert (result.code, result.out) == (0, "")


@pytest.mark.parametrize(
    ("scheme", "given"),
    [("iob2", "B-PERSON O"), ("biluo", "U-PERSON O"), ("iob1", "O I-PERSON B-PERSON"), ("io", "PERSON O")],
)
def test_suggested_labels_are_in_the_scheme_and_names_of_the_dataset(
    harness: CommandHarness, scheme: str, given: str
) -> None:
    names = {"PERSON": "PER", "PLACE": "LOC", "FIRM": "ORG", "REST": "MISC"}
    harness.append_settings(name="news", scheme=scheme, label_map=names, version=1)
    labels = tuple(given.split())
    words = [f"{a}{b}" for a in "abcdef" for b in "ghijk"]
    harness.append(
        *(
            make_sentence_output(word, labels, dataset="news", tokens=(word, "of", "land")[: len(labels)])
            for word in words
        )
    )
    assert harness.run("worker", "--once").code == 0
    flagged = [assessment for assessment in harness.read_assessments() if assessment.flags]
    assert flagged
    for assessment in flagged:
        suggested = list(assessment.labels)
        for flag in assessment.flags:
            suggested[flag.index] = flag.suggested
        suggested = convert_scheme(suggested, Scheme(scheme), Scheme(scheme))  # a word alone may suggest I- after O
        assert assessment.id is not None
        harness.append(make_decision_output(assessment.id, "error", dataset="news", labels=suggested))
    labels_by_id = export(harness, "--decisions", "--dataset", "news", "--decided-only")
    assert len(labels_by_id) == len(flagged)
    assert detect_scheme(labels_by_id.values()) == scheme
    assert {get_entity_type(label) for corrected in labels_by_id.values() for label in corrected} - {"O"} <= set(names)
    assert all(tuple(corrected) != labels for corrected in labels_by_id.values())


def test_a_record_that_cannot_be_read_is_named_and_the_exit_code_is_1(harness: CommandHarness) -> None:
    news, sports = ({"dataset": name, "labels": ["O"], "tokens": ["w"]} for name in ("news", "sports"))
    harness.append(
        *(Output("labelwatch.sentences", b"news/x", json.dumps({**news, "id": each}).encode()) for each in "abc"),
        Output("labelwatch.sentences", b"sports/x", json.dumps({**sports, "id": "a"}).encode()),
        Output("labelwatch.sentences", b"news/x", b"it was never a sentence: a dead letter"),
    )
    harness.run("worker", "--once")
    assert harness.run("export", "--dataset", "news").code == 0
    with closing(sqlite3.connect(harness.log_path)) as db:
        db.execute(
            "UPDATE records SET value = CAST(substr(value, 1, 20) AS BLOB) WHERE topic = 'labelwatch.sentences' AND offset = 1"
        )
        db.execute("DELETE FROM records WHERE topic = 'labelwatch.review'")
        db.commit()
    ran = harness.run("export", "--dataset", "news")
    assert [json.loads(line)["id"] for line in ran.out.splitlines()] == ["a", "c"]
    assert ran.code == 1
    assert "2 sentences of news" in ran.err
    assert "can't be read: labelwatch.sentences-0-1: " in ran.err
    assert "1 stored record can't be read" in ran.err
    assert harness.run("export", "--dataset", "sports").code == 0  # the record's key names another dataset


def test_a_damaged_record_of_the_review_topic_is_named_for_its_dataset(harness: CommandHarness) -> None:
    harness.append(make_sentence_output("a"), make_sentence_output("a", dataset="news"))
    harness.append(*(Output("labelwatch.review", f"default/{number}".encode(), b"{") for number in range(7)))
    assert harness.run("export", "--dataset", "news").code == 0
    ran = harness.run("export")
    assert ran.code == 1
    assert ran.err.count("can't be read: labelwatch.review-0-") == 5
    assert "7 stored records can't be read (2 more)" in ran.err


def test_a_correction_that_is_not_valid_is_named_and_not_used(harness: CommandHarness) -> None:
    harness.append_settings(name="default", label_set=["PER", "LOC"], version=1)
    harness.append(make_sentence_output("a"), make_sentence_output("b"), make_sentence_output("c"))
    harness.append(
        make_decision_output("a", "error", labels=["O", "I-LOC"]),
        make_decision_output("b", "error", labels=["O", "B-ORG"]),
        make_decision_output("c", "error", labels=["O", "B-LOC"]),
    )
    assert export(harness, "--decisions") == {"a": ["O", "B-PER"], "b": ["O", "B-PER"], "c": ["O", "B-LOC"]}
    notes = harness.run("export", "--decisions").err
    assert "default/a: the correction is not used: word 1 ('w1'), `labels`: 'I-LOC' can't follow 'O'" in notes
    assert "default/b: the correction is not used: word 1 ('w1'), `labels`: label 'B-ORG' is not in the label" in notes
    assert "(1 corrected; 2 with a correction that is not valid: their labels are as given)" in notes
