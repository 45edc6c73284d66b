"""`labelwatch send`: the sentences of files in the input topic."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from service.contracts import LabelledSentence
from service.errors import StreamError
from service.log.codec import get_header
from service.log.protocol import NothingAppended, Output
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from tests.support.command_harness import CommandHarness, make_sentences

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPICS = Topics()


def read_sentences(harness: CommandHarness) -> list[LabelledSentence]:
    return [
        LabelledSentence.model_validate_json(record.value or b"") for record in harness.read_records(TOPICS.sentences)
    ]


def test_sent_sentences_have_their_key_and_event_headers(harness: CommandHarness) -> None:
    ran = harness.run("send", harness.write_file(make_sentences(3, dataset="news")))
    assert (ran.code, ran.out) == (0, f"3 sentences sent to labelwatch.sentences in {harness.log_path}\n")
    assert f"{harness.log_path} is a new log" in ran.err
    records = harness.read_records(TOPICS.sentences)
    assert [record.key for record in records] == [b"news/0-0", b"news/0-1", b"news/0-2"]
    assert {get_header(record.headers, "ce_type") for record in records} == {"labelwatch.sentence.v1"}
    assert len({get_header(record.headers, "ce_id") for record in records}) == 3
    assert [sentence.id for sentence in read_sentences(harness)] == ["0-0", "0-1", "0-2"]


def test_only_the_first_run_announces_a_new_log(harness: CommandHarness) -> None:
    harness.run("send", harness.write_file(make_sentences(1)))
    again = harness.run("send", harness.write_file(make_sentences(1)))
    assert (again.code, again.err) == (0, "")


def test_options_override_the_fields_of_the_file(harness: CommandHarness) -> None:
    file = harness.write_file([*make_sentences(1, dataset="theirs"), *make_sentences(1, seed=1, revision=7)])
    assert harness.run("send", file, "--dataset", "ours", "--annotator", "anna", "--batch", "7", "--update").code == 0
    first, second = read_sentences(harness)
    assert {
        (sentence.dataset, sentence.annotator, sentence.batch, sentence.update) for sentence in (first, second)
    } == {("ours", "anna", "7", True)}
    assert first.revision > 10**15  # microseconds: grows with every update
    assert second.revision == 7


def test_sentences_without_ids_of_different_files_do_not_share_them(
    harness: CommandHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = [{"tokens": ["Oslo"], "labels": ["B-LOC"]}]
    first, second, other = (harness.write_file(bare, name) for name in ("a/x.jsonl", "b/x.jsonl", "y.jsonl"))
    harness.run("send", first, second, other)
    assert [sentence.id for sentence in read_sentences(harness)] == [f"{first}:1", f"{second}:1", "y.jsonl:1"]
    for _ in range(2):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(bare[0]).encode())))
        assert harness.run("send", "-").code == 0
    ids = [sentence.id for sentence in read_sentences(harness)]
    assert len(set(ids)) == 5
    harness.run("send", other, "--id-prefix", "batch7/")
    assert read_sentences(harness)[-1].id == "batch7/1"


BROKEN = {"id": "broken", "tokens": ["a", "b"], "labels": ["O"]}


def test_a_bad_sentence_stops_before_anything_is_sent(harness: CommandHarness) -> None:
    ran = harness.run("send", harness.write_file([*make_sentences(600), BROKEN]))
    assert ran.code == 1
    assert "data.jsonl:601" in ran.err
    assert "give each word one label" in ran.err
    assert not harness.log_path.exists()


def test_bad_sentences_can_be_skipped_and_are_counted_and_reported(harness: CommandHarness) -> None:
    ran = harness.run(
        "send", harness.write_file([*make_sentences(2), BROKEN, *make_sentences(1, seed=1)]), "--on-error", "skip"
    )
    assert (ran.code, ran.out) == (0, f"3 sentences sent to labelwatch.sentences in {harness.log_path}, 1 skipped\n")
    assert "data.jsonl:3" in ran.err
    assert len(read_sentences(harness)) == 3


def test_files_without_a_sentence_are_an_error(harness: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A nightly export that broke must not go unnoticed."""
    empty, blank = harness.folder / "empty.conll", harness.folder / "blank.conll"
    empty.write_text("")
    blank.write_text("\n\n")
    for options in ((), ("--on-error", "skip")):
        ran = harness.run("send", empty, blank, *options)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.splitlines()[-1] == f"labelwatch: no sentence in {empty}, {blank}: nothing was sent"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    ran = harness.run("send", "-")
    assert (ran.code, ran.err.splitlines()[-1]) == (1, "labelwatch: no sentence in -: nothing was sent")
    assert harness.run("send", empty, harness.write_file(make_sentences(1))).code == 0


def test_no_log_is_created_for_an_empty_file(harness: CommandHarness) -> None:
    empty = harness.folder / "empty.conll"
    empty.write_text("")
    assert harness.run("send", empty).code == 1
    assert not harness.log_path.exists()


def test_a_file_whose_sentences_are_all_skipped_is_no_empty_file(harness: CommandHarness) -> None:
    ran = harness.run("send", harness.write_file([BROKEN]), "--on-error", "skip")
    assert (ran.code, ran.out) == (0, f"0 sentences sent to labelwatch.sentences in {harness.log_path}, 1 skipped\n")


def test_sentences_of_a_pipe_before_the_bad_one_are_sent_and_reported(
    harness: CommandHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(json.dumps(line) + "\n" for line in [*make_sentences(2), BROKEN])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    ran = harness.run("send", "-")
    assert ran.code == 1
    assert "<stdin>:3" in ran.err
    assert "2 sentences before it were sent" in ran.err
    assert len(read_sentences(harness)) == 2


def test_a_message_that_exceeds_the_size_limit_is_a_bad_sentence(harness: CommandHarness) -> None:
    big = {"tokens": ["x"] * 3, "labels": ["x" * 400_000] * 3}
    ran = harness.run("send", harness.write_file([big]))
    assert ran.code == 1
    assert "data.jsonl:1" in ran.err
    assert "bytes, the limit is" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "No Way"], "--dataset: 'No Way' can't be the name of a dataset: a name has 1 to 64 lower-case"),
        (["--batch", "x" * 200], "…': give at most 128 characters"),
        (["--annotator", "x" * 300], "…': give at most 256 characters"),
        (["--format", "xml"], "'xml' is not one of conll, jsonl, csv, tsv"),
    ],
)
def test_a_wrong_option_is_named_with_the_remedy(harness: CommandHarness, arguments: list[str], message: str) -> None:
    ran = harness.run("send", harness.write_file(make_sentences(1)), *arguments)
    assert ran.code in (1, 2)
    assert message in " ".join(ran.err.replace("│", " ").split())


def test_a_log_that_fails_reports_how_many_sentences_are_safe(
    harness: CommandHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_append, calls = SqliteLog.append, []

    def append(log: SqliteLog, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:
        calls.append(len(outputs))
        if len(calls) == 2:
            raise StreamError("the disk is full")
        real_append(log, outputs)

    monkeypatch.setattr(SqliteLog, "append", append)
    ran = harness.run("send", harness.write_file(make_sentences(700)))
    assert ran.code == 1
    assert (
        "the disk is full; the first 500 sentences are in labelwatch.sentences, of the next 200 some may be" in ran.err
    )
    assert len(read_sentences(harness)) == 500


def test_a_log_that_was_never_reached_holds_nothing(harness: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def append(_: SqliteLog, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:
        raise NothingAppended(f"no answer for {len(outputs)} in {timeout:.0f} s")

    monkeypatch.setattr(SqliteLog, "append", append)
    ran = harness.run("send", harness.write_file(make_sentences(7)))
    assert ran.code == 1
    assert "no answer for 7 in 30 s; nothing was sent" in ran.err


def test_a_log_that_cannot_be_created_is_named(harness: CommandHarness) -> None:
    (harness.folder / "file").write_text("")
    path = harness.folder / "file" / "log.sqlite"
    ran = harness.run("send", harness.write_file(make_sentences(1)), LABELWATCH_LOG_PATH=str(path))
    assert ran.code == 1
    assert f"LABELWATCH_LOG_PATH: can't use {path}" in ran.err
