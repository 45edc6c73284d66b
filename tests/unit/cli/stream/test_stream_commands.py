"""The stream commands on the embedded log, with the real worker and pipeline (a tiny model)."""

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
    from pathlib import Path

TOPICS = Topics()


@pytest.fixture
def desk(tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    return CommandHarness(tmp_path, tiny_model, capfd=capfd)


def sent(desk: CommandHarness) -> list[LabelledSentence]:
    return [LabelledSentence.model_validate_json(record.value or b"") for record in desk.read_records(TOPICS.sentences)]


# -- send --------------------------------------------------------------------------------------------------------------


def test_sent_sentences_have_their_key_and_event_headers(desk: CommandHarness) -> None:
    ran = desk.run("send", desk.write_file(make_sentences(3, dataset="news")))
    assert (ran.code, ran.out) == (0, f"3 sentences sent to labelwatch.sentences in {desk.log_path}\n")
    assert f"{desk.log_path} is a new log" in ran.err
    records = desk.read_records(TOPICS.sentences)
    assert [record.key for record in records] == [b"news/0-0", b"news/0-1", b"news/0-2"]
    assert {get_header(record.headers, "ce_type") for record in records} == {"labelwatch.sentence.v1"}
    assert len({get_header(record.headers, "ce_id") for record in records}) == 3
    assert [sentence.id for sentence in sent(desk)] == ["0-0", "0-1", "0-2"]


def test_only_the_first_sending_tells_of_a_new_log(desk: CommandHarness) -> None:
    desk.run("send", desk.write_file(make_sentences(1)))
    again = desk.run("send", desk.write_file(make_sentences(1)))
    assert (again.code, again.err) == (0, "")


def test_the_command_line_counts_before_the_file(desk: CommandHarness) -> None:
    file = desk.write_file([*make_sentences(1, dataset="theirs"), *make_sentences(1, seed=1, revision=7)])
    assert desk.run("send", file, "--dataset", "ours", "--annotator", "anna", "--update").code == 0
    first, second = sent(desk)
    assert {(one.dataset, one.annotator, one.update) for one in (first, second)} == {("ours", "anna", True)}
    assert first.revision > 10**15  # microseconds: grows with every update
    assert second.revision == 7


def test_sentences_without_ids_of_different_files_do_not_share_them(
    desk: CommandHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = [{"tokens": ["Oslo"], "labels": ["B-LOC"]}]
    one, two, other = (desk.write_file(bare, name) for name in ("a/x.jsonl", "b/x.jsonl", "y.jsonl"))
    desk.run("send", one, two, other)
    assert [sentence.id for sentence in sent(desk)] == [f"{one}:1", f"{two}:1", "y.jsonl:1"]
    for _ in range(2):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(bare[0]).encode())))
        assert desk.run("send", "-").code == 0
    ids = [sentence.id for sentence in sent(desk)]
    assert len(set(ids)) == 5
    desk.run("send", other, "--id-prefix", "batch7/")
    assert sent(desk)[-1].id == "batch7/1"


BROKEN = {"id": "broken", "tokens": ["a", "b"], "labels": ["O"]}


def test_a_bad_sentence_stops_before_anything_is_sent(desk: CommandHarness) -> None:
    ran = desk.run("send", desk.write_file([*make_sentences(600), BROKEN]))
    assert ran.code == 1
    assert "data.jsonl:601" in ran.err
    assert "give each word one label" in ran.err
    assert not desk.log_path.exists()


def test_bad_sentences_can_be_skipped_and_are_counted_and_told(desk: CommandHarness) -> None:
    ran = desk.run(
        "send", desk.write_file([*make_sentences(2), BROKEN, *make_sentences(1, seed=1)]), "--on-error", "skip"
    )
    assert (ran.code, ran.out) == (0, f"3 sentences sent to labelwatch.sentences in {desk.log_path}, 1 skipped\n")
    assert "data.jsonl:3" in ran.err
    assert len(sent(desk)) == 3


def test_of_a_pipe_what_came_before_the_bad_sentence_is_sent_and_told(
    desk: CommandHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(json.dumps(line) + "\n" for line in [*make_sentences(2), BROKEN])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    ran = desk.run("send", "-")
    assert ran.code == 1
    assert "<stdin>:3" in ran.err
    assert "2 sentences before it were sent" in ran.err
    assert len(sent(desk)) == 2


def test_a_message_that_no_topic_takes_is_a_bad_sentence(desk: CommandHarness) -> None:
    big = {"tokens": ["x" * 400_000] * 3, "labels": ["O"] * 3}
    ran = desk.run("send", desk.write_file([big]))
    assert ran.code == 1
    assert "data.jsonl:1" in ran.err
    assert "bytes, the limit is" in ran.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--dataset", "No Way"], "--dataset: 'No Way' can't be the name of a dataset: a name has 1 to 64 lower-case"),
        (["--annotator", "x" * 300], "…': give at most 256 characters"),
        (["--format", "xml"], "'xml' is not one of conll, jsonl, csv, tsv"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_told(desk: CommandHarness, arguments: list[str], told: str) -> None:
    ran = desk.run("send", desk.write_file(make_sentences(1)), *arguments)
    assert ran.code in (1, 2)
    assert told in " ".join(ran.err.replace("│", " ").split())


def test_a_log_that_fails_says_what_is_safe(desk: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = SqliteLog.append, []

    def append(stream: SqliteLog, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:
        calls.append(len(outputs))
        if len(calls) == 2:
            raise StreamError("the disk is full")
        real(stream, outputs)

    monkeypatch.setattr(SqliteLog, "append", append)
    ran = desk.run("send", desk.write_file(make_sentences(700)))
    assert ran.code == 1
    assert (
        "the disk is full; the first 500 sentences are in labelwatch.sentences, of the next 200 some may be" in ran.err
    )
    assert len(sent(desk)) == 500


def test_a_log_that_was_never_reached_holds_nothing(desk: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def append(_: SqliteLog, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:
        raise NothingAppended(f"nobody took {len(outputs)} in {timeout:.0f} s")

    monkeypatch.setattr(SqliteLog, "append", append)
    ran = desk.run("send", desk.write_file(make_sentences(7)))
    assert ran.code == 1
    assert "nobody took 7 in 30 s; nothing was sent" in ran.err


def test_a_log_that_cannot_be_made_is_named(desk: CommandHarness) -> None:
    (desk.folder / "file").write_text("")
    path = desk.folder / "file" / "log.sqlite"
    ran = desk.run("send", desk.write_file(make_sentences(1)), LABELWATCH_LOG_PATH=str(path))
    assert ran.code == 1
    assert f"LABELWATCH_LOG_PATH: can't use {path}" in ran.err


# -- topics and tail ---------------------------------------------------------------------------------------------------


def test_topics_of_the_embedded_log(desk: CommandHarness) -> None:
    assert "nothing to create" in desk.run("topics", "create").out
    assert "there is no log at" in desk.run("topics", "describe").err
    desk.run("send", desk.write_file(make_sentences(20)))
    described = desk.run("topics", "describe").out
    assert "continues at offset 0 of labelwatch.sentences, 20 behind the end" in described
    desk.run("worker", "--once")
    described = desk.run("topics", "describe").out
    rows = {line.split()[0]: line.split()[1:4] for line in described.splitlines()[1:-1]}
    assert rows[TOPICS.sentences] == ["20", "0", "20"]
    assert rows[TOPICS.review][0] == str(len(desk.read_assessments()))
    assert "continues at offset 20 of labelwatch.sentences, 0 behind the end" in described


def test_tail_shows_the_newest_for_people_and_for_programs(desk: CommandHarness) -> None:
    assert "there is no log" in desk.run("tail", "review").err
    desk.run("send", desk.write_file(make_sentences(40, annotator="anna")))
    desk.run("worker", "--once")
    said = desk.read_assessments()
    assert len(said) > 3
    ran = desk.run("tail", "review", "--last", "3", "--json")
    assert [json.loads(line)["id"] for line in ran.out.splitlines()] == [one.id for one in said[-3:]]
    lines = desk.run("tail", "review", "-n", "1").out.splitlines()
    last = said[-1]
    assert f"default/{last.id}" in lines[0]
    assert "flagged" in lines[0]
    assert f"score {last.score:.4g}" in lines[0]
    assert "by anna" in lines[0]
    for flag in last.flags:
        assert f"{flag.token}[{flag.given}→{flag.suggested}]" in lines[1]
    assert len(desk.run("tail", "review").out.splitlines()) == 20


def test_tail_is_safe_to_look_at(desk: CommandHarness) -> None:
    desk.append(
        Output(TOPICS.review, b"default/gone", None),
        Output(TOPICS.review, b"default/\x1b[2J", b'{"from": "the future"}'),
        Output(TOPICS.dead_letters, b"\x1b]0;", b"\xff\x1b[31m"),
    )
    review = desk.run("tail", "review").out
    assert "removed   default/gone" in review
    assert "not an assessment of this version" in review
    letters = desk.run("tail", "dead-letters").out
    assert "no reason was given" in letters
    assert "\x1b" not in review + letters
    assert json.loads(desk.run("tail", "dead-letters", "--json").out)["value"] == {"base64": "/xtbMzFt"}


def test_tail_of_scores_says_how_to_have_them(desk: CommandHarness) -> None:
    desk.run("send", desk.write_file(make_sentences(5)))
    desk.run("worker", "--once")
    assert "LABELWATCH_WORKER_PUBLISH_SCORES=true" in desk.run("tail", "scores").err
    desk.run("send", desk.write_file(make_sentences(5, seed=1)))
    desk.run("worker", "--once", LABELWATCH_WORKER_PUBLISH_SCORES="true")
    assert len(desk.run("tail", "scores", "--json").out.splitlines()) == 5


def test_tail_follows_what_comes(desk: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.append(Output(TOPICS.review, b"default/first", None))
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 1:
            desk.append(Output(TOPICS.review, b"default/second", None))
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr("service.cli.stream.tail.time.sleep", nap)
    ran = desk.run("tail", "review", "--follow")
    assert ran.code == 0
    assert [line.split()[-1] for line in ran.out.splitlines()] == ["default/first", "default/second"]


def test_tail_waits_for_a_log_that_is_not_there_yet_and_says_so_once(
    desk: CommandHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            desk.append(Output(TOPICS.review, b"default/first", None))
        if len(naps) > 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("service.cli.stream.tail.time.sleep", nap)
    ran = desk.run("tail", "review", "--follow")
    assert (ran.code, ran.err) == (0, f"there is no log at {desk.log_path} yet: waiting for it\n")
    assert "default/first" in ran.out


def test_who_waits_for_a_log_can_give_up(desk: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def enough(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("service.cli.stream.tail.time.sleep", enough)
    ran = desk.run("tail", "review", "--follow")
    assert (ran.code, ran.out) == (0, "")
    assert not desk.log_path.exists()


# -- dead letters ------------------------------------------------------------------------------------------------------

RAW: list[tuple[bytes | None, bytes | None]] = [
    (b"\xffkey", b"\xfe not json"),
    (None, b'{"tokens": ["a"], "labels": ["B-GHOST"], "dataset": "odd", "id": "g"}'),
    (b"k", None),
]
OWN = (("trace", b"\x00\xff"), ("__connect.errors.stage", b"theirs"))


def letters_made(desk: CommandHarness) -> None:
    desk.append(*(Output(TOPICS.sentences, key, value, OWN) for key, value in RAW))
    desk.run("worker", "--once")


def test_dead_letters_are_listed_with_their_reasons(desk: CommandHarness) -> None:
    letters_made(desk)
    ran = desk.run("dead-letters", "list")
    assert "B-GHOST" in ran.out
    assert "the message has no value" in ran.out
    assert "3 dead letters: 2 decode, 1 labels" in ran.err
    [line] = desk.run("dead-letters", "list", "--stage", "labels", "--json").out.splitlines()
    told = json.loads(line)
    assert told["stage"] == "labels"
    assert told["origin"] == "labelwatch.sentences-0-1"
    assert told["headers"] == [["trace", {"base64": "AP8="}], ["__connect.errors.stage", {"text": "theirs"}]]


def test_dead_letters_go_back_byte_for_byte_and_only_once(desk: CommandHarness) -> None:
    letters_made(desk)
    assert "1 dead letter would be sent" in desk.run("dead-letters", "replay", "--stage", "labels", "--dry-run").out
    assert len(desk.read_records(TOPICS.sentences)) == 3
    assert "1 dead letter sent" in desk.run("dead-letters", "replay", "--stage", "labels").out
    ran = desk.run("dead-letters", "replay")
    assert ran.out.startswith("2 dead letters sent to labelwatch.sentences; 1 was sent again before")
    again = desk.read_records(TOPICS.sentences)[3:]
    assert sorted((record.key or b"", record.value or b"") for record in again) == sorted(
        (key or b"", value or b"") for key, value in RAW
    )
    assert {tuple(one for one in record.headers if one[0] != "labelwatch-replay-of") for record in again} == {OWN}
    assert desk.run("dead-letters", "replay").out.startswith("0 dead letters sent")
    assert desk.run("dead-letters", "replay", "--again").out.startswith("3 dead letters sent")


def test_a_mended_cause_brings_the_letter_to_review(desk: CommandHarness) -> None:
    letters_made(desk)
    desk.append_settings(name="odd", version=1, label_map={"GHOST": "PER"}, control_share=1.0)
    desk.run("dead-letters", "replay", "--stage", "labels")
    desk.run("worker", "--once")
    assert [one.id for one in desk.read_assessments()] == ["g"]
    assert len(desk.read_records(TOPICS.dead_letters)) == 3


def test_letters_that_were_sent_again_are_marked_or_left_out(desk: CommandHarness) -> None:
    letters_made(desk)
    assert "sent again" not in desk.run("dead-letters", "list").out
    desk.run("dead-letters", "replay", "--stage", "labels")
    ran = desk.run("dead-letters", "list")
    [marked] = [line for line in ran.out.splitlines() if "[sent again]" in line]
    assert "B-GHOST" in marked
    assert "3 dead letters: 2 decode, 1 labels; 1 sent again before (--waiting leaves them out)" in ran.err
    told = [json.loads(line) for line in desk.run("dead-letters", "list", "--json").out.splitlines()]
    assert sorted((one["stage"], one["sent_again"]) for one in told) == [("decode", False)] * 2 + [("labels", True)]
    ran = desk.run("dead-letters", "list", "--waiting")
    assert "B-GHOST" not in ran.out
    assert "2 dead letters: 2 decode; 1 sent again before and left out" in ran.err


def test_a_letter_that_dies_again_can_be_sent_again(desk: CommandHarness) -> None:
    letters_made(desk)
    desk.run("dead-letters", "replay", "--stage", "labels")
    desk.run("worker", "--once")
    ran = desk.run("dead-letters", "replay", "--stage", "labels")
    assert ran.out.startswith("1 dead letter sent to labelwatch.sentences; 1 was sent again before")
    marks = [one for one in desk.read_records(TOPICS.sentences)[-1].headers if one[0] == "labelwatch-replay-of"]
    assert marks == [("labelwatch-replay-of", b"labelwatch.dead-letters-0-3")]
