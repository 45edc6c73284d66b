"""What the stream has learned, looked at, reset, and learned again beside it: `thresholds`, `replay`, `check`."""

from __future__ import annotations

import errno
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import typer

from service.contracts import DatasetSettings, read_sentence
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from service.log.codec import to_state_key
from service.log.protocol import Output
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.stream.state.snapshot import StatsKey
from tests.support.command_harness import CommandHarness, make_sentences
from tests.support.tiny_models import LABELS, make_model

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from service.statistics.running import RunningStats

TOPICS = Topics()


@pytest.fixture
def desk(tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    return CommandHarness(tmp_path, tiny_model, capfd=capfd)


@pytest.fixture(scope="module")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("other") / "other", "wordpiece", seed=5)


def learned(
    model: Path, given: Iterable[dict[str, object]], **settings: object
) -> tuple[Judge, RunningStats, set[str]]:
    """One pass over the sentences: the judge, what it has learned, and the ids it flagged."""
    folder = ModelFolder.load(model)
    classifier = Classifier(folder)
    judge = Judge(folder, DatasetSettings.model_validate(settings), min_words=1)
    stats, flagged = judge.create_empty_stats(), set()
    for one in given:
        sentence = read_sentence(one)
        [words] = classifier.infer([sentence.tokens])
        assert isinstance(words, WordProbs)
        seen = judge.observe(sentence, words)
        said = judge.assess(seen, judge.build_threshold_set(stats))
        if said.reason == "flagged":
            flagged.add(str(said.id))
        stats = judge.learn(seen, stats, priority=said.priority)
    return judge, stats, flagged


def shown(desk: CommandHarness, *more: object, **variables: str) -> list[dict[str, Any]]:
    ran = desk.run("thresholds", "show", "--json", *more, **variables)
    assert ran.code == 0, ran.err
    found: list[dict[str, Any]] = json.loads(ran.out)["datasets"]
    return found


# -- thresholds --------------------------------------------------------------------------------------------------------


def test_shown_thresholds_are_those_that_sentences_are_judged_with(desk: CommandHarness) -> None:
    given = make_sentences(50)
    desk.run("send", desk.write_file(given))
    desk.run("worker", "--once")
    judge, stats, _ = learned(desk.model, given)
    [view] = shown(desk)
    yardstick = judge.build_threshold_set(stats)
    assert view["sentences"] == 50
    assert [(one["name"], one["threshold"], one["own_words"]) for one in view["classes"]] == [
        (name, yardstick.by_class[name], count) for name, count in zip(LABELS, stats.get_total().counts, strict=True)
    ]
    text = desk.run("thresholds", "show", "--dataset", "default").out
    assert desk.run("thresholds", "show", "default").out == text
    assert desk.run("thresholds", "show", "default", "--dataset", "default").out == text
    assert "name one dataset" in desk.run("thresholds", "show", "default", "--dataset", "other").err
    assert text.startswith("default: 50 sentences learned from, settings version 0, epoch 0, policy confident")
    assert f"{yardstick.by_class['B-PER']:.6f}" in text
    assert "warming up" in desk.run("thresholds", "show", LABELWATCH_WORKER_MIN_WORDS="1000").out


def test_statistics_of_all_partitions_are_taken_together(desk: CommandHarness) -> None:
    judge, one, _ = learned(desk.model, make_sentences(20))
    _, two, _ = learned(desk.model, make_sentences(20, seed=1))
    for partition, stats in enumerate((one, two)):
        value = json.dumps(stats.snapshot()).encode()
        desk.append(Output(TOPICS.state, to_state_key(partition, "default", judge.stats_key), value))
    [view] = shown(desk)
    yardstick = judge.build_threshold_set(one.merge(two))
    assert {one["name"]: one["threshold"] for one in view["classes"]} == yardstick.by_class


def test_the_prior_is_shown_and_is_no_own_word(desk: CommandHarness, tmp_path: Path) -> None:
    held_out = {"sums": [90.0] * len(LABELS), "counts": [100] * len(LABELS)}
    desk.model = make_model(tmp_path / "ours", "wordpiece", manifest={"held_out": held_out})
    desk.append_settings(name="news", version=3)
    [view] = shown(desk)
    assert {one["prior"] for one in view["classes"]} == {0.9}
    assert all(one["warming_up"] and one["own_words"] == 0 for one in view["classes"])
    assert "0.900000 x 200" in desk.run("thresholds", "show").out


def test_an_unknown_dataset_is_told_with_the_known_ones(desk: CommandHarness) -> None:
    desk.append_settings(name="news", version=1)
    for command in (["show", "--dataset", "nws"], ["reset", "nws", "--yes"]):
        ran = desk.run("thresholds", *command)
        assert ran.code == 1
        assert "'nws' is not known: the datasets are news" in ran.err


def test_reset_starts_a_dataset_anew_and_no_other(desk: CommandHarness) -> None:
    desk.run("send", desk.write_file([*make_sentences(10, dataset="one"), *make_sentences(10, dataset="two")]))
    desk.run("worker", "--once")
    assert desk.run("thresholds", "reset", "one", "--yes").code == 0
    later = make_sentences(5, seed=2, dataset="one")
    desk.run("send", desk.write_file(later))
    desk.run("worker", "--once")
    one, two = shown(desk)
    assert (one["name"], one["epoch"], one["version"], one["sentences"]) == ("one", 1, 1, 5)
    assert len(one["other_statistics"]) == 1
    assert (two["name"], two["epoch"], two["sentences"]) == ("two", 0, 10)
    judge, stats, _ = learned(desk.model, later, name="one", epoch=1)
    assert {one["name"]: one["threshold"] for one in one["classes"]} == judge.build_threshold_set(stats).by_class


def test_reset_keeps_the_other_settings_even_unknown_ones(desk: CommandHarness) -> None:
    written = {"name": "news", "version": 4, "epoch": 2, "method": "product", "of_a_newer_version": [1]}
    desk.append(
        Output(TOPICS.datasets, b"news", json.dumps(written).encode()),
        Output(TOPICS.datasets, b"broken", b"not json"),
    )
    assert "epoch 3 (settings version 5)" in desk.run("thresholds", "reset", "news", "-y").out
    newest = {record.key: record.value or b"" for record in desk.read_records(TOPICS.datasets)}
    assert json.loads(newest[b"news"]) == {**written, "epoch": 3, "version": 5}


def test_reset_asks_first(desk: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.append_settings(name="news", version=1)
    monkeypatch.setattr("typer.confirm", _declined)
    before = desk.read_records(TOPICS.datasets)
    assert desk.run("thresholds", "reset", "news").code == 1
    assert desk.read_records(TOPICS.datasets) == before


def _declined(question: str, *, abort: bool) -> None:
    assert "news" in question
    assert abort
    raise typer.Abort


# -- replay ------------------------------------------------------------------------------------------------------------


def live_rows(desk: CommandHarness) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(desk.log_path)) as db:
        return [
            row
            for table in ("records", "heads")
            for row in db.execute(f"SELECT * FROM {table} WHERE topic LIKE 'labelwatch.%' ORDER BY 1, 2")  # noqa: S608
        ]


def numbers(out: str) -> dict[str, int]:
    """The counts of the report by what they count."""
    found = {}
    for line in out.splitlines()[2:]:
        words = line.split()
        at = next(index for index, word in enumerate(words) if word.replace(",", "").isdecimal())
        found[" ".join(words[:at])] = int(words[at].replace(",", ""))
    return found


def test_a_replay_leaves_the_live_topics_as_they_are_and_counts_the_differences(
    desk: CommandHarness, other_model: Path
) -> None:
    given = make_sentences(60)
    desk.append_settings(name="default", version=1, control_share=0.5)
    desk.run("send", desk.write_file([*given, {"tokens": ["a"], "labels": ["B-GHOST"]}]))
    desk.run("worker", "--once")
    before = live_rows(desk)
    ran = desk.run("replay", "--from", 20, "--to-prefix", "trial.", "--model", other_model)
    assert ran.code == 0, ran.err
    assert live_rows(desk) == before
    assert "41 messages assessed with other" in ran.out
    judge, stats, now = learned(other_model, given[20:])
    _, _, everything = learned(desk.model, given)
    then = everything & {str(one["id"]) for one in given[20:]}
    assert numbers(ran.out) == {
        "flagged before and now": len(now & then),
        "flagged only before": len(then - now),
        "flagged only now": len(now - then),
        "dead letters before": 1,
        "dead letters now": 1,
    }
    trial = desk.read_assessments(Topics("trial."))
    assert {one.id for one in trial if one.reason == "flagged"} == now
    assert {one.settings_version for one in trial} == {1}
    [view] = shown(desk, LABELWATCH_TOPICS_PREFIX="trial.", LABELWATCH_MODEL_FOLDER=str(other_model))
    assert {one["name"]: one["threshold"] for one in view["classes"]} == judge.build_threshold_set(stats).by_class


def test_a_replay_with_the_same_model_from_the_start_finds_no_difference(desk: CommandHarness) -> None:
    desk.run("send", desk.write_file(make_sentences(30)))
    desk.run("worker", "--once")
    ran = desk.run("replay", "--from", 0)
    found = numbers(ran.out)
    assert found["flagged before and now"] == len(desk.read_assessments())
    assert "0 of them at other words" in ran.out
    assert found["flagged only before"] == found["flagged only now"] == 0


def test_a_replay_goes_on_where_it_was_and_runs_beside_the_live_worker(desk: CommandHarness, other_model: Path) -> None:
    command = ["replay", "--from", 0, "--to-prefix", "trial.", "--model", other_model]
    desk.run("send", desk.write_file(make_sentences(10)))
    with closing(SqliteWorkerSession(desk.log_path, TOPICS)):
        assert "10 messages assessed" in desk.run(*command).out
        desk.run("send", desk.write_file(make_sentences(10, seed=1)))
        ran = desk.run(*command)
    assert "10 messages assessed" in ran.out
    assert "continues at 0:10" in ran.err
    _, stats, _ = learned(other_model, [*make_sentences(10), *make_sentences(10, seed=1)])
    [view] = shown(desk, LABELWATCH_TOPICS_PREFIX="trial.", LABELWATCH_MODEL_FOLDER=str(other_model))
    assert [one["own_words"] for one in view["classes"]] == list(stats.get_total().counts)


def test_cutting_over_to_a_replay_loses_and_repeats_nothing(desk: CommandHarness, other_model: Path) -> None:
    given = [make_sentences(15, seed=seed) for seed in range(3)]
    desk.append(Output(TOPICS.decisions, b"default/0-1/anna", b'{"verdict": "ok"}'))
    desk.run("send", desk.write_file(given[0]))
    desk.run("worker", "--once")
    desk.run("replay", "--from", 0, "--to-prefix", "new.", "--model", other_model)
    desk.run("send", desk.write_file(given[1]))
    desk.variables = {
        "LABELWATCH_TOPICS_PREFIX": "new.",
        "LABELWATCH_TOPICS_SENTENCES": TOPICS.sentences,
        "LABELWATCH_MODEL_FOLDER": str(other_model),
    }
    assert "15 messages read" in desk.run("worker", "--once").err
    desk.run("send", desk.write_file(given[2]))
    assert "15 messages read" in desk.run("worker", "--once").err
    everything = [one for part in given for one in part]
    judge, stats, flagged = learned(other_model, everything)
    [view] = shown(desk)
    assert {one["name"]: one["threshold"] for one in view["classes"]} == judge.build_threshold_set(stats).by_class
    topics = Topics("new.", TOPICS.sentences)
    assert sorted(str(one.id) for one in desk.read_assessments(topics)) == sorted(flagged)
    assert [record.value for record in desk.read_records(topics.decisions)] == [b'{"verdict": "ok"}']


@pytest.mark.parametrize(
    ("arguments", "told"),
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
def test_a_replay_that_cannot_be_is_refused(desk: CommandHarness, arguments: list[str], told: str) -> None:
    desk.run("send", desk.write_file(make_sentences(10)))
    ran = desk.run("replay", *arguments)
    assert ran.code == 1
    assert told in ran.err
    assert len(desk.read_records(TOPICS.sentences)) == 10


def test_a_prefix_of_another_model_is_refused(desk: CommandHarness, other_model: Path) -> None:
    desk.run("send", desk.write_file(make_sentences(10)))
    desk.run("replay", "--from", "0", "--to-prefix", "trial.")
    ran = desk.run("replay", "--from", "0", "--to-prefix", "trial.", "--model", other_model)
    assert ran.code == 1
    assert "trial.* was made with another model" in ran.err


# -- check -------------------------------------------------------------------------------------------------------------


def wrong(desk: CommandHarness, **variables: str) -> list[str]:
    ran = desk.run("check", **variables)
    lines = [line for line in ran.out.splitlines() if not line.startswith("ok ")]
    assert ran.code == (1 if lines else 0)
    return lines


def test_check_is_content_with_what_works(desk: CommandHarness) -> None:
    assert wrong(desk) == []
    assert not desk.log_path.exists()
    desk.run("send", desk.write_file(make_sentences(10)))
    desk.run("worker", "--once")
    assert wrong(desk) == []
    assert "state: 10 sentences learned from" in desk.run("check").out


def test_check_says_what_to_change(desk: CommandHarness) -> None:
    assert wrong(desk, LABELWATCH_WRKER_ID="a") == [
        "WRONG settings: LABELWATCH_WRKER_ID is not a setting: correct its name or remove it"
    ]
    assert wrong(desk, LABELWATCH_WORKER_MAX_WORDS="many")[0].startswith(
        "WRONG settings: LABELWATCH_WORKER_MAX_WORDS: give a whole number"
    )
    assert "nowhere is not a folder" in wrong(desk, LABELWATCH_MODEL_FOLDER="nowhere")[0]
    (desk.folder / "file").write_text("this is not a log" * 100)
    assert "can't be read as a log" in wrong(desk, LABELWATCH_LOG_PATH=str(desk.folder / "file"))[0]
    assert "can't create" in wrong(desk, LABELWATCH_LOG_PATH=str(desk.folder / "file" / "log"))[0]


def test_check_goes_on_behind_a_variable_that_cannot_be_used(desk: CommandHarness) -> None:
    ran = desk.run(
        "check",
        LABELWATCH_WORKER_GRUP="g",
        LABELWATCH_API_PORT="none",
        LABELWATCH_KAFKA_BOOTSTRAP_SERVER="here:9092",
        LABELWATCH_MODEL_FOLDER="nowhere",
    )
    assert ran.code == 1
    for told in (
        "WRONG settings: LABELWATCH_WORKER_GRUP: there is no such setting",
        "WRONG settings: LABELWATCH_API_PORT: ",
        "WRONG settings: LABELWATCH_KAFKA_BOOTSTRAP_SERVER: there is no such setting",
        "WRONG model: nowhere is not a folder",
        "ok    log: embedded",
    ):
        assert told in ran.out
    again = desk.run("check", LABELWATCH_KAFKA_SASL_USERNAME="anna")
    assert "WRONG settings: LABELWATCH_KAFKA_BOOTSTRAP_SERVERS: the other settings of its group need it" in again.out
    assert "ok    model: " in again.out


def test_check_tries_the_folder_of_a_log_that_is_to_be_made(
    desk: CommandHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("service.cli.serve.check.tempfile.TemporaryFile", refused)
    (line,) = wrong(desk)
    assert line.endswith(f"{desk.folder} is not writable: Read-only file system")


def test_check_reads_what_the_log_holds(desk: CommandHarness) -> None:
    desk.append_settings(name="news", version=1, method="magic")
    [line] = wrong(desk)
    assert line.startswith("WRONG dataset: the settings of news can't be used")
    assert "magic" in line
    desk.append(Output(TOPICS.state, to_state_key(0, *StatsKey("news", "k")), b"{}"))
    assert any(line.startswith("WRONG state:") for line in wrong(desk))


def test_check_of_a_broker_that_is_away_tells_no_secret(desk: CommandHarness) -> None:
    lines = wrong(
        desk,
        LABELWATCH_KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:9",
        LABELWATCH_KAFKA_SECURITY_PROTOCOL="SASL_PLAINTEXT",
        LABELWATCH_KAFKA_SASL_MECHANISM="PLAIN",
        LABELWATCH_KAFKA_SASL_USERNAME="anna",
        LABELWATCH_KAFKA_SASL_PASSWORD="hunter2",
        LABELWATCH_KAFKA_REQUEST_TIMEOUT_MS="1000",
    )
    assert len(lines) == 1
    assert "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS: Kafka at 127.0.0.1:9" in lines[0]
    assert "hunter2" not in lines[0]
