"""Types of the model that a dataset does not use: found from the statistics, not suggested, back with their first label."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.contracts import DatasetSettings, LabelledSentence, WordProbabilities
from service.judging.class_source import ExternalClasses, to_word_probs
from service.judging.judge import Judge
from service.judging.unused_types import MIN_ENTITY_WORDS_PER_TYPE, find_unused_types, group_by_type
from service.labels import Scheme
from service.scoring.flat import drop_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.judging.types import Observation
    from service.statistics.running import RunningStats

CLASSES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
ENOUGH_WORDS = 2 * MIN_ENTITY_WORDS_PER_TYPE


def build_judge(settings: DatasetSettings | None = None, *, is_trained: bool = False) -> Judge:
    source = replace(ExternalClasses.from_labels(CLASSES), is_trained=is_trained)
    return Judge(source, settings or DatasetSettings(), min_words=1)


def observe(judge: Judge, labels: Sequence[str], rows: Sequence[Sequence[float]]) -> Observation:
    words = tuple(f"w{index}" for index in range(len(labels)))
    probabilities = WordProbabilities(classes=CLASSES, words=tuple(tuple(row) for row in rows))
    return judge.observe(LabelledSentence(id="1", tokens=words, labels=tuple(labels)), to_word_probs(probabilities))


def learn_words(judge: Judge, label: str, count: int, stats: RunningStats | None = None) -> RunningStats:
    row = [0.1 / (len(CLASSES) - 1)] * len(CLASSES)
    row[CLASSES.index(label)] = 0.9
    observation = observe(judge, [label] * count, [row] * count)
    return judge.learn(observation, judge.create_empty_stats() if stats is None else stats)


def learn_dataset_without_loc(judge: Judge) -> RunningStats:
    return learn_words(judge, "B-PER", ENOUGH_WORDS, learn_words(judge, "O", 50))


# "O" with probability .3 and LOC with .6: an error only if the dataset has locations.
LOOKS_LIKE_LOC = [0.3, 0.06, 0.04, 0.5, 0.1]


def test_a_type_without_words_is_unused_once_the_others_have_enough() -> None:
    by_type = group_by_type(CLASSES, Scheme.IOB2)
    assert by_type == {"PER": (1, 2), "LOC": (3, 4)}
    assert find_unused_types([9, ENOUGH_WORDS - 1, 1, 0, 0], by_type) == ("LOC",)
    assert find_unused_types([9_000, ENOUGH_WORDS - 1, 0, 0, 0], by_type) == ()
    assert find_unused_types([9, ENOUGH_WORDS, 0, 0, 1], by_type) == ()
    assert find_unused_types([9, ENOUGH_WORDS, 0, 0, 0], {}) == ()
    assert group_by_type(("O", "PER", "LOC"), Scheme.IO) == {"PER": (1,), "LOC": (2,)}


def test_the_probability_of_dropped_classes_goes_to_the_others_in_proportion() -> None:
    probs = np.array([LOOKS_LIKE_LOC, [0, 0, 0, 1, 0]])
    dropped = drop_columns(probs, (3, 4))
    np.testing.assert_allclose(dropped, [[0.75, 0.15, 0.1, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0, 0]])
    np.testing.assert_array_equal(probs[0], LOOKS_LIKE_LOC)


def test_an_unused_type_is_neither_suggested_nor_a_reason_for_doubt() -> None:
    judge = build_judge()
    few = learn_words(judge, "B-PER", 10, learn_words(judge, "B-LOC", 10, learn_words(judge, "O", 50)))
    few_and_used = judge.assess(observe(judge, ["O"], [LOOKS_LIKE_LOC]), judge.build_threshold_set(few))
    assert few_and_used.worst is not None
    assert (few_and_used.worst.suggested, few_and_used.unused_types) == ("B-LOC", ())
    thresholds = judge.build_threshold_set(learn_dataset_without_loc(judge))
    assert thresholds.unused_types == ("LOC",)
    observation = observe(judge, ["O"], [LOOKS_LIKE_LOC])
    assessment = judge.assess(observation, thresholds)
    assert assessment.unused_types == ("LOC",)
    assert not assessment.flags
    assert assessment.words[0].p_given == pytest.approx(0.75)
    assert assessment.worst is not None
    assert assessment.worst.suggested == "B-PER"
    # In one step or in two, and from an observation that has dropped them already, the answer is the same to the bit.
    scores = judge.score_words(observation, thresholds)
    assert judge.build_assessment(observation, scores, thresholds) == assessment
    assert judge.assess(judge.drop_unused_types(observation, thresholds), thresholds) == assessment


def test_a_class_of_an_unused_type_is_not_suggested_among_equals() -> None:
    judge = build_judge()
    thresholds = judge.build_threshold_set(learn_dataset_without_loc(judge))
    for given, row in (("I-PER", [0, 0, 0.5, 0.5, 0]), ("O", [0.5, 0, 0, 0.5, 0])):
        assessment = judge.assess(observe(judge, [given], [row]), thresholds)
        assert assessment.worst is not None
        assert assessment.worst.suggested in {"O", "B-PER"}


def test_the_first_label_of_a_type_brings_it_back() -> None:
    judge = build_judge()
    stats = learn_dataset_without_loc(judge)
    observation = observe(judge, ["O", "B-LOC"], [LOOKS_LIKE_LOC, LOOKS_LIKE_LOC])
    assessment = judge.assess(observation, judge.build_threshold_set(stats))
    assert assessment.unused_types == ()  # its own labels count too
    assert [word.p_given for word in assessment.words] == pytest.approx([0.3, 0.5])
    stats = judge.learn(observation, stats)
    assert judge.build_threshold_set(stats).unused_types == ()


def test_statistics_are_learned_from_the_probabilities_of_the_model() -> None:
    """Sums must not depend on when a type was found to be unused, or the order of sentences would matter."""
    judge = build_judge()
    stats = learn_dataset_without_loc(judge)
    observation = observe(judge, ["O"], [LOOKS_LIKE_LOC])
    before = observation.probs.copy()
    judge.assess(observation, judge.build_threshold_set(stats))
    np.testing.assert_array_equal(observation.probs, before)


@pytest.mark.parametrize(
    "judge",
    [
        build_judge(DatasetSettings(learn_label_set="off")),
        build_judge(DatasetSettings(label_set=("PER", "LOC"))),
        build_judge(is_trained=True),
    ],
    ids=["off", "given", "trained"],
)
def test_types_that_are_known_to_be_used_are_suggested_from_the_start(judge: Judge) -> None:
    stats = learn_dataset_without_loc(judge)
    assessment = judge.assess(observe(judge, ["O"], [LOOKS_LIKE_LOC]), judge.build_threshold_set(stats))
    assert assessment.unused_types == ()
    assert assessment.worst is not None
    assert assessment.worst.suggested == "B-LOC"


def test_the_statistics_key_does_not_change_with_the_learned_label_set() -> None:
    keys = {build_judge(DatasetSettings(learn_label_set=value)).stats_key for value in ("auto", "off")}
    assert len(keys) == 1


def test_unused_types_have_the_names_of_the_model_and_suggestible_ones_those_of_the_dataset() -> None:
    judge = build_judge(DatasetSettings(label_map={"PERSON": "PER", "CITY": "LOC", "RIVER": "LOC"}))
    stats = learn_words(build_judge(), "B-PER", ENOUGH_WORDS)
    unused = judge.build_threshold_set(stats).unused_types
    assert unused == ("LOC",)
    assert judge.label_writer.types == ("PERSON", "CITY", "RIVER")
    assert judge.label_writer.list_types(unused) == ("PERSON",)
