"""Draws from a sentence's name: the same in every replica, every replay and every release."""

from __future__ import annotations

import pytest

from service.statistics.sampling import DrawPurpose, draw_uniform

PURPOSES = (DrawPurpose.CONTROL_SAMPLE, DrawPurpose.RING_POSITION, DrawPurpose.RANK_SHIFT)


@pytest.mark.parametrize(
    ("dataset", "sentence_id", "draws"),
    [
        ("default", "s1", (0.8279363922529309, 0.8608793701016563, 0.42008899340286837)),
        ("trips", "label-studio:41", (0.6401659670727515, 0.8777506510814667, 0.27410088691386997)),
        ("ö", "a/b", (0.582015706198748, 0.3589520817412293, 0.5435866523107499)),
    ],
)
def test_the_draws_of_a_name_never_change(dataset: str, sentence_id: str, draws: tuple[float, ...]) -> None:
    """Another value would draw another control sample, and break the estimate of recall for the running one."""
    assert tuple(draw_uniform(dataset, sentence_id, purpose) for purpose in PURPOSES) == draws


@pytest.mark.parametrize("purpose", PURPOSES)
def test_draws_are_spread_evenly(purpose: DrawPurpose) -> None:
    draws = [draw_uniform("default", str(number), purpose) for number in range(1_000)]
    assert all(0 <= draw < 1 for draw in draws)
    assert [sum(low / 10 <= draw < (low + 1) / 10 for draw in draws) for low in range(10)] == pytest.approx(
        [100] * 10, abs=40
    )
