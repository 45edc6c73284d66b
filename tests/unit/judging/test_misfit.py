from __future__ import annotations

import pytest

from service.judging.misfit import explain_misfit, is_misfit


@pytest.mark.parametrize(
    ("sentences", "flagged", "misfit"),
    [(49, 49, False), (50, 15, False), (50, 16, True), (1000, 300, False), (1000, 301, True), (0, 0, False)],
)
def test_a_model_does_not_fit_above_30_percent_after_50_sentences(sentences: int, flagged: int, misfit: bool) -> None:
    assert is_misfit(sentences, flagged) is misfit


def test_the_explanation_has_the_share_and_the_ways_out() -> None:
    text = explain_misfit(1000, 450)
    assert text.startswith("the model does not fit this data: it flags 45% of 1,000 sentences")
    positions = [text.index(way) for way in ("labelwatch train", "labelwatch model add", "map labels")]
    assert positions == sorted(positions)
