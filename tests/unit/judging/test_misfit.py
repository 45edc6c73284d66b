from __future__ import annotations

import pytest

from service.judging.misfit import find_misfit
from service.statistics.arrivals import FlagCounts


@pytest.mark.parametrize(
    ("sentences", "flagged", "is_misfit"),
    [(49, 49, False), (50, 15, False), (50, 16, True), (1000, 300, False), (1000, 301, True), (0, 0, False)],
)
def test_a_model_does_not_fit_above_30_percent_after_50_sentences(
    sentences: int, flagged: int, is_misfit: bool
) -> None:
    assert (find_misfit(FlagCounts(sentences, flagged)) is not None) is is_misfit


@pytest.mark.parametrize(("flagged", "is_misfit"), [(410, False), (600, False), (601, True)])
def test_a_trained_model_may_flag_more(flagged: int, is_misfit: bool) -> None:
    assert (find_misfit(FlagCounts(1000, flagged), is_trained=True) is not None) is is_misfit


def test_the_explanation_has_the_share_and_the_ways_out() -> None:
    misfit = find_misfit(FlagCounts(1000, 450))
    assert misfit is not None
    text = misfit.explain()
    assert text.startswith("the model does not fit this data: it flags 45% of 1,000 sentences, and more than 30%")
    positions = [text.index(way) for way in ("labelwatch train", "labelwatch model add", "map labels")]
    assert positions == sorted(positions)
