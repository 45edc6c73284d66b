"""What a stream must have learned, computed by one batch pass, and what `labelwatch thresholds show` prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from service.contracts import DatasetSettings, read_sentence
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from service.statistics.running import RunningStats
    from tests.support.command_harness import CommandHarness


def judge_and_learn(
    model: Path, given: Iterable[dict[str, object]], **settings: object
) -> tuple[Judge, RunningStats, set[str]]:
    """One batch pass over the sentences: the judge, its statistics, and the ids it flagged."""
    folder = ModelFolder.load(model)
    classifier = Classifier(folder)
    judge = Judge(folder, DatasetSettings.model_validate(settings), min_words=1)
    stats, flagged = judge.create_empty_stats(), set()
    for fields in given:
        sentence = read_sentence(fields)
        [words] = classifier.infer([sentence.tokens])
        assert isinstance(words, WordProbs)
        observation = judge.observe(sentence, words)
        assessment = judge.assess(observation, judge.build_threshold_set(stats))
        if assessment.reason == "flagged":
            flagged.add(str(assessment.id))
        stats = judge.learn(observation, stats, priority=assessment.priority)
    return judge, stats, flagged


def show_thresholds(harness: CommandHarness, *more: object, **variables: str) -> list[dict[str, Any]]:
    ran = harness.run("thresholds", "show", "--json", *more, **variables)
    assert ran.code == 0, ran.err
    datasets: list[dict[str, Any]] = json.loads(ran.out)["datasets"]
    return datasets
