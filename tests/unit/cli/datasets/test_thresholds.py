"""`labelwatch thresholds`: what the stream has learned, shown and reset."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from service.log.codec import to_state_key
from service.log.protocol import Output
from service.log.topics import Topics
from tests.support.command_harness import CommandHarness, make_sentences
from tests.support.learned_thresholds import judge_and_learn, show_thresholds
from tests.support.tiny_models import LABELS, make_model

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TOPICS = Topics()


def test_shown_thresholds_are_those_that_sentences_are_judged_with(harness: CommandHarness) -> None:
    given = make_sentences(50)
    harness.run("send", harness.write_file(given))
    harness.run("worker", "--once")
    judge, stats, _ = judge_and_learn(harness.model, given)
    [view] = show_thresholds(harness)
    thresholds = judge.build_threshold_set(stats)
    assert view["sentences"] == 50
    assert [(item["name"], item["threshold"], item["own_words"]) for item in view["classes"]] == [
        (name, thresholds.by_class[name], count) for name, count in zip(LABELS, stats.get_total().counts, strict=True)
    ]
    text = harness.run("thresholds", "show", "--dataset", "default").out
    assert harness.run("thresholds", "show", "default").out == text
    assert harness.run("thresholds", "show", "default", "--dataset", "default").out == text
    assert "name one dataset" in harness.run("thresholds", "show", "default", "--dataset", "other").err
    assert text.startswith("default: 50 sentences learned from, settings version 0, epoch 0, policy confident")
    assert f"{thresholds.by_class['B-PER']:.6f}" in text
    assert "warming up" in harness.run("thresholds", "show", LABELWATCH_WORKER_MIN_WORDS="1000").out


def test_statistics_of_all_partitions_are_added_up(harness: CommandHarness) -> None:
    judge, first, _ = judge_and_learn(harness.model, make_sentences(20))
    _, second, _ = judge_and_learn(harness.model, make_sentences(20, seed=1))
    for partition, stats in enumerate((first, second)):
        value = json.dumps(stats.snapshot()).encode()
        harness.append(Output(TOPICS.state, to_state_key(partition, "default", judge.stats_key), value))
    [view] = show_thresholds(harness)
    thresholds = judge.build_threshold_set(first.merge(second))
    assert {item["name"]: item["threshold"] for item in view["classes"]} == thresholds.by_class


def test_the_prior_is_shown_and_is_no_own_word(harness: CommandHarness, tmp_path: Path) -> None:
    held_out = {"sums": [90.0] * len(LABELS), "counts": [100] * len(LABELS)}
    harness.model = make_model(tmp_path / "ours", "wordpiece", manifest={"held_out": held_out})
    harness.append_settings(name="news", version=3)
    [view] = show_thresholds(harness)
    assert {item["prior"] for item in view["classes"]} == {0.9}
    assert all(item["warming_up"] and item["own_words"] == 0 for item in view["classes"])
    assert "0.900000 x 200" in harness.run("thresholds", "show").out


def test_the_error_for_an_unknown_dataset_lists_the_known_ones(harness: CommandHarness) -> None:
    harness.append_settings(name="news", version=1)
    for command in (["show", "--dataset", "nws"], ["reset", "nws", "--yes"]):
        ran = harness.run("thresholds", *command)
        assert ran.code == 1
        assert "'nws' is not known: the datasets are news" in ran.err


def test_reset_starts_a_dataset_anew_and_no_other(harness: CommandHarness) -> None:
    harness.run("send", harness.write_file([*make_sentences(10, dataset="one"), *make_sentences(10, dataset="two")]))
    harness.run("worker", "--once")
    assert harness.run("thresholds", "reset", "one", "--yes").code == 0
    later = make_sentences(5, seed=2, dataset="one")
    harness.run("send", harness.write_file(later))
    harness.run("worker", "--once")
    one, two = show_thresholds(harness)
    assert (one["name"], one["epoch"], one["version"], one["sentences"]) == ("one", 1, 1, 5)
    assert len(one["other_statistics"]) == 1
    assert (two["name"], two["epoch"], two["sentences"]) == ("two", 0, 10)
    judge, stats, _ = judge_and_learn(harness.model, later, name="one", epoch=1)
    assert {item["name"]: item["threshold"] for item in one["classes"]} == judge.build_threshold_set(stats).by_class


def test_reset_keeps_the_other_settings_even_unknown_ones(harness: CommandHarness) -> None:
    written = {"name": "news", "version": 4, "epoch": 2, "method": "product", "of_a_newer_version": [1]}
    harness.append(
        Output(TOPICS.datasets, b"news", json.dumps(written).encode()),
        Output(TOPICS.datasets, b"broken", b"not json"),
    )
    assert "epoch 3 (settings version 5)" in harness.run("thresholds", "reset", "news", "-y").out
    newest = {record.key: record.value or b"" for record in harness.read_records(TOPICS.datasets)}
    assert json.loads(newest[b"news"]) == {**written, "epoch": 3, "version": 5}


def test_reset_asks_first(harness: CommandHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.append_settings(name="news", version=1)
    monkeypatch.setattr("typer.confirm", _declined)
    before = harness.read_records(TOPICS.datasets)
    assert harness.run("thresholds", "reset", "news").code == 1
    assert harness.read_records(TOPICS.datasets) == before


def _declined(question: str, *, abort: bool) -> None:
    assert "news" in question
    assert abort
    raise typer.Abort
