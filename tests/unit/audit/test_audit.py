from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.audit.audit import AuditRecord, audit
from service.contracts import LabelledSentence
from service.errors import InferenceError, InvalidInput, LabelwatchError, UnknownLabelError
from service.scoring.confident import compute_thresholds, sum_by_class
from service.statistics.thresholds import HeldOutStats
from tests.unit.audit.fake_model import CLASSES, FakeClassifier, LocatedSentence, make_judge, make_word_probs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.contracts import Assessment
    from service.inference.classifier import WordProbs
    from service.judging.judge import Judge
    from service.judging.types import Observation

RNG = np.random.default_rng(3)


def made(n: int, labels: Iterable[str] = ("O", "B-PER")) -> tuple[list[LocatedSentence], list[WordProbs]]:
    names = list(labels)
    places, answers = [], []
    for number in range(n):
        given = [names[k] for k in RNG.integers(0, len(names), 3)]
        read = [names[k] if RNG.random() < 0.2 else label for k, label in zip(RNG.integers(0, len(names), 3), given, strict=True)]  # fmt: skip
        sentence = LabelledSentence(tokens=("a", "b", "c"), labels=tuple(given), id=str(number))
        places.append(LocatedSentence(f"f:{number}", sentence))
        answers.append(make_word_probs(read, float(RNG.uniform(0.5, 0.99))))
    return places, answers


def stop(record: AuditRecord, error: LabelwatchError) -> None:
    raise error


def run(
    places: list[LocatedSentence], answers: list[WordProbs], judge: Judge, *, stream: bool = False
) -> list[tuple[Observation, Assessment]]:
    return list(audit(places, FakeClassifier.create(answers), judge, stream=stream, on_reject=stop))


def test_two_passes_judge_by_the_means_of_the_whole_file() -> None:
    places, answers = made(40)
    found = run(places, answers, make_judge(held_out=HeldOutStats((9.0,) * 5, (10,) * 5)))
    assert [a.id for _, a in found] == [p.sentence.id for p in places if p.sentence]
    probs = np.concatenate([seen.probs for seen, _ in found])
    given = np.concatenate([seen.given for seen, _ in found])
    whole = compute_thresholds(*sum_by_class(probs, given))
    for _, assessment in found:
        assert assessment.thresholds["O"] == pytest.approx(whole[0], abs=1e-9)
        assert assessment.thresholds["B-PER"] == pytest.approx(whole[1], abs=1e-9)
        assert assessment.warming_up == ("I-PER", "B-LOC", "I-LOC")


def test_rare_classes_fall_back_to_the_models_own_words() -> None:
    places, answers = made(40)
    places.append(LocatedSentence("f:x", LabelledSentence(tokens=("Oslo",), labels=("B-LOC",))))
    answers.append(make_word_probs(["B-LOC"], 0.6))
    with_prior = run(places, answers, make_judge(held_out=HeldOutStats((9.0, 9.0, 9.0, 8.0, 0.0), (10, 10, 10, 10, 0))))
    assert with_prior[0][1].thresholds["I-PER"] == pytest.approx(0.9)
    assert with_prior[0][1].thresholds["B-LOC"] == pytest.approx((200 * 0.8 + 0.6) / 201)
    assert with_prior[0][1].thresholds["I-LOC"] is None
    without = run(places, answers, make_judge())
    assert [without[0][1].thresholds[name] for name in ("I-PER", "B-LOC", "I-LOC")] == [None, None, None]


def test_a_stream_judges_before_it_learns() -> None:
    places, answers = made(40)
    judge = make_judge(held_out=HeldOutStats((9.0,) * 5, (10,) * 5))
    found = run(places, answers, judge, stream=True)
    stats = judge.create_empty_stats()
    for seen, assessment in found:
        assert assessment == judge.assess(seen, stats)
        stats = judge.learn(seen, stats)
    assert found[0][1].thresholds == dict.fromkeys(CLASSES, 0.9)
    assert found[0][1].warming_up == CLASSES


@pytest.mark.parametrize("stream", [False, True])
def test_what_fails_is_told_and_the_rest_keeps_its_answers(stream: bool) -> None:
    unreadable = InvalidInput("no label")
    poison = InferenceError("the model fails")

    def sentence(name: str, label: str = "O") -> LabelledSentence:
        return LabelledSentence(tokens=(name,), labels=(label,), id=name)

    places = [
        LocatedSentence("f:1", sentence("one")),
        LocatedSentence("f:2", error=unreadable),
        LocatedSentence("f:3", sentence("three", "B-GOD")),
        LocatedSentence("f:4", sentence("four")),
        LocatedSentence("f:5", LabelledSentence(id="gone", deleted=True)),
        LocatedSentence("f:6", sentence("six")),
    ]
    answers: list[WordProbs | InferenceError] = [make_word_probs(["O"], 0.9), poison, make_word_probs(["O"], 0.8)]
    told: list[tuple[str, LabelwatchError]] = []
    seen: list[int] = []
    deleted: list[str] = []
    found = list(
        audit(
            places,
            FakeClassifier.create(answers),
            make_judge(),
            stream=stream,
            on_reject=lambda record, error: told.append((record.location, error)),
            on_progress=seen.append,
            on_deleted=lambda record: deleted.append(record.location),
        )
    )
    assert {a.id: round(a.score or 0, 9) for _, a in found} == {"one": 0.9, "six": 0.8}
    assert sorted(place for place, _ in told) == ["f:2", "f:3", "f:4"]
    assert {place: type(error) for place, error in told} == {
        "f:2": InvalidInput,
        "f:3": UnknownLabelError,
        "f:4": InferenceError,
    }
    assert seen == [1, 2]
    assert deleted == ["f:5"]
