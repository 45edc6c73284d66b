"""Bands of the rank: fixed at first, then from the dataset's decisions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.review.likelihood import FIXED_BANDS, MIN_DECISIONS, fit_bands, read_bands
from tests.support.review_queue import QueueHarness, decide_item, make_scored_output

WORDS = ("very_likely_wrong", "probably_wrong", "may_be_right")


def test_the_fixed_bands_hold_until_there_are_enough_decisions() -> None:
    decided = [(0.01, False)] * (MIN_DECISIONS - 1)
    assert fit_bands(decided) == FIXED_BANDS
    assert [FIXED_BANDS.classify(rank) for rank in (0.0, 0.0999, 0.1, 0.3499, 0.35, 1.0)] == [
        WORDS[0],
        WORDS[0],
        WORDS[1],
        WORDS[1],
        WORDS[2],
        WORDS[2],
    ]
    assert fit_bands([*decided, (0.01, False)]).decisions == MIN_DECISIONS


def test_the_bands_find_where_errors_become_rare() -> None:
    """A dataset whose errors end at another rank than the fixed bands expect."""
    random = np.random.default_rng(1)
    ranks = random.uniform(0, 1, 2_000)
    shares = np.where(ranks < 0.4, 0.95, np.where(ranks < 0.7, 0.62, 0.1))
    decided = list(zip(ranks.tolist(), (random.uniform(size=2_000) < shares).tolist(), strict=True))
    bands = fit_bands(decided)
    assert bands.very_likely_below == pytest.approx(0.4, abs=0.06)
    assert bands.probably_below == pytest.approx(0.7, abs=0.06)
    assert bands.decisions == 2_000


def test_a_dataset_whose_flags_are_all_wrong_or_all_right() -> None:
    ranks = [0.02 + number / 1_000 for number in range(100)]
    right = fit_bands((rank, False) for rank in ranks)
    assert right.very_likely_below == right.probably_below == pytest.approx(0.02)  # nothing below was decided
    assert right.classify(0.05) == "may_be_right"
    wrong = fit_bands((rank, True) for rank in ranks)
    assert wrong.classify(max(ranks)) == "very_likely_wrong"
    assert (wrong.classify(0.2), wrong.classify(0.5)) == ("probably_wrong", "may_be_right")  # as the fixed bands say


def test_one_exception_changes_no_band() -> None:
    decided = [(number / 1_000, True) for number in range(60)]
    exceptions = [(0.0005, False), *decided]
    assert fit_bands(exceptions).classify(0.01) == "very_likely_wrong"


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=200))
def test_a_worse_rank_never_sounds_better(decided: list[tuple[float, bool]]) -> None:
    bands = fit_bands(decided)
    assert 0 <= bands.very_likely_below <= bands.probably_below
    said = [WORDS.index(bands.classify(rank)) for rank in np.linspace(0, 1, 101)]
    assert all(a <= b for a, b in pairwise(said))
    assert fit_bands(reversed(decided)) == bands  # no order of the decisions matters


def test_an_item_has_the_words_of_its_dataset(harness: QueueHarness) -> None:
    """Flags that reviewers call right: what is left of them sounds milder than before."""
    harness.write(*(make_scored_output(f"s{number}", 0.01 + number / 2_000) for number in range(61)))
    assert harness.get_item("s60").likelihood == "very_likely_wrong"
    harness.write(*(decide_item(harness.get_item(f"s{number}"), "ok") for number in range(MIN_DECISIONS - 1)))
    assert harness.get_item("s60").likelihood == "very_likely_wrong"
    harness.write(decide_item(harness.get_item("s55"), "ok"))
    assert harness.get_item("s60").likelihood == "may_be_right"
    with harness.queue.file.read_transaction() as db:
        assert read_bands(db, "default").decisions == MIN_DECISIONS
        assert read_bands(db, "other") == FIXED_BANDS
    bands = harness.queue.build_overview("default").likelihood_bands
    assert bands is not None
    assert bands.decisions == MIN_DECISIONS
    assert harness.queue.build_overview().likelihood_bands is None


def test_control_sentences_do_not_count(harness: QueueHarness) -> None:
    controls = [
        make_scored_output(f"c{number}", 0.3, reason="control", inclusion_probability=0.5) for number in range(60)
    ]
    harness.write(make_scored_output("flagged", 0.05), *controls)
    harness.write(*(decide_item(harness.get_item(f"c{number}"), "ok") for number in range(60)))
    assert harness.queue.build_overview("default").likelihood_bands == FIXED_BANDS
