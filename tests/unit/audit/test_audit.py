from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.audit.audit import audit
from service.contracts import LabelledSentence
from service.errors import InferenceError, InvalidInput, LabelwatchError, UnknownLabelError
from service.formats.records import FileRecord
from service.scoring.confident import compute_thresholds, sum_by_class
from service.statistics.thresholds import HeldOutStats
from tests.support.one_pass import OnePass
from tests.unit.audit.fake_model import CLASSES, FakeClassifier, make_judge, make_word_probs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.contracts import Assessment
    from service.inference.classifier import WordProbs
    from service.judging.judge import Judge
    from service.judging.types import Observation

RNG = np.random.default_rng(3)


def make_records(n: int, labels: Iterable[str] = ("O", "B-PER")) -> tuple[list[FileRecord], list[WordProbs]]:
    names = list(labels)
    records, answers = [], []
    for number in range(n):
        given = [names[k] for k in RNG.integers(0, len(names), 3)]
        read = [names[k] if RNG.random() < 0.2 else label for k, label in zip(RNG.integers(0, len(names), 3), given, strict=True)]  # fmt: skip
        sentence = LabelledSentence(tokens=("a", "b", "c"), labels=tuple(given), id=str(number))
        records.append(FileRecord(f"f:{number}", sentence))
        answers.append(make_word_probs(read, float(RNG.uniform(0.5, 0.99))))
    return records, answers


def raise_error(record: FileRecord, error: LabelwatchError) -> None:
    raise error


def run(
    records: list[FileRecord], answers: list[WordProbs], judge: Judge, *, stream: bool = False
) -> list[tuple[Observation, Assessment]]:
    return list(audit(records, FakeClassifier.create(answers), judge, stream=stream, on_reject=raise_error))


def test_two_passes_judge_by_the_means_of_the_whole_file() -> None:
    records, answers = make_records(40)
    results = run(records, answers, make_judge(held_out=HeldOutStats((9.0,) * 5, (10,) * 5)))
    assert [a.id for _, a in results] == [record.sentence.id for record in records if record.sentence]
    probs = np.concatenate([observation.probs for observation, _ in results])
    given = np.concatenate([observation.given for observation, _ in results])
    whole = compute_thresholds(*sum_by_class(probs, given))
    for _, assessment in results:
        assert assessment.thresholds["O"] == pytest.approx(whole[0], abs=1e-9)
        assert assessment.thresholds["B-PER"] == pytest.approx(whole[1], abs=1e-9)
        assert assessment.warming_up == ("I-PER", "B-LOC", "I-LOC")


def test_rare_classes_fall_back_to_the_models_own_words() -> None:
    records, answers = make_records(40)
    records.append(FileRecord("f:x", LabelledSentence(tokens=("Oslo",), labels=("B-LOC",))))
    answers.append(make_word_probs(["B-LOC"], 0.6))
    with_prior = run(
        records, answers, make_judge(held_out=HeldOutStats((9.0, 9.0, 9.0, 8.0, 0.0), (10, 10, 10, 10, 0)))
    )
    assert with_prior[0][1].thresholds["I-PER"] == pytest.approx(0.9)
    assert with_prior[0][1].thresholds["B-LOC"] == pytest.approx((200 * 0.8 + 0.6) / 201)
    assert with_prior[0][1].thresholds["I-LOC"] is None
    without = run(records, answers, make_judge())
    assert [without[0][1].thresholds[name] for name in ("I-PER", "B-LOC", "I-LOC")] == [None, None, None]


def test_a_stream_judges_before_it_learns() -> None:
    records, answers = make_records(40)
    judge = make_judge(held_out=HeldOutStats((9.0,) * 5, (10,) * 5))
    results = run(records, answers, judge, stream=True)
    one_pass = OnePass(judge)
    for (observation, assessment), words in zip(results, answers, strict=True):
        assert assessment == one_pass.add(observation.sentence, words)
    assert {assessment.memory for _, assessment in results} == {"partition"}
    assert results[0][1].thresholds == dict.fromkeys(CLASSES, 0.9)
    assert results[0][1].warming_up == CLASSES


@pytest.mark.parametrize("stream", [False, True])
def test_sentences_that_fail_are_rejected_and_the_others_keep_their_answers(stream: bool) -> None:
    unreadable = InvalidInput("no label")
    poison = InferenceError("the model fails")

    def sentence(name: str, label: str = "O") -> LabelledSentence:
        return LabelledSentence(tokens=(name,), labels=(label,), id=name)

    records = [
        FileRecord("f:1", sentence("one")),
        FileRecord("f:2", error=unreadable),
        FileRecord("f:3", sentence("three", "B-GOD")),
        FileRecord("f:4", sentence("four")),
        FileRecord("f:5", LabelledSentence(id="gone", deleted=True)),
        FileRecord("f:6", sentence("six")),
    ]
    answers: list[WordProbs | InferenceError] = [make_word_probs(["O"], 0.9), poison, make_word_probs(["O"], 0.8)]
    rejected: list[tuple[str, LabelwatchError]] = []
    progress: list[int] = []
    deleted: list[str] = []
    results = list(
        audit(
            records,
            FakeClassifier.create(answers),
            make_judge(),
            stream=stream,
            on_reject=lambda record, error: rejected.append((record.location, error)),
            on_progress=progress.append,
            on_deleted=lambda record: deleted.append(record.location),
        )
    )
    assert {a.id: round(a.score or 0, 9) for _, a in results} == {"one": 0.9, "six": 0.8}
    assert sorted(location for location, _ in rejected) == ["f:2", "f:3", "f:4"]
    assert {location: type(error) for location, error in rejected} == {
        "f:2": InvalidInput,
        "f:3": UnknownLabelError,
        "f:4": InferenceError,
    }
    assert progress == [1, 2]
    assert deleted == ["f:5"]
