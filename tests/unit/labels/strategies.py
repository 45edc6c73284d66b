"""Hypothesis strategies for labelled sentences."""

from __future__ import annotations

from hypothesis import strategies as st

from service.labels import Span


@st.composite
def span_layouts(draw: st.DrawFn, types: tuple[str, ...]) -> tuple[list[Span], int]:
    """(spans, number of words): any layout, with adjacent entities."""
    parts = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from(types)), max_size=6))
    spans, end = [], 0
    for gap, length, entity_type in parts:
        spans.append(Span(end + gap, end + gap + length, entity_type))
        end += gap + length
    return spans, end + draw(st.integers(0, 2))
