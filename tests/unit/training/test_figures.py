from __future__ import annotations

import numpy as np

from service.contracts import LabelledSentence
from service.labels import Scheme
from service.training.figures import compute_figures
from service.training.sentences import NO_CLASS, TrainingSet, collect_sentences
from tests.support.training_data import make_training_text


def predict_given(data: TrainingSet) -> np.ndarray:
    """Probabilities of a model that agrees with every given label, and calls words without a class DRUG."""
    drug = data.classes.index("B-DRUG")
    return np.eye(len(data.classes))[np.where(data.given == NO_CLASS, drug, data.given)]


def test_agreement_everywhere_is_perfect_also_beside_a_type_that_is_not_trained() -> None:
    rare = LabelledSentence(tokens=("Rare", "thing"), labels=("B-RARE", "O"))
    data = collect_sentences([*make_training_text(200).sentences, rare], Scheme.IOB2)
    figures = compute_figures(data, predict_given(data))
    assert figures.f1 == 1
    assert {each.name: (each.precision, each.recall) for each in figures.by_type} == {
        "DRUG": (1, 1),
        "DISEASE": (1, 1),
    }


def test_only_exact_matches_count() -> None:
    data = collect_sentences(make_training_text(200).sentences, Scheme.IOB2)
    probs = predict_given(data)
    probs[data.given == data.classes.index("I-DISEASE")] = np.eye(len(data.classes))[0]
    by_type = {each.name: each for each in compute_figures(data, probs).by_type}
    assert by_type["DRUG"].f1 == 1
    assert 0 < by_type["DISEASE"].f1 < 1
    assert by_type["DISEASE"].precision == by_type["DISEASE"].recall
