"""Probabilities that are sent with a sentence are judged as the model's own are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.contracts import DatasetSettings, LabelledSentence
from service.errors import InvalidInput
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder
from service.judging.class_source import ExternalClasses, get_external_classes, is_external_key, to_word_probs
from service.judging.judge import Judge
from service.labels import Scheme, convert_scheme
from tests.support.external_probabilities import attach_probabilities

if TYPE_CHECKING:
    from service.contracts import Assessment

TEXTS = (
    ("Anna Berg flew from Oslo to Paris .", "B-PER I-PER O O B-ORG O B-LOC O"),
    ("Siemens opened an office in Berlin .", "B-ORG O O O O B-LOC O"),
    ("The European Union met in Brussels .", "O B-ORG I-ORG O O B-PER O"),
    ("John Smith works for Reuters .", "B-PER I-PER O O B-LOC O"),
    ("Chelsea beat Arsenal in London .", "B-ORG O B-ORG O O O"),
)
SENTENCES = tuple(
    LabelledSentence(id=str(number), tokens=tuple(text.split()), labels=tuple(labels.split()))
    for number, (text, labels) in enumerate(TEXTS)
)


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier(ModelFolder.load(find_default_model()))


def assess_all(judge: Judge, words: list[WordProbs], sentences: list[LabelledSentence]) -> list[Assessment]:
    """As the stream does it: judge, then learn."""
    stats, assessments = judge.create_empty_stats(), []
    for sentence, probs in zip(sentences, words, strict=True):
        observation = judge.observe(sentence, probs)
        assessments.append(judge.assess(observation, judge.build_threshold_set(stats)))
        stats = judge.learn(observation, stats, priority=assessments[-1].priority)
    return assessments


@pytest.mark.parametrize("scheme", [None, "io", "biluo"])
def test_the_models_own_probabilities_give_the_same_flags_when_they_are_sent(
    classifier: Classifier, scheme: str | None
) -> None:
    own = [words for words in classifier.infer([s.tokens for s in SENTENCES]) if isinstance(words, WordProbs)]
    settings = DatasetSettings.model_validate({"scheme": scheme})
    external_classes = ExternalClasses.from_labels(classifier.folder.labels, dataset_scheme=scheme)
    model_judge = Judge(classifier.folder, settings, min_words=1, use_held_out=False)
    external_judge = Judge(external_classes, settings, min_words=1, use_held_out=False)
    target = Scheme(scheme or "iob2")
    sentences = [
        s.model_copy(update={"labels": tuple(convert_scheme(s.labels, Scheme.IOB2, target))}) for s in SENTENCES
    ]
    sent = [attach_probabilities(s, w, classifier.folder.labels) for s, w in zip(sentences, own, strict=True)]
    received = [to_word_probs(s.probabilities) for s in sent if s.probabilities is not None]
    for computed, parsed in zip(own, received, strict=True):
        np.testing.assert_allclose(parsed.probs, computed.probs, rtol=1e-14)
    expected = assess_all(model_judge, own, sentences)
    assert any(assessment.flags for assessment in expected)
    for ours, theirs in zip(expected, assess_all(external_judge, received, sent), strict=True):
        assert [(f.index, f.suggested) for f in theirs.flags] == [(f.index, f.suggested) for f in ours.flags]
        assert [(s.kind, s.suggested_span) for s in theirs.suspects] == [
            (s.kind, s.suggested_span) for s in ours.suspects
        ]
        assert theirs.priority == pytest.approx(ours.priority, rel=1e-12)
        assert theirs.model.name == "external"
        assert theirs.model.fingerprint == external_classes.fingerprint
        assert "probabilities" not in theirs.model_dump()


def test_statistics_of_class_lists_models_and_epochs_have_different_keys(classifier: Classifier) -> None:
    labels = classifier.folder.labels
    judges = [
        Judge(classifier.folder, DatasetSettings()),
        Judge(ExternalClasses.from_labels(labels), DatasetSettings()),
        Judge(ExternalClasses.from_labels(labels), DatasetSettings(epoch=1)),
        Judge(ExternalClasses.from_labels(labels), DatasetSettings(scheme="io")),
        Judge(ExternalClasses.from_labels(labels, dataset_scheme="iob1"), DatasetSettings(scheme="iob1")),
        Judge(ExternalClasses.from_labels(labels[::-1]), DatasetSettings()),
        Judge(ExternalClasses.from_labels((*labels, "B-DRUG")), DatasetSettings()),
    ]
    assert len({judge.stats_key for judge in judges}) == len(judges)
    assert [is_external_key(judge.stats_key) for judge in judges] == [False] + [True] * (len(judges) - 1)
    # Pooling joins subwords, and there are none.
    first = Judge(ExternalClasses.from_labels(labels), DatasetSettings(pooling="first"))
    assert first.stats_key == judges[1].stats_key


@pytest.mark.parametrize(
    ("labels", "dataset_scheme", "scheme"),
    [
        (("O", "B-DRUG", "I-DRUG"), None, Scheme.IOB2),
        (("O", "B-DRUG", "I-DRUG"), "iob1", Scheme.IOB1),
        (("O", "I-DRUG", "B-DRUG", "I-DOSE"), None, Scheme.IOB1),
        (("O", "B-DRUG", "I-DRUG", "L-DRUG", "U-DRUG"), "iob2", Scheme.BILUO),
        (("O", "DRUG"), "iob2", Scheme.IO),
        (("DRUG", "DOSE"), None, Scheme.IO),
    ],
)
def test_the_scheme_of_a_class_list(labels: tuple[str, ...], dataset_scheme: str | None, scheme: Scheme) -> None:
    assert ExternalClasses.from_labels(labels, dataset_scheme=dataset_scheme).scheme is scheme


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (("O", "B-DRUG", "DRUG"), "'B-DRUG' has a prefix and 'DRUG' has none"),
        (("O", "B-DRUG", "I-DRUG", "DRUG", "DOSE"), "'B-DRUG', 'I-DRUG' have a prefix and 'DRUG', 'DOSE' have none"),
        (("o", "B-DRUG", "I-DRUG"), "'o' is not a label"),
        (("O", "B-DRUG", "L-DRUG", "E-DRUG"), "'L-DRUG' and 'E-DRUG' are the same class: name each class once"),
    ],
)
def test_classes_that_are_no_labels_of_one_scheme_are_refused(labels: tuple[str, ...], says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as raised:
        ExternalClasses.from_labels(labels)
    assert raised.value.field == "probabilities.classes"
    assert raised.value.stage == "validate"


def test_rows_are_divided_by_their_sum_in_double_precision() -> None:
    sentence = LabelledSentence.model_validate(
        {
            "tokens": ["a"],
            "labels": ["O"],
            "probabilities": {"classes": ["O", "X", "Y"], "words": [[0.3335, 0.3335, 0.3335]]},
        }
    )
    assert sentence.probabilities is not None
    words = to_word_probs(sentence.probabilities)
    assert words.probs.dtype == np.float64
    assert words.probs.tolist() == [[1 / 3, 1 / 3, 1 / 3]]
    assert words.scored.all()
    assert get_external_classes(sentence) == ("O", "X", "Y")
    assert get_external_classes(sentence.model_copy(update={"deleted": True})) is None
