"""Memory changes `priority` and nothing else; it is prepared as the settings say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.contracts import DatasetSettings, LabelledSentence
from service.errors import StateError
from service.inference.heads.results import WordProbs
from service.judging.class_source import ExternalClasses
from service.judging.judge import Judge
from service.judging.types import StatsUpdate
from service.statistics.memory.memory import Memory
from tests.support.one_pass import OnePass

if TYPE_CHECKING:
    from service.contracts import Assessment

CLASSES = ("O", "B-LOC", "I-LOC", "B-ORG", "I-ORG")
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def make_judge(**settings: object) -> Judge:
    return Judge(
        ExternalClasses.from_labels(CLASSES),
        DatasetSettings.model_validate({"name": "news", **settings}),
        min_words=1,
        prior_words=0,
    )


def make_sentence(tokens: str, labels: str, **fields: object) -> LabelledSentence:
    return LabelledSentence.model_validate(
        {"dataset": "news", "id": "1", "tokens": tokens.split(), "labels": labels.split(), **fields}
    )


def make_probs(*best: str, p: float = 0.9) -> WordProbs:
    rows = np.full((len(best), len(CLASSES)), (1 - p) / (len(CLASSES) - 1))
    rows[range(len(best)), [CLASSES.index(name) for name in best]] = p
    return WordProbs(rows, np.ones(len(best), np.bool_), 0, {})


def train(one_pass: OnePass, times: int = 5) -> OnePass:
    """Milan is an ORG for the model, in a pattern that annotators give ORG."""
    for _ in range(times):
        one_pass.add(make_sentence("Milan beat Inter", "B-ORG O B-ORG"), make_probs("B-ORG", "O", "B-ORG", p=0.99))
    return one_pass


def assess(one_pass: OnePass, label: str) -> Assessment:
    """Milan again, where the model is unsure."""
    return one_pass.add(make_sentence("Milan beat Roma", f"{label} O B-ORG"), make_probs(label, "O", "B-ORG", p=0.6))


def test_what_was_seen_before_lowers_the_priority_of_another_label() -> None:
    with_memory, without = train(OnePass(make_judge())), train(OnePass(make_judge(memory="off")))
    doubtful, plain = assess(with_memory, "B-LOC"), assess(without, "B-LOC")
    assert doubtful.priority is not None
    assert plain.priority is not None
    assert doubtful.priority < plain.priority
    assert (doubtful.memory, plain.memory) == ("partition", None)
    assert doubtful.worst is not None
    assert doubtful.worst.index == 0
    for field in ("flags", "score", "suspects", "thresholds", "reason"):
        assert getattr(doubtful, field) == getattr(plain, field), field
    assert [word.p_given for word in doubtful.words] == [word.p_given for word in plain.words]


def test_each_word_has_its_priority_and_the_lowest_is_that_of_the_sentence() -> None:
    assessment = assess(train(OnePass(make_judge())), "B-LOC")
    priorities = [word.priority for word in assessment.words if word.priority is not None]
    assert len(priorities) == 3
    assert assessment.priority == min(priorities)
    assert all(word.priority is None for word in assess(train(OnePass(make_judge(memory="off"))), "B-LOC").words)


def test_the_worst_word_is_explained() -> None:
    because = assess(train(OnePass(make_judge())), "B-LOC").because
    mentions, pattern = because
    assert (mentions.kind, mentions.words, mentions.sentences, mentions.speaks) == ("mentions", 5, 5, "against")
    assert next(iter(mentions.by_type)) == "ORG"
    assert mentions.by_type["ORG"] == pytest.approx(5 * 0.9925)
    assert (pattern.kind, pattern.words, pattern.by_type, pattern.speaks) == ("pattern", 5, {"ORG": 5}, "against")
    assert assess(train(OnePass(make_judge(memory="off"))), "B-LOC").because == ()


def test_types_are_explained_in_the_names_of_the_dataset() -> None:
    one_pass = OnePass(make_judge(label_map={"CLUB": "ORG"}))
    sentence = make_sentence("Milan beat Inter", "B-CLUB O B-CLUB")
    for _ in range(3):
        one_pass.add(sentence, make_probs("B-ORG", "O", "B-ORG"))
    assessment = one_pass.add(make_sentence("Milan beat Inter", "B-LOC O B-CLUB"), make_probs("B-ORG", "O", "B-ORG"))
    assert assessment.because[0].kind == "mentions"
    assert next(iter(assessment.because[0].by_type)) == "CLUB"


def test_class_means_behind_the_weights_are_of_smoothed_probabilities() -> None:
    one_pass = train(OnePass(make_judge()))
    assess(one_pass, "B-LOC")
    total = one_pass.stats.get_total()
    assert total.smoothed is not None
    assert total.smoothed.counts == total.counts
    assert total.smoothed.sums != total.sums
    judge = one_pass.judge
    weights = judge.build_threshold_set(one_pass.stats).weights
    without = make_judge(memory="off").build_threshold_set(one_pass.stats).weights
    assert (weights != without).any()


def test_learning_a_batch_at_once_is_the_same_to_the_bit() -> None:
    judge, one_pass = make_judge(), OnePass(make_judge())
    updates = []
    for label in ("B-LOC", "B-ORG", "B-LOC", "O"):
        sentence, words = make_sentence("Milan beat Roma", f"{label} O B-ORG"), make_probs("B-ORG", "O", "B-ORG")
        memory = judge.memory.prepare(None if one_pass.memory is None else one_pass.memory.fork(), sentence)
        assert memory is not None
        observation = judge.observe(sentence, words)
        evidence = judge.memory.gather(observation, [memory])
        assert evidence is not None
        assessment = one_pass.add(sentence, words)
        updates.append(StatsUpdate(observation, assessment.priority, None, smoothed=evidence.smoothed))
    assert judge.learn_all(updates, judge.create_empty_stats()) == one_pass.stats


def test_the_mode_decides_on_a_history() -> None:
    sentence = make_sentence("Milan", "B-ORG")
    assert make_judge(memory="off").memory.prepare(None, sentence) is None
    auto = make_judge().memory.prepare(None, sentence)
    assert auto is not None
    assert auto.history is not None
    documents = make_judge(memory="documents").memory.prepare(auto, sentence)
    assert documents is not None
    assert documents.history is None


def test_a_single_type_needs_no_memory() -> None:
    judge = Judge(ExternalClasses.from_labels(("B-LOC", "I-LOC")), DatasetSettings(), min_words=1, prior_words=0)
    assert judge.memory.prepare(None, make_sentence("Oslo", "B-LOC")) is None


def test_a_dataset_that_forgets_starts_anew_every_n_days() -> None:
    judge = make_judge(forget_after_days=10)
    memory = judge.memory.prepare(None, make_sentence("Milan", "B-ORG"), NOON)
    assert memory is not None
    ends_after = next(
        days
        for days in range(1, 12)
        if judge.memory.prepare(memory, make_sentence("Milan", "B-ORG"), NOON + timedelta(days=days)) is not memory
    )
    assert ends_after <= 10
    later = NOON + timedelta(days=ends_after)
    new = judge.memory.prepare(memory, make_sentence("Milan", "B-ORG"), later)
    assert new is not None
    assert new.period == memory.period + 10
    assert new.sentences == 0
    # A sentence that was annotated long ago does not bring the old period back.
    late = make_sentence("Milan", "B-ORG", annotated_at=(NOON - timedelta(days=90)).isoformat())
    assert judge.memory.prepare(new, late, later) is new
    assert make_judge().memory.prepare(memory, late, later + timedelta(days=900)) is memory


@pytest.mark.parametrize(("before", "after"), [(10, 30), (30, 10), (10, 11)])
def test_a_dataset_that_forgets_after_another_number_of_days_still_forgets(before: int, after: int) -> None:
    sentence = make_sentence("Milan", "B-ORG")
    memory = make_judge(forget_after_days=before).memory.prepare(None, sentence, NOON)
    assert memory is not None
    new = make_judge(forget_after_days=after).memory.prepare(memory, sentence, NOON + timedelta(days=before + after))
    assert new is not memory


def test_partitions_are_read_together_without_what_the_dataset_has_forgotten() -> None:
    first_day = NOON.toordinal() - NOON.toordinal() % 10
    new, idle = (Memory.create(3, has_history=True, period=period) for period in (first_day, first_day - 10))
    other_types = Memory.create(7, has_history=True, period=first_day)
    assert make_judge(forget_after_days=10).memory.select([idle, new, other_types]) == [new]
    assert make_judge(forget_after_days=11).memory.select([idle, new]) == [idle, new]
    assert make_judge().memory.select([idle, new]) == [idle, new]
    assert make_judge(memory="off").memory.select([new]) == []
    assert make_judge(forget_after_days=10).memory.select([]) == []


def test_a_history_of_an_earlier_mode_is_not_read() -> None:
    (selected,) = make_judge(memory="documents").memory.select([Memory.create(3, has_history=True)])
    assert selected.history is None
    (selected,) = make_judge().memory.select([Memory.create(3, has_history=False)])
    assert selected.history is not None


def test_a_memory_of_other_types_is_refused() -> None:
    with pytest.raises(StateError, match="has 7 types, its model has 3: run `labelwatch thresholds reset news`"):
        make_judge().memory.prepare(Memory.create(7, has_history=True), make_sentence("Milan", "B-ORG"))


def test_unscored_words_are_neither_judged_nor_learned() -> None:
    judge = make_judge(unmapped="unscored")
    one_pass = OnePass(judge)
    for _ in range(3):
        one_pass.add(make_sentence("Milan beat Inter", "B-ORG O B-TEAM"), make_probs("B-ORG", "O", "B-ORG"))
    assert one_pass.memory is not None
    assert one_pass.memory.forms.current.keys == ["Milan"]
    sentence = make_sentence("Milan", "B-TEAM")
    assert one_pass.add(sentence, make_probs("B-ORG")).memory is None
    assert one_pass.memory.sentences == 3


def test_types_that_the_dataset_does_not_use_are_dropped_after_smoothing() -> None:
    judge = make_judge()
    one_pass = OnePass(judge)
    for _ in range(130):
        one_pass.add(make_sentence("Oslo and Rome", "B-LOC O B-LOC"), make_probs("B-LOC", "O", "B-LOC", p=0.99))
    assert judge.build_threshold_set(one_pass.stats).unused_types == ("ORG",)
    assessment = one_pass.add(make_sentence("Oslo and Rome", "B-LOC O B-LOC"), make_probs("B-ORG", "O", "B-LOC"))
    assert assessment.unused_types == ("ORG",)
    assert assessment.words[0].priority is not None
    assert assessment.words[0].p_given == pytest.approx(1 / 3), "the probability of ORG has moved"
    assert assessment.words[0].priority > 1 / 3
