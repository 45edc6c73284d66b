"""How the model of a dataset is changed with commands, on every log: at once, back again, and by a replay."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from service.inference.model.folder import ModelFolder
from tests.support.command_harness import CommandHarness, CommandResult, make_sentences
from tests.support.learned_thresholds import judge_and_learn, show_thresholds
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path


def make_med_sentences(n: int, *, seed: int) -> list[dict[str, object]]:
    return make_sentences(n, seed=seed, dataset="med")


class ModelChangeCommands:
    """A test class inherits it and adds the fixture `harness`."""

    def run(self, harness: CommandHarness, *arguments: object, **variables: str) -> CommandResult:
        ran = harness.run(*arguments, **{"LABELWATCH_MODELS_PATH": str(harness.folder / "models"), **variables})
        assert ran.code == 0, ran.err
        return ran

    def add_models(self, harness: CommandHarness) -> dict[str, Path]:
        folders = {"one": harness.folder / "brought" / "one", "two": harness.folder / "brought" / "two"}
        for seed, (name, folder) in enumerate(folders.items(), 1):
            self.run(harness, "model", "add", make_model(folder, "wordpiece", seed=seed), "--name", name)
        return folders

    def send(self, harness: CommandHarness, sentences: list[dict[str, object]], **variables: str) -> None:
        self.run(harness, "send", harness.write_file(sentences))
        ran = self.run(harness, "worker", "--once", **variables)
        assert f"{len(sentences)} messages read" in ran.err

    def show(self, harness: CommandHarness, dataset: str, **variables: str) -> dict[str, Any]:
        variables = {"LABELWATCH_MODELS_PATH": str(harness.folder / "models"), **variables}
        [view] = show_thresholds(harness, dataset, **variables)
        return view

    def tail_review(self, harness: CommandHarness, **variables: str) -> list[dict[str, Any]]:
        ran = self.run(harness, "tail", "review", "--last", 1000, "--json", **variables)
        return [json.loads(line) for line in ran.out.splitlines()]

    def test_a_change_starts_new_statistics_and_going_back_picks_up_the_old(self, harness: CommandHarness) -> None:
        folders = self.add_models(harness)
        fingerprints = {name: ModelFolder.load(folder).fingerprint for name, folder in folders.items()}
        self.run(harness, "datasets", "set", "med", "model=one")
        self.send(harness, make_med_sentences(30, seed=1))
        ran = self.run(harness, "datasets", "set", "med", "model=two")
        assert "med is judged by two" in ran.out
        assert "the statistics of med start anew; those of 30 sentences stay" in ran.out
        self.send(harness, make_med_sentences(12, seed=2))
        judge, stats, _ = judge_and_learn(folders["two"], make_med_sentences(12, seed=2))
        view = self.show(harness, "med")
        assert view["model"] == {"name": "two", "fingerprint": fingerprints["two"]}
        assert (view["sentences"], len(view["other_statistics"])) == (12, 1)
        assert {row["name"]: row["threshold"] for row in view["classes"]} == judge.build_threshold_set(stats).by_class
        ran = self.run(harness, "datasets", "set", "med", "model=one")
        assert "the statistics of 30 sentences that were learned with these settings before continue" in ran.out
        self.send(harness, make_med_sentences(5, seed=3))
        judge, stats, _ = judge_and_learn(
            folders["one"], [*make_med_sentences(30, seed=1), *make_med_sentences(5, seed=3)]
        )
        view = self.show(harness, "med")
        assert view["sentences"] == 35
        assert {row["name"]: row["threshold"] for row in view["classes"]} == judge.build_threshold_set(stats).by_class
        models = {item["id"].split("-")[0]: item["model"]["fingerprint"] for item in self.tail_review(harness)}
        assert models == {"1": fingerprints["one"], "2": fingerprints["two"], "3": fingerprints["one"]}

    def test_a_replay_judges_the_past_with_the_new_model_and_cuts_over(self, harness: CommandHarness) -> None:
        folders = self.add_models(harness)
        self.run(harness, "datasets", "set", "med", "model=one")
        past = [make_med_sentences(30, seed=1), make_sentences(20, seed=2), make_med_sentences(8, seed=3)]
        self.send(harness, [*past[0], *past[1]])
        live = self.tail_review(harness)
        command = ["replay", "--from", 0, "--to-prefix", f"{harness.topics.prefix}two.", "--dataset", "med"]
        ran = self.run(harness, *command, "--model", "two")
        assert "50 messages assessed, med with two" in ran.out
        assert self.tail_review(harness) == live
        assert self.show(harness, "med")["model"]["name"] == "one"
        self.run(harness, "send", harness.write_file(past[2]))
        ran = self.run(harness, *command, "--model", "two")
        assert "8 messages assessed, med with two" in ran.out
        new = {
            "LABELWATCH_TOPICS_PREFIX": f"{harness.topics.prefix}two.",
            "LABELWATCH_TOPICS_SENTENCES": harness.topics.sentences,
            "LABELWATCH_WORKER_GROUP": f"{harness.topics.prefix}two.workers",
        }
        later = [*make_med_sentences(6, seed=4), *make_sentences(4, seed=5)]
        self.send(harness, later, **new)
        expected = {
            "med": judge_and_learn(folders["two"], [*past[0], *past[2], *later[:6]]),
            "default": judge_and_learn(harness.model, [*past[1], *later[6:]]),
        }
        for dataset, (judge, stats, _) in expected.items():
            view = self.show(harness, dataset, **new)
            assert view["model"]["fingerprint"] == judge.model.fingerprint
            assert view["sentences"] == stats.histogram.total
            assert [row["own_words"] for row in view["classes"]] == list(stats.get_total().counts)
        assert {item["model"]["name"] for item in self.tail_review(harness, **new) if item["dataset"] == "med"} == {
            "two"
        }
        # Back: the live topics are as they were, and the old worker reads what arrived since.
        assert self.tail_review(harness) == live
        ran = self.run(harness, "worker", "--once")
        assert "18 messages read" in ran.err
        assert self.show(harness, "med")["sentences"] == 44
