"""`labelwatch replay`: the input assessed again beside the live topics."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.contracts import LabelledSentence
from service.log.protocol import Output
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from tests.support.command_harness import CommandHarness, make_sentences
from tests.support.learned_thresholds import judge_and_learn, show_thresholds
from tests.support.tiny_models import LABELS, make_model

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = Topics()


@pytest.fixture(scope="module")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("other") / "other", "wordpiece", seed=5)


def read_live_rows(harness: CommandHarness) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(harness.log_path)) as db:
        return [
            row
            for table in ("records", "heads")
            for row in db.execute(f"SELECT * FROM {table} WHERE topic LIKE 'labelwatch.%' ORDER BY 1, 2")  # noqa: S608
        ]


def read_counts(out: str) -> dict[str, int]:
    """The counts of the report by their label."""
    counts = {}
    for line in out.splitlines()[2:]:
        words = line.split()
        column = next(index for index, word in enumerate(words) if word.replace(",", "").isdecimal())
        counts[" ".join(words[:column])] = int(words[column].replace(",", ""))
    return counts


def test_a_replay_leaves_the_live_topics_as_they_are_and_counts_the_differences(
    harness: CommandHarness, other_model: Path
) -> None:
    given = make_sentences(60)
    harness.append_settings(name="default", version=1, control_share=0.5)
    harness.run("send", harness.write_file([*given, {"tokens": ["a"], "labels": ["B-GHOST"]}]))
    harness.run("worker", "--once")
    before = read_live_rows(harness)
    ran = harness.run("replay", "--from", 20, "--to-prefix", "trial.", "--model", other_model)
    assert ran.code == 0, ran.err
    assert read_live_rows(harness) == before
    assert "41 messages assessed with other" in ran.out
    judge, stats, now = judge_and_learn(other_model, given[20:])
    _, _, everything = judge_and_learn(harness.model, given)
    then = everything & {str(sentence["id"]) for sentence in given[20:]}
    assert read_counts(ran.out) == {
        "flagged before and now": len(now & then),
        "flagged only before": len(then - now),
        "flagged only now": len(now - then),
        "dead letters before": 1,
        "dead letters now": 1,
    }
    trial = harness.read_assessments(Topics("trial."))
    assert {assessment.id for assessment in trial if assessment.reason == "flagged"} == now
    assert {assessment.settings_version for assessment in trial} == {1}
    [view] = show_thresholds(harness, LABELWATCH_TOPICS_PREFIX="trial.", LABELWATCH_MODEL_FOLDER=str(other_model))
    assert {item["name"]: item["threshold"] for item in view["classes"]} == judge.build_threshold_set(stats).by_class


def test_a_replay_with_the_same_model_from_the_start_finds_no_difference(harness: CommandHarness) -> None:
    harness.run("send", harness.write_file(make_sentences(30)))
    harness.run("worker", "--once")
    ran = harness.run("replay", "--from", 0)
    counts = read_counts(ran.out)
    assert counts["flagged before and now"] == len(harness.read_assessments())
    assert "0 of them at other words" in ran.out
    assert counts["flagged only before"] == counts["flagged only now"] == 0


def test_a_replay_continues_where_it_stopped_and_runs_beside_the_live_worker(
    harness: CommandHarness, other_model: Path
) -> None:
    command = ["replay", "--from", 0, "--to-prefix", "trial.", "--model", other_model]
    harness.run("send", harness.write_file(make_sentences(10)))
    with closing(SqliteWorkerSession(harness.log_path, TOPICS)):
        assert "10 messages assessed" in harness.run(*command).out
        harness.run("send", harness.write_file(make_sentences(10, seed=1)))
        ran = harness.run(*command)
    assert "10 messages assessed" in ran.out
    assert "continues at 0:10" in ran.err
    _, stats, _ = judge_and_learn(other_model, [*make_sentences(10), *make_sentences(10, seed=1)])
    [view] = show_thresholds(harness, LABELWATCH_TOPICS_PREFIX="trial.", LABELWATCH_MODEL_FOLDER=str(other_model))
    assert [item["own_words"] for item in view["classes"]] == list(stats.get_total().counts)


def test_cutting_over_to_a_replay_loses_and_repeats_nothing(harness: CommandHarness, other_model: Path) -> None:
    given = [make_sentences(15, seed=seed) for seed in range(3)]
    harness.append(Output(TOPICS.decisions, b"default/0-1/anna", b'{"verdict": "ok"}'))
    harness.run("send", harness.write_file(given[0]))
    harness.run("worker", "--once")
    harness.run("replay", "--from", 0, "--to-prefix", "new.", "--model", other_model)
    harness.run("send", harness.write_file(given[1]))
    harness.variables = {
        "LABELWATCH_TOPICS_PREFIX": "new.",
        "LABELWATCH_TOPICS_SENTENCES": TOPICS.sentences,
        "LABELWATCH_MODEL_FOLDER": str(other_model),
    }
    assert "15 messages read" in harness.run("worker", "--once").err
    harness.run("send", harness.write_file(given[2]))
    assert "15 messages read" in harness.run("worker", "--once").err
    everything = [sentence for part in given for sentence in part]
    judge, stats, flagged = judge_and_learn(other_model, everything)
    [view] = show_thresholds(harness)
    assert {item["name"]: item["threshold"] for item in view["classes"]} == judge.build_threshold_set(stats).by_class
    topics = Topics("new.", TOPICS.sentences)
    assert sorted(str(assessment.id) for assessment in harness.read_assessments(topics)) == sorted(flagged)
    assert [record.value for record in harness.read_records(topics.decisions)] == [b'{"verdict": "ok"}']


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "x"], "'x' is neither OFFSET nor PARTITION:OFFSET"),
        (["--from", "11"], "past the end of labelwatch.sentences, which is at 10"),
        (["--from", "3:0"], "has no partition 3"),
        (["--from", "0:11"], "past the end of labelwatch.sentences, which is at 10"),
        (["--from", "0", "--to-prefix", "labelwatch."], "is the prefix of the live topics"),
        (["--from", "0", "--to-prefix", "a b"], "--to-prefix 'a b': use 1 to 64"),
        (["--from", "0", "--model", "nowhere"], "nowhere is not a folder"),
    ],
)
def test_a_replay_that_cannot_run_is_refused(harness: CommandHarness, arguments: list[str], message: str) -> None:
    harness.run("send", harness.write_file(make_sentences(10)))
    ran = harness.run("replay", *arguments)
    assert ran.code == 1
    assert message in ran.err
    assert len(harness.read_records(TOPICS.sentences)) == 10


def test_a_prefix_of_another_model_is_refused(harness: CommandHarness, other_model: Path) -> None:
    harness.run("send", harness.write_file(make_sentences(10)))
    harness.run("replay", "--from", "0", "--to-prefix", "trial.")
    ran = harness.run("replay", "--from", "0", "--to-prefix", "trial.", "--model", other_model)
    assert ran.code == 1
    assert "trial.* was made with another model" in ran.err


def test_probabilities_that_were_sent_are_replayed_with_another_model(
    harness: CommandHarness, other_model: Path
) -> None:
    """No model computes them, so a replay finds no difference, and an interrupted one continues."""
    rng = np.random.default_rng(0)
    sent = []
    for sentence in make_sentences(40):
        n_words = len(LabelledSentence.model_validate(sentence).tokens)
        rows = rng.dirichlet(np.ones(len(LABELS)), n_words).tolist()
        sent.append({**sentence, "probabilities": {"classes": LABELS, "words": rows}})
    harness.run("send", harness.write_file(sent[:30]))
    harness.run("worker", "--once")
    flagged = {assessment.id for assessment in harness.read_assessments() if assessment.flags}
    assert flagged
    assert not harness.read_records(TOPICS.dead_letters)
    for count in (30, 10):
        ran = harness.run("replay", "--from", 0, "--to-prefix", "trial.", "--model", other_model)
        assert ran.code == 0, ran.err
        assert f"{count} messages assessed" in ran.out
        counts = read_counts(ran.out)
        assert (counts["flagged only before"], counts["flagged only now"]) == (0, 0)
        if count == 30:
            harness.run("send", harness.write_file(sent[30:]))
            harness.run("worker", "--once")
    trial = harness.read_assessments(Topics("trial."))
    assert {assessment.model.name for assessment in trial} == {"external"}
    live = harness.read_assessments()
    assert [(a.id, a.flags, a.priority) for a in trial] == [(a.id, a.flags, a.priority) for a in live]
