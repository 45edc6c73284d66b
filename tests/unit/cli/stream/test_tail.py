"""`labelwatch tail`: the newest records, and those that arrive."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from service.log.protocol import Output
from service.log.topics import Topics
from tests.support.command_harness import CommandHarness, make_sentences

if TYPE_CHECKING:
    import pytest

TOPICS = Topics()


def test_tail_prints_the_newest_as_text_and_as_json(harness: CommandHarness) -> None:
    assert "there is no log" in harness.run("tail", "review").err
    harness.run("send", harness.write_file(make_sentences(40, annotator="anna")))
    harness.run("worker", "--once")
    assessments = harness.read_assessments()
    assert len(assessments) > 3
    ran = harness.run("tail", "review", "--last", "3", "--json")
    assert [json.loads(line)["id"] for line in ran.out.splitlines()] == [
        assessment.id for assessment in assessments[-3:]
    ]
    lines = harness.run("tail", "review", "-n", "1").out.splitlines()
    last = assessments[-1]
    assert f"default/{last.id}" in lines[0]
    assert "flagged" in lines[0]
    assert f"score {last.score:.4g}" in lines[0]
    assert "by anna" in lines[0]
    for flag in last.flags:
        assert f"{flag.token}[{flag.given}→{flag.suggested}]" in lines[1]
    assert len(harness.run("tail", "review").out.splitlines()) == 20


def test_tail_prints_no_control_characters(harness: CommandHarness) -> None:
    harness.append(
        Output(TOPICS.review, b"default/gone", None),
        Output(TOPICS.review, b"default/\x1b[2J", b'{"from": "the future"}'),
        Output(TOPICS.dead_letters, b"\x1b]0;", b"\xff\x1b[31m"),
    )
    review = harness.run("tail", "review").out
    assert "removed   default/gone" in review
    assert "not an assessment of this version" in review
    letters = harness.run("tail", "dead-letters").out
    assert "no reason was given" in letters
    assert "\x1b" not in review + letters
    assert json.loads(harness.run("tail", "dead-letters", "--json").out)["value"] == {"base64": "/xtbMzFt"}


def test_tail_of_scores_names_the_setting_that_writes_them(harness: CommandHarness) -> None:
    harness.run("send", harness.write_file(make_sentences(5)))
    harness.run("worker", "--once")
    assert "LABELWATCH_WORKER_PUBLISH_SCORES=true" in harness.run("tail", "scores").err
    harness.run("send", harness.write_file(make_sentences(5, seed=1)))
    harness.run("worker", "--once", LABELWATCH_WORKER_PUBLISH_SCORES="true")
    assert len(harness.run("tail", "scores", "--json").out.splitlines()) == 5


def test_tail_follows_new_records(harness: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.append(Output(TOPICS.review, b"default/first", None))
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            harness.append(Output(TOPICS.review, b"default/second", None))
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr("service.cli.stream.tail.time.sleep", pause)
    ran = harness.run("tail", "review", "--follow")
    assert ran.code == 0
    assert [line.split()[-1] for line in ran.out.splitlines()] == ["default/first", "default/second"]


def test_tail_waits_for_a_log_that_does_not_exist_and_says_so_once(
    harness: CommandHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            harness.append(Output(TOPICS.review, b"default/first", None))
        if len(pauses) > 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("service.cli.stream.tail.time.sleep", pause)
    ran = harness.run("tail", "review", "--follow")
    assert (ran.code, ran.err) == (0, f"there is no log at {harness.log_path} yet: waiting for it\n")
    assert "default/first" in ran.out


def test_ctrl_c_ends_the_wait_for_a_log(harness: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("service.cli.stream.tail.time.sleep", interrupt)
    ran = harness.run("tail", "review", "--follow")
    assert (ran.code, ran.out) == (0, "")
    assert not harness.log_path.exists()
