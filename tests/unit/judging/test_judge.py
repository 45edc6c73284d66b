from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.contracts import DatasetSettings, Flag, LabelledSentence
from service.errors import InvalidInput, UnknownLabelError
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.folder import HeldOutSums, ModelFolder
from service.judging.judge import Judge
from service.judging.types import Observation, StatsUpdate
from service.labels import is_valid_sequence
from service.scoring.confident import UNREACHABLE_THRESHOLD, compute_thresholds, flag_words, sum_by_class
from service.scoring.sentence import METHODS
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "in", "Oslo"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return ModelFolder.load(make_model(tmp_path_factory.mktemp("tiny"), "wordpiece"))


@pytest.fixture(scope="module")
def classifier(folder: ModelFolder) -> Classifier:
    return Classifier(folder)


def sentences(labels: tuple[str, ...], n: int = 60, seed: int = 0) -> list[LabelledSentence]:
    rng = np.random.default_rng(seed)
    made = []
    for number in range(n):
        size = int(rng.integers(1, 12))
        given = [labels[k] for k in rng.integers(0, len(labels), size)]
        made.append(
            LabelledSentence(id=str(number), tokens=tuple(rng.choice(WORDS, size).tolist()), labels=tuple(given))
        )
    return made


def observe_all(judge: Judge, classifier: Classifier, given: list[LabelledSentence]) -> list[Observation]:
    answers = classifier.infer([sentence.tokens for sentence in given])
    observation = []
    for sentence, words in zip(given, answers, strict=True):
        assert isinstance(words, WordProbs)
        observation.append(judge.observe(sentence, words))
    return observation


def test_judging_and_learning_one_by_one_ends_at_the_thresholds_of_one_pass(
    folder: ModelFolder, classifier: Classifier
) -> None:
    judge = Judge(folder, DatasetSettings(), min_words=0, use_held_out=False)
    observation = observe_all(judge, classifier, sentences(folder.labels))
    stats = judge.create_empty_stats()
    for each in observation:
        before = stats
        judge.assess(each, judge.build_threshold_set(stats))
        assert stats == before
        stats = judge.learn(each, stats)
    probs, given = np.concatenate([s.probs for s in observation]), np.concatenate([s.given for s in observation])
    np.testing.assert_allclose(
        judge.build_threshold_set(stats).by_index, compute_thresholds(*sum_by_class(probs, given)), atol=1e-11
    )


def test_an_assessment_can_be_judged_again_from_what_it_carries(folder: ModelFolder, classifier: Classifier) -> None:
    judge = Judge(folder, DatasetSettings(), min_words=1, use_held_out=False)
    stats, flagged = judge.create_empty_stats(), 0
    for observation in observe_all(judge, classifier, sentences(folder.labels)):
        assessment = judge.assess(observation, judge.build_threshold_set(stats))
        stats = judge.learn(observation, stats, priority=assessment.priority)
        carried = np.array(
            [
                UNREACHABLE_THRESHOLD if assessment.thresholds[c] is None else assessment.thresholds[c]
                for c in judge.classes
            ],
            float,
        )
        again = np.flatnonzero(flag_words(observation.probs, observation.given, carried))
        assert [flag.index for flag in assessment.flags] == again.tolist()
        assert assessment.reason == ("flagged" if assessment.flags else "scored")
        assert assessment.score == min(word.p_given for word in assessment.words if word.p_given is not None)
        assert assessment.priority is not None
        assert assessment.score is not None
        assert assessment.priority >= assessment.score
        flagged += bool(assessment.flags)
        for flag in assessment.flags:
            assert flag.token == observation.sentence.tokens[flag.index]
            assert flag.given == observation.sentence.labels[flag.index]
            assert flag.suggested != flag.given
            assert flag.p_suggested > flag.p_given
        if assessment.flags:
            marked = {flag.index for flag in assessment.flags}
            for suspect in assessment.suspects:
                spans = [span for span in (suspect.given_span, suspect.suggested_span) if span]
                assert any(marked & set(range(span.start, span.end)) for span in spans)
    assert flagged > 5


def test_words_without_a_subword_are_unscored(folder: ModelFolder, classifier: Classifier) -> None:
    judge = Judge(folder, DatasetSettings())
    words = ("Oslo", "\u200b", "dog")
    sentence = LabelledSentence(tokens=words, labels=("O", "O", "O"))
    [observation] = observe_all(judge, classifier, [sentence])
    assessment = judge.assess(observation, judge.build_threshold_set(judge.create_empty_stats()))
    assert [word.unscored is None for word in assessment.words] == [True, False, True]
    assert assessment.words[1].p_given is None
    assert judge.learn(observation, judge.create_empty_stats()).get_total().counts[0] == 2


def test_a_sentence_of_nothing_but_such_words_has_no_score_and_teaches_nothing(
    folder: ModelFolder, classifier: Classifier
) -> None:
    judge = Judge(folder, DatasetSettings())
    [observation] = observe_all(judge, classifier, [LabelledSentence(tokens=("\u200b",), labels=("O",))])
    assessment = judge.assess(observation, judge.build_threshold_set(judge.create_empty_stats()))
    assert assessment.score is None
    assert assessment.priority is None
    assert not assessment.flags
    assert judge.learn(observation, judge.create_empty_stats()) == judge.create_empty_stats()


def test_a_label_without_a_class_is_refused_or_left_out_as_the_dataset_says(
    folder: ModelFolder, classifier: Classifier
) -> None:
    sentence = LabelledSentence(tokens=("fox", "dog"), labels=("B-ANIMAL", "O"))
    with pytest.raises(UnknownLabelError, match="ANIMAL"):
        observe_all(Judge(folder, DatasetSettings()), classifier, [sentence])
    judge = Judge(folder, DatasetSettings(unmapped="unscored"))
    [observation] = observe_all(judge, classifier, [sentence])
    assessment = judge.assess(observation, judge.build_threshold_set(judge.create_empty_stats()))
    assert assessment.words[0].unscored == "its label has no class in the model"
    assert assessment.words[1].p_given is not None


def test_a_class_outside_the_label_set_is_never_suggested(folder: ModelFolder, classifier: Classifier) -> None:
    judge = Judge(folder, DatasetSettings(label_set=("PER",)), min_words=0, use_held_out=False)
    assert judge.classes == ("O", "B-PER", "I-PER")
    stats = judge.create_empty_stats()
    columns = [folder.labels.index(name) for name in judge.classes]
    given = sentences(judge.classes)
    answers = classifier.infer([sentence.tokens for sentence in given])
    flags: list[Flag] = []
    for observation, words in zip(observe_all(judge, classifier, given), answers, strict=True):
        assert isinstance(words, WordProbs)
        allowed = words.probs[:, columns]
        np.testing.assert_allclose(observation.probs, allowed / allowed.sum(axis=1, keepdims=True))
        assessment = judge.assess(observation, judge.build_threshold_set(stats))
        stats = judge.learn(observation, stats)
        flags += assessment.flags
        assert assessment.worst is None or assessment.worst.suggested in judge.classes
        assert {span.suggested_span.type for span in assessment.suspects if span.suggested_span} <= {"PER"}
    assert flags
    assert {flag.suggested for flag in flags} <= set(judge.classes)


def test_a_label_set_of_every_type_judges_as_none(folder: ModelFolder, classifier: Classifier) -> None:
    types = tuple(dict.fromkeys(name[2:] for name in folder.labels if name != "O"))
    plain, explicit = (Judge(folder, DatasetSettings(label_set=label_set)) for label_set in (None, types))
    assert plain.stats_key == explicit.stats_key
    given = sentences(plain.classes, n=10)
    for a, b in zip(observe_all(plain, classifier, given), observe_all(explicit, classifier, given), strict=True):
        np.testing.assert_array_equal(a.probs, b.probs)


def test_the_prior_of_a_label_set_is_that_of_its_classes(folder: ModelFolder) -> None:
    counts = (1000,) * len(folder.labels)
    sums = HeldOutSums(sums=tuple(100.0 * (k + 1) for k in range(len(folder.labels))), counts=counts)
    types = list(dict.fromkeys(name[2:] or name for name in folder.labels))
    by_type = HeldOutSums(sums=tuple(50.0 * (k + 1) for k in range(len(types))), counts=counts[: len(types)])
    warm = replace(folder, held_out=sums, held_out_types=by_type)
    judge = Judge(warm, DatasetSettings(label_set=("PER",)))
    expected = [(folder.labels.index(name) + 1) / 10 for name in judge.classes]
    np.testing.assert_allclose(judge.build_threshold_set(judge.create_empty_stats()).by_index, expected)
    judge = Judge(warm, DatasetSettings(label_set=("PER",), scheme="io"))
    expected = [(types.index(name) + 1) / 20 for name in judge.classes]
    np.testing.assert_allclose(judge.build_threshold_set(judge.create_empty_stats()).by_index, expected)


def test_labels_without_prefixes_are_judged_as_types(folder: ModelFolder, classifier: Classifier) -> None:
    judge = Judge(folder, DatasetSettings(scheme="io"))
    assert all("-" not in name for name in judge.classes)
    kinds = tuple(judge.classes)
    stats = judge.create_empty_stats()
    for observation in observe_all(judge, classifier, sentences(kinds)):
        np.testing.assert_allclose(observation.probs.sum(axis=1), 1)
        stats = judge.learn(
            observation, stats, priority=judge.assess(observation, judge.build_threshold_set(stats)).priority
        )
    assert sum(stats.get_total().counts) > 0


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_is_at_hand_by_name(folder: ModelFolder, classifier: Classifier, method: str) -> None:
    judge = Judge(folder, DatasetSettings(method=method))
    assessment = [
        judge.assess(s, judge.build_threshold_set(judge.create_empty_stats()))
        for s in observe_all(judge, classifier, sentences(folder.labels, 5))
    ]
    assert all(each.score is not None and each.method == method for each in assessment)


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"method": "worst"}, "unknown method"), ({"token_score": "confidence"}, "unknown token score")],
)
def test_unknown_names_are_refused_with_the_known_ones(
    folder: ModelFolder, settings: dict[str, str], says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        Judge(folder, DatasetSettings.model_validate(settings))


@pytest.mark.parametrize("days", [None, 2])
def test_learning_many_at_once_is_learning_one_after_the_other(
    folder: ModelFolder, classifier: Classifier, days: int | None
) -> None:
    judge = Judge(folder, DatasetSettings(forget_after_days=days))
    start = datetime(2026, 3, 1, tzinfo=UTC)
    updates = [
        StatsUpdate(
            observation,
            judge.assess(observation, judge.build_threshold_set(judge.create_empty_stats())).priority,
            start + timedelta(hours=7 * number % 150),
        )
        for number, observation in enumerate(observe_all(judge, classifier, sentences(folder.labels)))
    ]
    stats = judge.create_empty_stats()
    for update in updates:
        stats = judge.learn(update.observation, stats, priority=update.priority, arrived_at=update.arrived_at)
    assert judge.learn_all(updates, judge.create_empty_stats()) == stats
    halves = judge.learn_all(updates[20:], judge.learn_all(updates[:20], judge.create_empty_stats()))
    assert halves == stats


def test_the_worst_word_is_named_whether_it_is_flagged_or_not(folder: ModelFolder, classifier: Classifier) -> None:
    judge = Judge(folder, DatasetSettings())
    for observation in observe_all(judge, classifier, sentences(folder.labels)):
        assessment = judge.assess(observation, judge.build_threshold_set(judge.create_empty_stats()))
        assert assessment.worst is not None
        assert assessment.worst.suggested != assessment.worst.given
        numbers = [word.p_given for word in assessment.words]
        assert assessment.worst.p_given == numbers[assessment.worst.index]
        assert all(flag == assessment.worst for flag in assessment.flags if flag.index == assessment.worst.index)
        weighted = [
            1 - (1 - (word.p_given or 0)) * assessment.weights[label]
            for word, label in zip(assessment.words, assessment.labels, strict=True)
        ]
        assert min(weighted) == pytest.approx(assessment.priority, abs=1e-12)


def test_policies_decide_what_goes_to_review(folder: ModelFolder, classifier: Classifier) -> None:
    given = sentences(folder.labels, 200)
    below = Judge(folder, DatasetSettings.model_validate({"flag_policy": {"kind": "below", "cut": 0.05}}))
    observation = observe_all(below, classifier, given)
    for each in observation:
        assessment = below.assess(each, below.build_threshold_set(below.create_empty_stats()))
        assert assessment.score is not None
        assert (assessment.reason == "flagged") == (assessment.score < 0.05)
    budget = Judge(folder, DatasetSettings.model_validate({"flag_policy": {"kind": "budget", "share": 0.1}}))
    stats, sent = budget.create_empty_stats(), 0
    for each in observation:
        assessment = budget.assess(each, budget.build_threshold_set(stats))
        stats = budget.learn(each, stats, priority=assessment.priority)
        sent += assessment.reason == "flagged"
    assert 0 < sent <= 0.2 * len(observation)


def test_a_new_epoch_model_or_class_list_starts_its_own_statistics(folder: ModelFolder, tmp_path: Path) -> None:
    other = ModelFolder.load(make_model(tmp_path / "other", "wordpiece", seed=1))
    keys = {
        Judge(folder, DatasetSettings()).stats_key,
        Judge(folder, DatasetSettings(epoch=1)).stats_key,
        Judge(folder, DatasetSettings(scheme="io")).stats_key,
        Judge(folder, DatasetSettings(pooling="first")).stats_key,
        Judge(other, DatasetSettings()).stats_key,
        Judge(folder, DatasetSettings(label_set=("PER",))).stats_key,
        Judge(folder, DatasetSettings(label_set=("LOC", "PER"))).stats_key,
    }
    assert len(keys) == 7


def test_thresholds_start_from_the_models_own_sums_merged_or_not(folder: ModelFolder) -> None:
    types = 1 + len({name[2:] for name in folder.labels if name != "O"})
    sums = HeldOutSums(sums=(0.5,) * len(folder.labels), counts=(1,) * len(folder.labels))
    merged = HeldOutSums(sums=(0.25,) * types, counts=(1,) * types)
    warm = replace(folder, held_out=sums, held_out_types=merged)
    for settings, value in ((DatasetSettings(), 0.5), (DatasetSettings(scheme="io"), 0.25)):
        judge = Judge(warm, settings)
        np.testing.assert_allclose(judge.build_threshold_set(judge.create_empty_stats()).by_index, value)
        assert judge.build_threshold_set(judge.create_empty_stats()).warming_up == judge.classes
        cold = Judge(warm, settings, use_held_out=False)
        np.testing.assert_array_equal(
            cold.build_threshold_set(cold.create_empty_stats()).by_index, UNREACHABLE_THRESHOLD
        )


def test_a_word_without_a_class_parts_spans_and_one_without_a_subword_does_not(folder: ModelFolder) -> None:
    judge = Judge(folder, DatasetSettings(unmapped="unscored"))
    size, person = len(judge.classes), [judge.classes.index(name) for name in ("B-PER", "I-PER")]
    other = np.full((3, size), 0.01 / size)
    other[:, judge.classes.index("O")] += 0.99
    probs = other / other.sum(axis=1, keepdims=True)
    whole = np.array([True, True, True])

    def given_spans(
        labels: tuple[str, ...], scored: np.ndarray[tuple[int], np.dtype[np.bool_]]
    ) -> list[tuple[int, int]]:
        words = WordProbs(probs, scored, 1, dict.fromkeys(np.flatnonzero(~scored).tolist(), "no subword"))
        observation = judge.observe(LabelledSentence(tokens=("a", "b", "c"), labels=labels), words)
        flags = np.ones(len(observation.given), np.bool_)
        return sorted(
            (s.given_span.start, s.given_span.end)
            for s in judge._assessment_builder._build_suspects(observation, flags)
            if s.given_span
        )

    assert person
    assert given_spans(("B-PER", "B-DATE", "I-PER"), whole) == [(0, 1), (2, 3)]
    assert given_spans(("B-PER", "I-PER", "I-PER"), np.array([True, False, True])) == [(0, 3)]


def correct_labels(
    folder: ModelFolder, read: str, given: str, **settings: object
) -> tuple[list[str], list[tuple[str, str]], Judge]:
    """The labels with what is suggested in place of the doubtful ones, and the types of the suspects' spans.

    The model reads `read` and is quite sure of it.
    """
    judge = Judge(folder, DatasetSettings.model_validate(settings), min_words=0, use_held_out=False)
    labels = tuple(given.split())
    probs = np.full((len(labels), len(folder.labels)), 0.001)
    for row, name in enumerate(read.split()):
        probs[row, folder.labels.index(name)] = 1 - 0.001 * (len(folder.labels) - 1)
    words = WordProbs(probs, np.ones(len(labels), np.bool_), 1, {})
    observation = judge.observe(LabelledSentence(tokens=tuple("abcdefgh"[: len(labels)]), labels=labels), words)
    thresholds = replace(
        judge.build_threshold_set(judge.create_empty_stats()), by_index=np.full(len(judge.classes), 0.5)
    )
    thresholds = replace(thresholds, by_class={name: k / 100 for k, name in enumerate(judge.classes)})
    assessment = judge.assess(observation, thresholds)
    corrected = list(labels)
    for flag in assessment.flags:
        corrected[flag.index] = flag.suggested
        assert flag.given == labels[flag.index]
        best = int(observation.probs[flag.index].argmax())
        assert flag.threshold == thresholds.by_class[judge.classes[best]]
    if assessment.flags:
        assert assessment.worst in assessment.flags
    types = [
        (s.given_span.type if s.given_span else "", s.suggested_span.type if s.suggested_span else "")
        for s in assessment.suspects
    ]
    return corrected, types, judge


NAMES = {"PERSON": "PER", "PLACE": "LOC"}


@pytest.mark.parametrize(
    ("scheme", "label_map", "read", "given", "wanted", "types"),
    [
        (None, {}, "B-LOC O B-PER I-PER", "B-PER O B-PER I-PER", "B-LOC O B-PER I-PER", [("PER", "LOC")]),
        (None, NAMES, "B-LOC O B-PER I-PER", "B-PERSON O O I-ORG", "B-PLACE O B-PERSON I-PERSON",
         [("PERSON", "PLACE"), ("ORG", "PERSON")]),
        (None, NAMES, "B-ORG O", "B-PERSON O", "B-ORG O", [("PERSON", "ORG")]),
        ("biluo", {}, "B-LOC O B-PER I-PER I-PER", "U-PER O O O O", "U-LOC O B-PER I-PER L-PER",
         [("PER", "LOC"), ("", "PER")]),
        ("biluo", NAMES, "B-LOC I-LOC O", "B-PERSON L-PERSON U-PLACE", "B-PLACE L-PLACE O",
         [("PERSON", "PLACE"), ("PLACE", "")]),
        ("biluo", {}, "B-LOC O B-PER I-PER", "S-PER O O O", "S-LOC O B-PER E-PER", [("PER", "LOC"), ("", "PER")]),
        ("iob1", {}, "B-LOC O B-PER B-PER", "I-PER O I-PER O", "I-LOC O I-PER B-PER", [("PER", "LOC"), ("", "PER")]),
        ("iob1", NAMES, "B-LOC I-LOC", "I-PERSON O", "I-PLACE I-PLACE", [("PERSON", "PLACE")]),
        ("io", {}, "B-LOC I-LOC O", "PER O PER", "LOC LOC O", [("PER", "LOC"), ("PER", "")]),
        ("io", NAMES, "B-LOC I-LOC O", "PERSON O PERSON", "PLACE PLACE O", [("PERSON", "PLACE"), ("PERSON", "")]),
        ("io", {}, "B-LOC I-LOC O", "I-PER O I-PER", "I-LOC I-LOC O", [("PER", "LOC"), ("PER", "")]),
    ],
)  # fmt: skip
def test_suggestions_are_in_the_datasets_own_names_and_scheme(
    folder: ModelFolder,
    *,
    scheme: str | None,
    label_map: dict[str, str],
    read: str,
    given: str,
    wanted: str,
    types: list[tuple[str, str]],
) -> None:
    corrected, found, judge = correct_labels(folder, read, given, scheme=scheme, label_map=label_map)
    assert corrected == wanted.split()
    assert found == types
    judge.label_map.map(corrected)  # the dataset may have them
    assert is_valid_sequence(corrected, judge.scheme) or "S-" in wanted
    assert not judge.label_writer.is_identity or not label_map


def test_of_several_names_for_one_type_the_one_given_nearest_by_is_suggested(folder: ModelFolder) -> None:
    names = {"CITY": "LOC", "STATE": "LOC", "COUNTRY": "LOC"}
    for scheme in (None, "biluo"):
        one = "B" if scheme is None else "U"
        last = "I" if scheme is None else "L"
        assert correct_labels(folder, "B-LOC O", f"{one}-PER O", scheme=scheme, label_map=names)[0] == [
            f"{one}-CITY",
            "O",
        ]
        near = correct_labels(folder, "B-LOC O B-LOC", f"{one}-PER O {one}-STATE", scheme=scheme, label_map=names)
        assert near[0] == [f"{one}-STATE", "O", f"{one}-STATE"]
        corrected, types, _ = correct_labels(folder, "B-LOC I-LOC", f"{one}-COUNTRY O", scheme=scheme, label_map=names)
        assert corrected[1] == f"{last}-COUNTRY"
        assert types == [("COUNTRY", "COUNTRY")]


def test_names_that_change_places_are_renamed_once(folder: ModelFolder) -> None:
    swapped = {"PER": "LOC", "LOC": "PER"}
    corrected, types, _ = correct_labels(folder, "B-LOC O B-PER", "B-LOC O B-LOC", label_map=swapped)
    assert corrected == ["B-PER", "O", "B-LOC"]
    assert types == [("LOC", "PER")]


def test_a_model_with_the_datasets_own_labels_keeps_the_short_way(folder: ModelFolder) -> None:
    judge = Judge(folder, DatasetSettings())
    assert judge.label_writer.is_identity
    assert judge.label_writer.label_by_class == judge.classes
    assert judge.label_writer.is_direct(("B-PER", "O"))


def test_a_word_that_the_valid_path_reads_otherwise_still_gets_a_label_of_the_scheme(folder: ModelFolder) -> None:
    """An I- that continues nothing is likeliest, but the path doesn't have it."""
    judge = Judge(folder, DatasetSettings(scheme="biluo"), min_words=0, use_held_out=False)
    probs = np.full((2, len(folder.labels)), 0.01)
    probs[0, folder.labels.index("O")] = 0.9
    probs[1, [folder.labels.index("I-LOC"), folder.labels.index("B-ORG")]] = (0.48, 0.45)
    probs /= probs.sum(axis=1, keepdims=True)
    words = WordProbs(probs, np.ones(2, np.bool_), 1, {})
    observation = judge.observe(LabelledSentence(tokens=("a", "b"), labels=("O", "O")), words)
    assessment = judge.assess(
        observation,
        replace(judge.build_threshold_set(judge.create_empty_stats()), by_index=np.full(len(judge.classes), 0.4)),
    )
    assert [flag.suggested for flag in assessment.flags] == ["U-LOC"]


def test_a_prediction_is_a_valid_sequence_in_the_names_of_the_dataset(
    folder: ModelFolder, classifier: Classifier
) -> None:
    settings = DatasetSettings(label_map={"PERSON": "PER", "PLACE": "LOC"}, label_set=("PERSON", "PLACE"))
    judge = Judge(folder, settings, min_words=1, prior_words=0)
    thresholds = judge.build_threshold_set(judge.create_empty_stats())
    unlabelled = [
        sentence.model_copy(update={"labels": ("O",) * len(sentence.tokens)}) for sentence in sentences(("O",))
    ]
    found = set()
    for observation in observe_all(judge, classifier, unlabelled):
        prediction = judge.predict(observation, thresholds)
        end = 0
        for span, confidence in prediction.entities:
            assert end <= span.start < span.end <= len(observation.sentence.tokens)
            assert prediction.confidence <= confidence <= 1
            end = span.end
            found.add(span.type)
        assert len(prediction.entities) > 0 or prediction.confidence == observation.probs[:, 0].min()
    assert found == {"PERSON", "PLACE"}
