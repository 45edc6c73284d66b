"""A worker counts the sentences of each batch; the same numbers come from one pass and from many, after restarts too."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from service.log.protocol import Output
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.stream.state.batches import sum_batches
from service.stream.state.reader import read_state
from tests.support.command_harness import CommandHarness, make_sentences
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from service.statistics.batches import DatasetBatches

TOPICS = Topics()
BUDGET = 'flag_policy={"kind": "budget", "share": 0.1}'


@pytest.fixture
def harness(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    return CommandHarness(tmp_path, make_model(tmp_path / "model", "wordpiece"), capfd=capfd)


def send(harness: CommandHarness, sentences: list[dict[str, Any]], *options: str) -> None:
    assert harness.run("send", harness.write_file(sentences), *options).code == 0


def work(harness: CommandHarness) -> None:
    assert harness.run("worker", "--once").code == 0


def read_batches(harness: CommandHarness) -> DatasetBatches:
    log = SqliteLog(harness.log_path, TOPICS)
    try:
        return sum_batches(read_state(log, TOPICS).snapshot.batches, "default")
    finally:
        log.close()


def test_every_delivered_sentence_counts_once_whenever_the_worker_restarts(harness: CommandHarness) -> None:
    assert harness.run("datasets", "set", "default", "control_share=0.25", BUDGET).code == 0
    for seed in range(3):
        send(harness, make_sentences(30, seed=seed), "--batch", "7")
        work(harness)
    assert harness.run("datasets", "set", "default", "control_share=0.5").code == 0
    send(harness, make_sentences(40, seed=9), "--batch", "7")
    send(harness, make_sentences(5, seed=10, batch="8"))
    send(harness, make_sentences(4, seed=11))
    work(harness)
    batches = read_batches(harness).batches
    assert {name: counts.sentences for name, counts in batches.items()} == {"7": 130, "8": 5}
    reasons = Counter(each.reason for each in harness.read_assessments() if each.batch == "7")
    assert batches["7"].flagged == reasons["flagged"]
    assert set(batches["7"].unflagged) == {"0.25", "0.5"}
    assert 0 < reasons["control"] < 130 - reasons["flagged"]
    assert sum(batches["7"].drawn.values()) == reasons["control"]
    assert {each.inclusion_probability for each in harness.read_assessments() if each.reason == "control"} <= {
        0.25,
        0.5,
    }


def test_updates_deletions_and_dead_letters_are_not_part_of_the_delivery(harness: CommandHarness) -> None:
    send(harness, make_sentences(6), "--batch", "7")
    send(harness, make_sentences(3), "--batch", "7", "--update")
    send(
        harness,
        [{"id": "0-1", "deleted": True, "batch": "7"}, {"tokens": ["a"], "labels": ["B-NOWHERE"], "batch": "7"}],
    )
    work(harness)
    assert read_batches(harness).batches["7"].sentences == 6


def test_accept_answers_with_a_verdict_and_its_exit_code(harness: CommandHarness) -> None:
    assert harness.run("datasets", "set", "default", "control_share=1", BUDGET).code == 0
    send(harness, make_sentences(60), "--batch", "7")
    work(harness)
    undecided = harness.run("accept", "--batch", "7", "--max-error-rate", "0.03")
    assert undecided.code == 4
    assert "batch 7: 60 sentences" in undecided.out
    assert "review about" in undecided.out
    decide_all(harness, "ok")
    accepted = harness.run("accept", "--batch", "7", "--max-error-rate", "0.03", "--json")
    assert (accepted.code, json.loads(accepted.out)["verdict"]) == (0, "accept")
    decide_all(harness, "error")
    assert harness.run("datasets", "set", "default", "max_error_rate=0.03").code == 0
    rejected = harness.run("accept", "--batch", "7")
    assert (rejected.code, "reject (limit 3.00%)" in rejected.out) == (3, True)
    listed = harness.run("accept")
    assert (listed.code, "reject" in listed.out) == (0, True)


def test_a_control_sentence_that_is_annotated_again_before_its_decision_counts_both_ways(
    harness: CommandHarness,
) -> None:
    assert harness.run("datasets", "set", "default", "control_share=1", BUDGET).code == 0
    sentences = make_sentences(60)
    send(harness, sentences, "--batch", "7")
    work(harness)
    controls = [each.id for each in harness.read_assessments() if each.reason == "control"][:3]
    decide_all(harness, "ok", but=controls)
    again = [{**each, "revision": 1, "update": True} for each in sentences if each["id"] in controls]
    assert len(again) == 3
    send(harness, again)
    work(harness)
    decide_all(harness, "ok", revision=1)  # about the corrected sentences, which are no part of the delivery
    report = json.loads(harness.run("accept", "--batch", "7", "--max-error-rate", "0.03", "--json").out)
    assert (report["controls_lost"], report["low"], report["high"]) == (3, 0.0, 3 / 60)
    assert report["verdict"] == "review"


def test_accept_says_what_is_missing(harness: CommandHarness) -> None:
    send(harness, make_sentences(3))
    work(harness)
    assert "send --batch NAME" in harness.run("accept").out
    unknown = harness.run("accept", "--batch", "9", "--max-error-rate", "0.03")
    assert (unknown.code, "no sentence of it names a batch" in unknown.err) == (1, True)
    assert "--max-error-rate" in harness.run("accept", "--batch", "9").err


def decide_all(harness: CommandHarness, verdict: str, *, but: Sequence[str | None] = (), revision: int = 0) -> None:
    log = SqliteLog(harness.log_path, TOPICS)
    decision = {"dataset": "default", "reviewer": "ada", "verdict": verdict, "revision": revision}
    decisions = [
        Output(
            TOPICS.decisions,
            f"default/{each.id}/ada".encode(),
            json.dumps({**decision, "id": each.id}).encode(),
        )
        for each in harness.read_assessments()
        if each.id not in but and each.revision == revision
    ]
    log.append(decisions)
    log.close()
