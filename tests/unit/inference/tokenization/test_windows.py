from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from service.inference.tokenization.windows import WindowBounds, cut_windows

calm = settings(deadline=None, max_examples=60)


@st.composite
def sentences(draw: st.DrawFn) -> tuple[list[int], int]:
    """Where words start, and how much fits a window."""
    sizes = draw(st.lists(st.one_of(st.integers(1, 4), st.integers(1, 60)), min_size=1, max_size=60))
    return [0, *accumulate(sizes)], draw(st.integers(1, 40))


def _context(window: WindowBounds, word: int, end: int) -> int:
    return min(word - window.start, window.end - end)


@calm
@given(sentences())
def test_the_kept_parts_tile_the_sentence(case: tuple[list[int], int]) -> None:
    bounds, capacity = case
    windows = cut_windows(bounds, capacity)
    assert windows[0].keep_start == 0
    assert windows[-1].keep_end == bounds[-1]
    assert all(left.keep_end == right.keep_start for left, right in pairwise(windows))
    for window in windows:
        assert 0 < window.end - window.start <= capacity
        assert window.start <= window.keep_start < window.keep_end <= window.end
    assert len(windows) <= 1 + 5 * bounds[-1] / capacity


@calm
@given(sentences())
def test_a_word_is_read_from_the_window_that_it_is_most_central_in(case: tuple[list[int], int]) -> None:
    bounds, capacity = case
    windows = cut_windows(bounds, capacity)
    for word, end in pairwise(bounds):
        fitting = [w for w in windows if w.start <= word and end <= w.end]
        if fitting:
            (reader,) = [w for w in fitting if w.keep_start <= word and end <= w.keep_end]
            assert _context(reader, word, end) == max(_context(w, word, end) for w in fitting)


@calm
@given(st.lists(st.integers(1, 5), min_size=40, max_size=80))
def test_short_words_are_never_cut_and_have_context(sizes: list[int]) -> None:
    bounds = [0, *accumulate(sizes)]
    for window in cut_windows(bounds, 40):
        assert {window.start, window.end, window.keep_start, window.keep_end} <= set(bounds)
        for word, end in pairwise(bounds):
            if window.keep_start <= word < window.keep_end:
                assert word - window.start >= 5 or window.start == 0
                assert window.end - end >= 5 or window.end == bounds[-1]


def test_what_fits_is_one_window() -> None:
    assert cut_windows([0, 3, 10], 10) == [WindowBounds(0, 10, 0, 10)]
    assert cut_windows([0], 10) == []


def test_one_word_longer_than_a_window() -> None:
    windows = cut_windows([0, 100], 30)
    assert [w.end - w.start for w in windows] == [30] * len(windows)
    assert windows[0].start == 0
    assert windows[-1].end == 100
